"""Check each staged input file as a whole before its rows enter the log, and quarantine the files that fail."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pststream import names
from pststream.ledgers.log_end import recent_row_counts
from pststream.pipeline.ingest.stage_file import StagedFile
from pststream.quality.expectations import ThresholdResults, check_by_comparison
from pststream.quality.landing_expectations import (
    RECENT_FILES,
    LandedFile,
    LandingHistory,
    compute_figures,
    landing_thresholds,
)
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.utc_times import to_micros, utc_now

File = dict[str, Any]
"""A row of the ledger of files."""


def quarantine_failing_files(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[StagedFile],
    watermark: dt.datetime | None,
) -> tuple[list[File], list[File]]:
    """Check files of one kind, whose rows are in `staged`; `watermark`: the greatest ts of the log.

    Returns the rows of `quarantine` for the files that failed, and the files that failed but have changed since they
    were read: these are neither quarantined nor to be ingested. The results are written first, so an ingest that is
    interrupted here checks the files again and quarantines each once.
    """
    checked = _check(home, settings, files, staged, watermark)
    results = [
        _result_row(file, judgement) for file, judgement in zip(files, checked, strict=True) if judgement.results
    ]
    if results:
        ledger_tables.append(home, names.QUALITY_RESULTS, results)
    crash_point("gate.checked")
    failed = [(file, judgement.reasons) for file, judgement in zip(files, checked) if not judgement.success]
    if not failed:
        return [], []
    first = max((hold["hold_id"] for hold in quarantine.read_entries(home)), default=0) + 1
    quarantined = quarantine.add_entries(home, failed, first)
    crash_point("gate.quarantined")
    hashes = {one["sha256"] for one in quarantined}
    return quarantined, [file for file, _ in failed if file["sha256"] not in hashes]


def _check(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[StagedFile],
    watermark: dt.datetime | None,
) -> list[ThresholdResults]:
    """Compute the figures of each file, and check them against the thresholds.

    The figures are compared here: loading Great Expectations would delay a file by seconds in the middle of a stream.
    """
    kind = files[0]["kind"]
    past = LandingHistory(
        recent_row_counts(home, kind, max(RECENT_FILES, settings.gate_history)),
        to_micros(utc_now()),
        None if watermark is None else to_micros(watermark),
    )
    landed = [
        LandedFile(one.rows, one.faults, one.max_time, ": ".join(one.problem[1:2]) if one.problem else None)
        for one in staged
    ]
    figures = [compute_figures(kind, one, past, settings) for one in landed]
    return check_by_comparison(figures, landing_thresholds(kind, settings))


def _result_row(file: File, judgement: ThresholdResults) -> dict[str, Any]:
    """Return the row of `quality_results` for a file."""
    return {
        "checked_at": utc_now(),
        "suite": file["kind"],
        "subject": file["path"],
        "success": judgement.success,
        "failed": judgement.reasons,
        "results": [
            {"name": r.name, "value": None if isinstance(r.value, str) else r.value, "success": r.success}
            for r in judgement.results
        ],
        "batch_id": None,
    }
