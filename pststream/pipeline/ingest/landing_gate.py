"""The landing gate: files that were read are judged as wholes; those that fail are held, the others go on."""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from pststream import names
from pststream.pipeline.ingest.stage_files import Staged
from pststream.quality.expectations import Judgement, judge
from pststream.quality.landing_expectations import RECENT, Landed, Past, figures, landing_suite
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.state.ledger import recent_rows

File = dict[str, Any]


def gate(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[Staged],
    watermark: dt.datetime | None,
) -> tuple[list[File], list[File]]:
    """Judge the files of one kind (rows as of `files`) and hold those that fail. `watermark`: greatest ts of the log.

    Returns the holds, and the files that failed but have changed since they were read: neither held nor taken in.
    The results are written first, so that a try that died is judged again and held once.
    """
    judgements = _judged(home, settings, files, staged, watermark)
    results = [_result(file, judged) for file, judged in zip(files, judgements, strict=True) if judged.results]
    if results:
        ledger_tables.append(home, names.QUALITY_RESULTS, results)
    crash_point("gate.judged")
    failed = [(file, judged.reasons) for file, judged in zip(files, judgements) if not judged.success]
    if not failed:
        return [], []
    first = max((hold["hold_id"] for hold in quarantine.holds(home)), default=0) + 1
    held = quarantine.hold(home, failed, first)
    crash_point("gate.held")
    known = {one["sha256"] for one in held}
    return held, [file for file, _ in failed if file["sha256"] not in known]


def _judged(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[Staged],
    watermark: dt.datetime | None,
) -> list[Judgement]:
    kind = files[0]["kind"]
    past = Past(
        recent_rows(home, kind, max(RECENT, settings.gate_history)),
        ledger_tables.micros_of(ledger_tables.now()),
        None if watermark is None else ledger_tables.micros_of(watermark),
    )
    landed = [
        Landed(one.rows, one.faults, one.max_time, ": ".join(one.problem[1:2]) if one.problem else None)
        for one in staged
    ]
    return judge([figures(kind, one, past, settings) for one in landed], landing_suite(kind, settings))


def _result(file: File, judged: Judgement) -> dict[str, Any]:
    return {
        "at": ledger_tables.now(),
        "suite": file["kind"],
        "subject": file["path"],
        "success": judged.success,
        "failed": judged.reasons,
        "results": json.dumps([{"name": r.name, "value": r.value, "success": r.success} for r in judged.results]),
        "batch_id": None,
    }
