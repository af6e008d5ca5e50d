"""Check each staged input file as a whole before its rows enter the log, and quarantine the files that fail.

First the figures of the landing gate are compared with their thresholds, then the users' suites judge the rows.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.utc_times import to_micros, utc_now
from pststream.input.confined_files import content_below
from pststream.input.expectations import (
    RECENT_FILES,
    CheckResults,
    LandedFile,
    LandingHistory,
    check_thresholds,
    compute_figures,
    landing_thresholds,
)
from pststream.input.run_suites import SuiteResult, judge_frames, load_suites
from pststream.input.suite_files import LANDED, SUBJECTS, Suite, draw_places, make_frame
from pststream.pipeline.ingest.stage_file import File, StagedFile, folder_of
from pststream.pipeline.ingest.staged_rows import read_staged
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value
from pststream.tables.ledgers import recent_row_counts
from pststream.tables.open_tables import latest_table

MAX_BYTES = 1 << 28
"""Bytes of the rows of a file that are judged at most; in pandas they take several times as many."""


def load_landed_suites(home: Home, kinds: Sequence[str]) -> dict[str, list[Suite]]:
    """Return the checked suites for files of each kind; raises as `load_suites`."""
    return {kind: load_suites(home.files, home.path, LANDED[kind]) for kind in kinds}


def _read_secret(home: Home) -> str:
    """Return the id of a table, a random one: who lands a file cannot know which of its rows are judged."""
    with latest_table(home.table(names.OBJECTS)) as table:
        return str(table.metadata().id)


def _count_accepted(staged: StagedFile) -> int:
    return staged.rows - sum(staged.faults.values())


def _read_rows(staged: StagedFile, subject: str, columns: list[str], limit: int, seed: str) -> pa.Table:
    """Read columns of the accepted rows, or of `limit` of them, drawn at random; of fewer if these have many bytes."""
    count = _count_accepted(staged)
    limit = min(limit, count)
    while (
        read := _draw_rows(staged, columns, draw_places(count, limit, seed), None if limit == 1 else MAX_BYTES)
    ) is None:
        limit = (limit + 1) // 2
    schema = pa.schema([SUBJECTS[subject].field(name) for name in columns])
    return pa.Table.from_batches([rows.cast(schema) for rows in read], schema=schema)


def _draw_rows(
    staged: StagedFile, columns: list[str], positions: np.ndarray | None, max_bytes: int | None
) -> list[pa.RecordBatch] | None:
    """Read the accepted rows at these positions, or all; None as soon as they have more than `max_bytes`."""
    read, before, size = [], 0, 0
    for batch in read_staged(staged.parts, [*columns, "reason"]):
        rows = batch.filter(pc.is_null(batch.column("reason"))).select(columns)
        if positions is not None:
            first, last = np.searchsorted(positions, [before, before + rows.num_rows])
            count, rows = rows.num_rows, rows.take(pa.array(positions[first:last] - before))
            before += count
        read.append(rows)
        size += rows.nbytes
        if max_bytes is not None and size > max_bytes:
            return None
    return read


def quarantine_failing_files(
    home: Home,
    settings: Settings,
    files: Sequence[File],
    staged: Sequence[StagedFile],
    suites: Sequence[Suite],
) -> tuple[list[File], list[File], tuple[str, ...]]:
    """Check files of one kind, whose rows are in `staged`, and quarantine those that fail.

    Returns the new rows of `quarantine`; the files that failed but have changed since they were read, which are neither
    quarantined nor to be ingested; and the addresses of the Data Docs that the suites have written. The results are
    written first, so an ingest that is interrupted here checks the files again and quarantines each once.
    """
    checked = _check(home, settings, files, staged)
    passed = [index for index, one in enumerate(checked) if one.success and _count_accepted(staged[index])]
    of_suites: list[list[SuiteResult]] = [[] for _ in files]
    data_docs: tuple[str, ...] = ()
    if suites and passed:
        subject, secret = suites[0].subject, _read_secret(home)
        columns = [name for name in SUBJECTS[subject].names if any(name in suite.columns for suite in suites)]

        def frame_of(index: int) -> tuple[str, Any]:
            seed = secret + files[index]["sha256"]
            rows = _read_rows(staged[index], subject, columns, settings.suite_rows, seed)
            return Path(files[index]["path"]).name, make_frame(rows)  # the Data Docs show the name

        judged, page = judge_frames(home.files, home.path, suites, map(frame_of, passed))
        for index, of_file in zip(passed, judged, strict=True):
            of_suites[index] = of_file
        data_docs = (page,)
    results = [
        quality_row(file["kind"], file["path"], one.success, one.reasons, _figures(one))
        for file, one in zip(files, checked)
        if one.results
    ]
    results += [
        quality_row(one.suite.label, file["path"], one.success, one.reasons, one.rows)
        for file, of_file in zip(files, of_suites)
        for one in of_file
    ]
    if results:
        ledger_tables.append(home, names.QUALITY_RESULTS, results)
    crash_point("gate.checked")
    reasons = [
        [*judgement.reasons, *(reason for one in of_file for reason in one.reasons)]
        for judgement, of_file in zip(checked, of_suites)
    ]
    failed = [(file, of_file) for file, of_file in zip(files, reasons) if of_file]
    if not failed:
        return [], [], data_docs
    quarantined = quarantine_files(home, failed, quarantine.find_room(home, settings))
    crash_point("gate.quarantined")
    paths = {one["path"] for one in quarantined}
    changed = [file for file, _ in failed if file["path"] not in paths]
    return quarantined, changed, data_docs


NO_COPIES = quarantine.Room(0, 0)


def quarantine_files(
    home: Home, files: Sequence[tuple[File, list[str]]], room: quarantine.Room
) -> list[dict[str, Any]]:
    """Quarantine files, each with its reasons; return their rows, without those of files that have changed."""
    first = greatest_value(home.table(names.QUARANTINE), "hold_id") + 1
    return quarantine.add_entries(home, files, first, _open_confined, room)


def _open_confined(file: File, path: str) -> AbstractContextManager[str]:
    return content_below(path, folder_of(file))


def _check(home: Home, settings: Settings, files: Sequence[File], staged: Sequence[StagedFile]) -> list[CheckResults]:
    """Compute the figures of each file, and check them against the thresholds.

    The usual volume is that of the file's folder, so that nobody's files make those of another folder unusual.
    """
    kind, now = files[0]["kind"], to_micros(utc_now())
    paths = [file["path"] for file in files]
    counts = recent_row_counts(home, kind, paths, max(RECENT_FILES, settings.gate_history))
    landed = [
        LandedFile(one.rows, one.faults, one.max_time, ": ".join(one.problem[1:2]) if one.problem else None)
        for one in staged
    ]
    figures = [
        compute_figures(kind, one, LandingHistory(rows, now), settings)
        for one, rows in zip(landed, counts, strict=True)
    ]
    return check_thresholds(figures, landing_thresholds(kind, settings))


def _figures(judgement: CheckResults) -> list[dict[str, Any]]:
    """Return the column `results` of a file that the gate has checked; it has numbers only."""
    return [
        {"name": one.name, "value": None if isinstance(one.value, str) else one.value, "success": one.success}
        for one in judgement.results
    ]


def quality_row(
    suite: str,
    subject: str,
    success: bool,
    failed: list[str],
    results: list[dict[str, Any]],
    batch_id: int | None = None,
) -> dict[str, Any]:
    """Return a row of `quality_results`."""
    return {
        "checked_at": utc_now(), "suite": suite, "subject": subject, "success": success, "failed": failed,
        "results": results, "batch_id": batch_id,
    }  # fmt: skip
