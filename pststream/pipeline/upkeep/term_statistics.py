"""Count the objects that have each term, as a new version of the term statistics (`pststream term-statistics`).

The event takes one position of the request log, and from there on the version weighs the words of `topk`. The table
`term_statistics` gets the counts first; the row of `files` that takes the position makes them count. A run that was
killed before has changed nothing; the next one removes the counts that it left.
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import csr
from pststream.base.errors import UsageError
from pststream.base.progress import Progress, no_progress
from pststream.base.utc_times import utc_now
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.kernels.questions.build_segment import number_terms
from pststream.pipeline.batch.micro_batch import finish_interrupted_work
from pststream.pipeline.questions.question_ledger import unfinished_files
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import login_name
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices, split_into_tasks
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import greatest_value, last_transaction, read_table
from pststream.tables.ledgers import Ledger, log_key
from pststream.tables.log_events import WithdrawnRows, statistics_in_force, withdrawn_objects

PATH = "term-statistics"
"""Path of a change of version in `files`."""

PARTS = 8
"""Parts that sum the counts at most; each has a range of term ids and writes a file."""

SUMMED_ROWS = 4_000_000
"""Counts that a part receives before it sums them."""

TERMS, OBJECTS = 0, 1
"""Tags in the shuffle: counts of terms, and the number of objects that a task has read."""

_COUNTS = pa.schema({"term_id": pa.int64(), "documents": pa.int64()})


class _Counted(NamedTuple):
    """The files that parts wrote, and how many terms and objects they counted."""

    files: list[DataFile]
    terms: int
    objects: int


def make_term_statistics(
    home: Home, settings: Settings, *, dry_run: bool = False, progress: Progress = no_progress
) -> dict[str, Any]:
    """Count the objects that have each term, over all accepted objects that are not withdrawn, and put it in force.

    Returns {"dry_run", "version", "objects", "terms", "seconds"}, which `pststream term-statistics --json` prints.
    Finishes an interrupted ingest or batch first. Raises UsageError if no object has a word; then nothing has changed.
    The driver gets the names of the files and the sums.
    """
    home.check()
    began = time.perf_counter()
    if dry_run:
        version = statistics_in_force(home).version + 1
        counted = _count(home, settings, None)
    else:
        with home.locked():
            finish_interrupted_work(home, settings, progress)
            version = statistics_in_force(home).version + 1
            if greatest_value(home.table(names.TERM_STATISTICS), "statistics_version") >= version:
                ledger_tables.delete_versions(home, names.TERM_STATISTICS, "statistics_version", version)
            counted = _count(home, settings, version)
            crash_point("statistics.counted")
            _record(home, version, counted)
    sums = {"objects": counted.objects, "terms": counted.terms}
    return {"dry_run": dry_run, "version": version, **sums, "seconds": round(time.perf_counter() - began, 3)}


def drop_old_statistics(home: Home) -> None:
    """Delete the counts of versions that no later batch or question names; the home is locked.

    Those are the versions before the one that was in force at the end of the last batch, at the first request, or where
    an unfinished file of questions began.
    """
    inserts = (pds.field("kind") == names.REQUESTS) & (pds.field("accepted") > 0)
    first = pc.min(read_table(home.table(names.FILES), ["file_seq"], inserts).column(0)).as_py()
    of_batches = names.MAX_INT64 if first is None else max(Ledger(home).requests_applied, log_key(first, 0))
    first_position = min([of_batches, *(file["objects_to"] for file in unfinished_files(home))])
    kept = statistics_in_force(home, first_position).version
    if kept > 1:
        ledger_tables.delete_versions(home, names.TERM_STATISTICS, "statistics_version", 1, kept - 1)


def _count(home: Home, settings: Settings, version: int | None) -> _Counted:
    """Count by tasks, and write the counts as a version if one is given; UsageError if no object has a word."""
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, list_data_files(home, names.OBJECTS)))
    parts = min(PARTS, len(tasks))
    stages = [Stage(parts, partial(_sum_part, home.table(names.TERM_STATISTICS), version))]
    counted: list[_Counted] = []
    if tasks:
        count = partial(_count_task, parts, withdrawn_objects(home))
        counted = get_engine(settings, home).run_shuffled(tasks, count, stages)
    terms = sum(part.terms for part in counted)
    if not terms:
        raise UsageError("term-statistics: no stored object has a word", "ingest objects first")
    return _Counted([file for part in counted for file in part.files], terms, sum(part.objects for part in counted))


def _record(home: Home, version: int, counted: _Counted) -> None:
    """Commit the counts, then write the row of `files` that puts the version in force."""
    last = last_transaction(home.table(names.TERM_STATISTICS), PATH)
    commit_files(home, names.TERM_STATISTICS, counted.files, application=PATH, transaction=last + 1)
    crash_point("statistics.committed")
    ledger = Ledger(home)
    options = {"objects": counted.objects, "terms": counted.terms, "requested_by": login_name()}
    row = {
        "file_seq": ledger.next_file_seq, "ingest_id": ledger.next_ingest_id, "kind": names.REQUESTS, "path": PATH,
        "sha256": "", "bytes": 0, "options": json.dumps(options), "status": "done",
        "rows": 1, "accepted": 0, "rejected": 0, "started_at": utc_now(), "statistics_version": version,
    }  # fmt: skip
    ledger_tables.append(home, names.FILES, [row])
    crash_point("statistics.done")


def _count_task(parts: int, withdrawn: WithdrawnRows, slices: tuple[Slice, ...]) -> Iterator[SentRows]:
    """Count the terms of some rows; send each count to the part of its term, and the number of rows to the first."""
    parts_of_ids, objects = [np.empty(0, np.int64)], 0
    for rows in read_slices(slices, ["object_key", "terms"]):
        counts = pa.array(~withdrawn.contain(rows.column("object_key").to_numpy()))
        kept = rows.filter(counts)
        parts_of_ids.append(csr(kept.column("terms"))[1])
        objects += kept.num_rows
    ids, numbers = number_terms(np.concatenate(parts_of_ids))
    documents = np.bincount(numbers, minlength=len(ids))
    order = np.argsort(ids)
    # The hashes of terms are spread evenly, and parts ascend with them.
    borders = np.searchsorted(((ids[order] >> 32) + (1 << 31)) * parts >> 32, np.arange(parts + 1))
    for part, (low, high) in enumerate(zip(borders, borders[1:])):
        if high > low:
            chosen = order[low:high]
            yield part, TERMS, pa.record_batch([pa.array(ids[chosen]), pa.array(documents[chosen])], schema=_COUNTS)
    yield 0, OBJECTS, pa.record_batch([pa.array([0]), pa.array([objects])], schema=_COUNTS)


def _sum_part(root: str, version: int | None, part: int, received: ReceivedRows) -> _Counted:
    """Sum the counts of a range of terms, and write them to a data file."""
    waiting, rows, objects = [pa.record_batch([[], []], schema=_COUNTS)], 0, 0
    for tag, batch in received:
        if tag == OBJECTS:
            objects += int(batch.column("documents").to_numpy().sum())
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if rows > SUMMED_ROWS:
            waiting, rows = [_summed(waiting)], 0
    sums = _summed(waiting)
    writer = FileWriter(root, TABLES[names.TERM_STATISTICS].schema)
    if version is not None:
        versions = pa.array(np.full(sums.num_rows, version, np.int64))
        writer.write(pa.record_batch([versions, *sums.columns], names=["statistics_version", *_COUNTS.names]))
    file = writer.close()
    return _Counted([file] if file else [], sums.num_rows, objects)


def _summed(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the sum of the counts of each term, by ascending term."""
    ids, documents = (np.concatenate([batch.column(name).to_numpy() for batch in batches]) for name in _COUNTS.names)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    first = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
    sums = np.add.reduceat(documents[order], first) if len(first) else documents
    return pa.record_batch([pa.array(ids[first]), pa.array(sums)], schema=_COUNTS)
