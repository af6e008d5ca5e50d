"""Check each staged input file as a whole before its rows enter the log, and quarantine the files that fail.

First the figures of the landing gate are compared with their thresholds, then the users' suites judge the rows.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.utc_times import to_micros, utc_now
from pststream.input.confined_files import content_below
from pststream.input.expectations import ThresholdResults, check_thresholds
from pststream.input.landing_expectations import (
    RECENT_FILES,
    LandedFile,
    LandingHistory,
    compute_figures,
    landing_thresholds,
)
from pststream.input.run_suites import SuiteResult
from pststream.input.suite_files import Suite
from pststream.pipeline.ingest.judge_landed import judge_files
from pststream.pipeline.ingest.stage_file import StagedFile, folder_of
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.tables.ledgers import recent_row_counts

File = dict[str, Any]
"""A row of the ledger of files."""


@dataclass(frozen=True)
class GateOutcome:
    """What the gate did with files of one kind.

    quarantined  rows of `quarantine`, of the files that failed
    changed      files that failed but have changed since they were read: neither quarantined nor to be ingested
    data_docs    addresses of the Data Docs that the suites have written
    """

    quarantined: list[File]
    changed: list[File]
    data_docs: tuple[str, ...]


def quarantine_failing_files(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[StagedFile],
    suites: Sequence[Suite],
) -> GateOutcome:
    """Check files of one kind, whose rows are in `staged`.

    The results are written first, so an ingest that is interrupted here checks the files again and quarantines each
    once.
    """
    checked = _check(home, settings, files, staged)
    labels = [Path(file["path"]).name if one.success else None for file, one in zip(files, checked, strict=True)]
    judged = judge_files(home, settings, suites, staged, labels, [file["sha256"] for file in files])
    of_suites = [judged.results.get(index, []) for index in range(len(files))]
    results = [_result_row(file, judgement) for file, judgement in zip(files, checked) if judgement.results]
    results += [_suite_row(file, result) for file, of_file in zip(files, of_suites) for result in of_file]
    if results:
        ledger_tables.append(home, names.QUALITY_RESULTS, results)
    crash_point("gate.checked")
    reasons = [
        [*judgement.reasons, *(reason for one in of_file for reason in one.reasons)]
        for judgement, of_file in zip(checked, of_suites)
    ]
    failed = [(file, of_file) for file, of_file in zip(files, reasons) if of_file]
    if not failed:
        return GateOutcome([], [], judged.data_docs)
    first = max((hold["hold_id"] for hold in quarantine.read_entries(home)), default=0) + 1
    quarantined = quarantine.add_entries(home, failed, first, _open_confined)
    crash_point("gate.quarantined")
    hashes = {one["sha256"] for one in quarantined}
    changed = [file for file, _ in failed if file["sha256"] not in hashes]
    return GateOutcome(quarantined, changed, judged.data_docs)


def _open_confined(file: File, path: str) -> AbstractContextManager[str]:
    return content_below(path, folder_of(file))


def _check(
    home: Home, settings: Settings, files: Sequence[File], staged: Sequence[StagedFile]
) -> list[ThresholdResults]:
    """Compute the figures of each file, and check them against the thresholds."""
    kind = files[0]["kind"]
    counts = recent_row_counts(home, kind, max(RECENT_FILES, settings.gate_history))
    past = LandingHistory(counts, to_micros(utc_now()))
    landed = [
        LandedFile(one.rows, one.faults, one.max_time, ": ".join(one.problem[1:2]) if one.problem else None)
        for one in staged
    ]
    figures = [compute_figures(kind, one, past, settings) for one in landed]
    return check_thresholds(figures, landing_thresholds(kind, settings))


def _result_row(file: File, judgement: ThresholdResults) -> dict[str, Any]:
    """Return the row of `quality_results` for a file that the gate has checked."""
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


def _suite_row(file: File, result: SuiteResult) -> dict[str, Any]:
    """Return the row of `quality_results` for a file that a suite has judged."""
    return {
        "checked_at": utc_now(),
        "suite": result.suite.label,
        "subject": file["path"],
        "success": result.success,
        "failed": result.reasons,
        "results": result.rows,
        "batch_id": None,
    }
