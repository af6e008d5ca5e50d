"""Judge the accepted rows of staged files by the suites of the home, before they enter the log."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.input.judged_rows import LANDED, SUBJECTS, draw_places, make_frame
from pststream.input.run_suites import SuiteResult, judge_frames, load_suites
from pststream.input.suite_files import Suite
from pststream.pipeline.ingest.stage_file import StagedFile
from pststream.pipeline.ingest.staged_rows import read_staged
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.open_tables import latest_table

MAX_BYTES = 1 << 28
"""Bytes of the rows of a file that are judged at most; in pandas they take several times as many."""


@dataclass(frozen=True)
class JudgedFiles:
    """The results of the suites for each judged file, by its place, and the addresses of the Data Docs."""

    results: dict[int, list[SuiteResult]] = field(default_factory=dict)
    data_docs: tuple[str, ...] = ()


def load_landed_suites(home: Home, kinds: Sequence[str]) -> dict[str, list[Suite]]:
    """Return the checked suites for files of each kind; raises as `load_suites`."""
    return {kind: load_suites(home.files, home.path, LANDED[kind]) for kind in kinds}


def judge_files(
    home: Home,
    settings: Settings,
    suites: Sequence[Suite],
    staged: Sequence[StagedFile],
    titles: Sequence[str | None],
    hashes: Sequence[str],
) -> JudgedFiles:
    """Judge each staged file that has a title and accepted rows; write the Data Docs of the run into the home.

    titles: the last part of each file's path, by which the Data Docs name it; None: the file is not judged
    hashes: the SHA-256 of each file
    """
    wanted = {index for index, title in enumerate(titles) if title is not None and _count_accepted(staged[index])}
    if not suites or not wanted:
        return JudgedFiles()
    subject = suites[0].subject
    columns = [name for name in SUBJECTS[subject].names if any(name in suite.columns for suite in suites)]
    indexes = sorted(wanted)
    secret, limit = _read_secret(home), settings.suite_rows
    frames = (
        (titles[index] or "", make_frame(_read_rows(staged[index], subject, columns, limit, secret + hashes[index])))
        for index in indexes
    )
    results, page = judge_frames(home.files, home.path, suites, frames)
    return JudgedFiles(dict(zip(indexes, results, strict=True)), (page,))


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
