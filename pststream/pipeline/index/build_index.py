"""Write subscriptions to the worker index: each piece to all workers that own units of its box and posting terms.

A piece is posted under the terms of one clause of its conjunctive normal form, the rarest clause by the term
frequencies of the plan. `index_requests` adds the requests of one batch; `rebuild_index` builds the index of a new plan
from the old index.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import look_up
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, deletions_of, dispatch_index, term_frequencies
from pststream.matching.segments import Deletions
from pststream.pipeline.index.place_pieces import (
    INDEX_BUILT,
    REBUILD,
    REQUESTS,
    PlacingPlan,
    commit_placed,
    placing_plan,
    placing_stages,
    send_on,
    send_to_place,
    write_placed,
)
from pststream.planning.dispatch import DispatchIndex, make_dispatch
from pststream.plans.pieces import rarest_clause_first
from pststream.plans.plan import PartitionPlan
from pststream.queries.kinds.contract import QueryKind
from pststream.queries.kinds.registry import piece_columns, split_by_kind
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import (
    DataFile,
    DataFiles,
    FileWriter,
    addresses_and_rows,
    commit_files,
    list_data_files,
)
from pststream.state.home import Home
from pststream.state.index_files import SEGMENT_ROWS, IndexFiles, index_files
from pststream.state.plans import TermFrequencies, load_plan, read_plan_row
from pststream.state.slices import SLICE_ROWS, KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.state.tables import TABLES
from pststream.storage.parquet_files import delete_files
from pststream.tables.delta_tables import last_transaction
from pststream.tables.log_events import WithdrawnRows, withdrawn_requests

SCHEMA = TABLES[names.WORKER_INDEX].schema
PIECES = pa.schema([field for field in SCHEMA if field.name not in ("index_version", "worker", "batch_id")])
"""Columns of a piece: one box of a subscription, its clauses and its validity."""

REQUEST_COLUMNS = ["subscription_key", "replaced_key", "op", "effective_at", "expires_at", *piece_columns()]
SEGMENT_BYTES = 256 * 1024 * 1024
"""About the greatest size of its rows in memory, which the edges of large polygons reach with few rows."""

PART_BYTES = 32 * 1024 * 1024
"""Requests of about so many bytes are cut into pieces at a time."""

AFTER_WORKERS = (names.WORKER_INDEX, names.PLACEMENTS, names.PLACEMENT_AREAS)
"""Tables that the parts after those of the workers write: deletions of the index, and what was placed."""

TASK_BYTES = 32 * 1024 * 1024
"""About the greatest size of the request files that a task reads. The number of tasks decides whether Spark runs them,
which keeps shuffled rows on disk."""


@dataclass(frozen=True)
class PlanAndFrequencies:
    """A plan and the term frequencies of its sample."""

    plan: PartitionPlan
    frequencies: TermFrequencies


def index_requests(
    home: Home, context: TaskContext, after: int, up_to: int, settings: Settings, progress: Progress
) -> None:
    """Append the index rows of the requests with keys in (after, up_to], in one commit of the batch."""
    placing = find_placing_plan(home, context.plan_version, REQUESTS)
    files, placed = _write_requests(home, context, placing, (after, up_to), settings, progress)
    if placing is not None:
        commit_placed(home, placed, placing, context.batch_id)
        crash_point("match.placed")
    commit_files(
        home, names.WORKER_INDEX, files, application=f"index-{context.index_version}", transaction=context.batch_id
    )


def index_and_discard(
    home: Home, context: TaskContext | None, keys: tuple[int, int], settings: Settings, progress: Progress
) -> None:
    """Index the requests with keys in (after, up_to] without a result; without a plan (context), make their pieces."""
    if context is None:
        tasks, requests = _tasks_of_requests(home, keys)
        get_engine(settings, home).run_tasks(tasks, partial(_count_pieces, requests, withdrawn_requests(home)))
        return
    placing = find_placing_plan(home, context.plan_version, REQUESTS)
    files, placed = _write_requests(home, context, placing, keys, settings, progress)
    for name, written in [(names.WORKER_INDEX, files), *placed.items()]:
        delete_files([f"{home.table(name)}/{file.path}" for file in written])


def _count_pieces(requests: KeyRange, withdrawn: WithdrawnRows, slices: tuple[Slice, ...]) -> int:
    parts = (part for rows in read_requests(slices, requests, withdrawn) for part in split_by_bytes(rows))
    return sum(make_pieces(part).num_rows for part in parts)


def _tasks_of_requests(home: Home, keys: tuple[int, int]) -> tuple[list[tuple[Slice, ...]], KeyRange]:
    requests = KeyRange("request_key", *keys)
    new = requests.files(list_data_files(home, names.REQUESTS))
    return split_into_tasks(addresses_and_rows(home, names.REQUESTS, new), rows_of_task(new)), requests


def _write_requests(
    home: Home,
    context: TaskContext,
    placing: PlacingPlan | None,
    keys: tuple[int, int],
    settings: Settings,
    progress: Progress,
) -> tuple[list[DataFile], dict[str, list[DataFile]]]:
    """Write the index rows of the requests with keys in (after, up_to]; return the files, not yet committed."""
    tasks, requests = _tasks_of_requests(home, keys)
    # Tasks read slices of the request log with `_send_requests`; each worker's rows are written by one `_write_part`.
    reading = Counted("indexing requests", "request", rows_of_tasks(tasks))
    send = partial(_send_requests, context, requests, withdrawn_requests(home))
    return write_placed_index(settings, context, placing, tasks, send, reading, progress)


def read_requests(slices: Iterable[Slice], requests: KeyRange, withdrawn: WithdrawnRows) -> Iterator[pa.RecordBatch]:
    """Yield the requests with keys in the range, without those that were set aside: request_key, REQUEST_COLUMNS.

    A replacement that was set aside is a deletion.
    """
    for rows in read_slices(slices, ["request_key", *REQUEST_COLUMNS], requests):
        if withdrawn:
            is_set_aside = pa.array(withdrawn.contain(rows.column("request_key").to_numpy()))
            operation = pc.if_else(is_set_aside, "delete", rows.column("op"))
            rows = rows.set_column(rows.schema.get_field_index("op"), "op", operation)
            rows = rows.filter(pc.or_(pc.invert(is_set_aside), pc.is_valid(rows.column("replaced_key"))))
        yield rows


def rows_of_task(files: DataFiles) -> int:
    """Return how many rows a task reads of request files: SLICE_ROWS, or fewer with large polygons."""
    size, rows = sum(file.bytes for file in files), sum(file.rows for file in files)
    return max(1, min(SLICE_ROWS, TASK_BYTES * rows // max(size, 1)))


def rebuild_index(
    home: Home,
    old: TaskContext,
    new: TaskContext,
    new_plan: PlanAndFrequencies,
    settings: Settings,
    progress: Progress,
) -> None:
    """Build the index of a new plan from the index of the old plan, with deletions applied."""
    indexed = index_files(home, old.plan_version)
    tasks = split_into_tasks((file.path, file.rows) for file in indexed if file.worker != names.EVERY_WORKER)
    # Tasks read slices of the old index with `_send_pieces`; each worker's rows are written by one `_write_part`.
    placing = placing_plan(new_plan.plan, new.plan_version, REBUILD)
    reading = Counted("reading the index", "piece", rows_of_tasks(tasks))
    send = partial(_send_pieces, old, indexed, new, new_plan)
    files, placed = write_placed_index(settings, new, placing, tasks, send, reading, progress)
    # A killed planner may have built an index of this version, which the caller has deleted; so each try has a
    # transaction number of its own.
    last = last_transaction(home.table(names.WORKER_INDEX), "rebuild")
    commit_files(home, names.WORKER_INDEX, files, application="rebuild", transaction=last + 1)
    if placing is not None:
        commit_placed(home, placed, placing, INDEX_BUILT)


def find_placing_plan(home: Home, version: int, step: str) -> PlacingPlan | None:
    """Return the stored plan if it shares by subscription, to place in a step."""
    placement = read_plan_row(home, version)["placement_version"]
    return None if placement is None else placing_plan(load_plan(home, version), placement, step)


def write_placed_index(
    settings: Settings,
    context: TaskContext,
    placing: PlacingPlan | None,
    tasks: Sequence[tuple[Slice, ...]],
    send: Callable[[PlacingPlan | None, int, tuple[Slice, ...]], Iterator[SentRows]],
    reading: Counted,
    progress: Progress,
) -> tuple[list[DataFile], dict[str, list[DataFile]]]:
    """Send the pieces of the tasks to their workers and write them; return files of the index, and others by table.

    send: takes the plan that places, the number of parts that hold pieces, and the slices of a task
    """
    engine = get_engine(settings, Home(context.home))
    parts = engine.parallelism
    stages = placing_stages(context, placing, parts, partial(rows_by_worker, context=context)) if placing else []
    placed = [Counted("placing subscriptions", "part", stage.parts) for stage in stages]
    writing = Counted("writing the index", "worker", context.workers)
    written: list[tuple[str, list[DataFile]]] = engine.run_shuffled(
        tasks,
        partial(send, placing, parts),
        [*stages, Stage(context.workers + len(AFTER_WORKERS), partial(_write_part, context))],
        TaskCounter(progress, reading, *placed, writing),
    )
    by_table = {name: [file for table, files in written if table == name for file in files] for name in AFTER_WORKERS}
    return by_table.pop(names.WORKER_INDEX), by_table


def _send_requests(
    context: TaskContext,
    requests: KeyRange,
    withdrawn: WithdrawnRows,
    placing: PlacingPlan | None,
    parts: int,
    slices: tuple[Slice, ...],
) -> Iterator[SentRows]:
    dispatch = dispatch_index(context.home, context.plan_version)
    frequencies = term_frequencies(context.home, context.plan_version)
    for rows in read_requests(slices, requests, withdrawn):
        deletions = select_deletions(rows, context.batch_id)
        yield send_on(deletions) if placing else (context.workers, 0, deletions)
        for part in split_by_bytes(rows):
            pieces = rank_clauses(make_pieces(part), frequencies.frequency)
            yield from _send_to_workers(pieces, dispatch, context, placing, parts)


def split_by_bytes(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split rows into parts of about PART_BYTES: making pieces takes several times the memory of large polygons."""
    step = max(1, rows.num_rows * PART_BYTES // max(rows.nbytes, PART_BYTES))
    return (rows.slice(first, step) for first in range(0, rows.num_rows, step))


def _send_pieces(
    old: TaskContext,
    indexed: IndexFiles,
    new: TaskContext,
    new_plan: PlanAndFrequencies,
    placing: PlacingPlan | None,
    parts: int,
    slices: tuple[Slice, ...],
) -> Iterator[SentRows]:
    dispatch = make_dispatch(new_plan.plan)
    unit = PIECES.get_field_index("unit")
    for stored in read_pieces(old, indexed, slices):
        unplaced = stored.set_column(unit, "unit", pa.nulls(stored.num_rows, PIECES.field(unit).type))
        pieces = rank_clauses(unplaced, new_plan.frequencies.frequency)
        yield from _send_to_workers(pieces, dispatch, new, placing, parts)


def _send_to_workers(
    pieces: pa.RecordBatch, dispatch: DispatchIndex, context: TaskContext, placing: PlacingPlan | None, parts: int
) -> Iterator[SentRows]:
    """Send pieces, the posted clause first, to their workers, or to be placed."""
    if placing is not None:
        return send_to_place(pieces, placing, parts)
    return rows_by_worker(pieces, *workers_by_row(pieces, dispatch), context)


def read_pieces(context: TaskContext, indexed: IndexFiles, slices: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
    """Yield each piece of an index once, with its batch and deletions applied: from the first worker that stores it."""
    deleted = deletions_of(indexed, context.cache_dir, context.cache_bytes)
    for file_slice in slices:
        file = indexed.find(file_slice.path)
        dispatch = dispatch_index(context.home, file.plan_version)
        for rows in read_slices([file_slice], [*PIECES.names, "batch_id"]):
            offsets, workers = dispatch.workers_of_rows(rows)
            mine = rows.filter(pa.array(workers[offsets[:-1]] == file.worker))
            yield apply_deletions(mine, deleted)


def is_served_by(pieces: pa.RecordBatch, dispatch: DispatchIndex, worker: int) -> np.ndarray:
    """Return whether the worker serves each piece: bool[pieces]."""
    row, workers = workers_by_row(pieces, dispatch)
    return np.bincount(row[workers == worker], minlength=pieces.num_rows) > 0


def apply_deletions(pieces: pa.RecordBatch, deleted: Deletions) -> pa.RecordBatch:
    """Set the end of each deleted piece to its deletion, if that is before the end it has."""
    return pieces.set_column(PIECES.get_field_index("end_at"), "end_at", pa.array(ends_of(pieces, deleted)))


def ends_of(pieces: pa.RecordBatch, deleted: Deletions) -> np.ndarray:
    """Return the end of each piece (microseconds), which is that of its deletion if that is earlier: int64[pieces]."""
    keys, ends = deleted
    own, until = (pieces.column(name).to_numpy() for name in ("subscription_key", "end_at"))
    return np.minimum(until, look_up(own, keys, ends, names.NEVER_US))


def make_pieces(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Make the pieces of the insertions among rows of `requests`."""
    inserted = rows.filter(pc.equal(rows.column("op"), "insert"))
    return pa.concat_batches([_pieces_of_kind(kind, of_kind) for kind, of_kind in split_by_kind(inserted)])


def _pieces_of_kind(kind: QueryKind, inserted: pa.RecordBatch) -> pa.RecordBatch:
    made = kind.make_pieces(inserted)
    row = pa.array(made.row)
    expires = inserted.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US)
    values = {
        "subscription_key": inserted.column("subscription_key").take(row),
        **dict(zip(made.columns.schema.names, made.columns.columns)),
        "created_at": inserted.column("effective_at").cast(pa.int64()).take(row),
        "end_at": expires.take(row),
    }
    nulls = {field.name: pa.nulls(len(row), field.type) for field in PIECES if field.name not in values}
    return pa.RecordBatch.from_pydict(values | nulls, schema=PIECES)


def ending_requests(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of `requests` that end a subscription, whose key is then their `subscription_key`."""
    replaced = rows.column("replaced_key")
    index = rows.schema.get_field_index("subscription_key")
    rows = rows.set_column(index, "subscription_key", pc.coalesce(replaced, rows.column("subscription_key")))
    return rows.filter(pc.or_(pc.equal(rows.column("op"), "delete"), pc.is_valid(replaced)))


def select_deletions(rows: pa.RecordBatch, batch_id: int) -> pa.RecordBatch:
    """Return what rows of `requests` end: subscription_key, end_at, batch_id."""
    deleted = ending_requests(rows)
    return pa.RecordBatch.from_pydict(
        {
            "subscription_key": deleted.column("subscription_key"),
            "end_at": deleted.column("effective_at").cast(pa.int64()),
            "batch_id": pa.array(np.full(deleted.num_rows, batch_id)),
        }
    )


def rank_clauses(pieces: pa.RecordBatch, frequency: Callable[[np.ndarray], np.ndarray]) -> pa.RecordBatch:
    """Put the rarest clause of each piece first, under which it is posted."""
    clauses, _, _ = rarest_clause_first(pieces.column("clauses"), frequency)
    index = PIECES.get_field_index("clauses")
    return pieces.set_column(index, "clauses", clauses.cast(PIECES.field(index).type))


def workers_by_row(pieces: pa.RecordBatch, dispatch: DispatchIndex) -> tuple[np.ndarray, np.ndarray]:
    """Return (row, worker) for each worker of each piece, whose posted clause is the first."""
    offsets, workers = dispatch.workers_of_rows(pieces)
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), workers


def rows_by_worker(
    pieces: pa.RecordBatch, row: np.ndarray, workers: np.ndarray, context: TaskContext
) -> Iterator[SentRows]:
    """Yield the pieces of each worker with their batch, or without one with that of the context.

    row, workers: as `workers_by_row` returns them
    """
    if "batch_id" not in pieces.schema.names:
        pieces = pieces.append_column("batch_id", pa.array(np.full(pieces.num_rows, context.batch_id)))
    order = np.argsort(workers, kind="stable")
    borders = np.searchsorted(workers[order], np.arange(context.workers + 1))
    for worker in range(context.workers):
        mine = order[borders[worker] : borders[worker + 1]]
        if len(mine):
            yield worker, 0, pieces.take(pa.array(row[mine]))


def _write_part(context: TaskContext, part: int, received: ReceivedRows) -> tuple[str, list[DataFile]]:
    """Write the rows of a worker, or those of a part after the workers, as files; return the table and the files."""
    home, rows = Home(context.home), (rows for _, rows in received)
    name = AFTER_WORKERS[max(part - context.workers, 0)]
    if name != names.WORKER_INDEX:
        return name, write_placed(home, name, rows)
    number = names.EVERY_WORKER if part == context.workers else context.index_number(part)
    return name, write_index_rows(home.table(name), context.index_version, number, rows)


def write_index_rows(root: str, index_version: int, number: int, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write rows of a worker as data files of the index, of at most SEGMENT_ROWS rows and SEGMENT_BYTES each.

    number: that of the worker in the index
    """
    partition = {"index_version": index_version, "worker": number}
    written: list[DataFile | None] = []
    writer, rows_in, bytes_in = FileWriter(root, SCHEMA, partition), 0, 0
    for rows in batches:
        if rows_in and (rows_in + rows.num_rows > SEGMENT_ROWS or bytes_in + rows.nbytes > SEGMENT_BYTES):
            written.append(writer.close())
            writer, rows_in, bytes_in = FileWriter(root, SCHEMA, partition), 0, 0
        columns = dict(zip(rows.schema.names, rows.columns))
        # Deletions have few columns; the others are null.
        nulls = {one.name: pa.nulls(rows.num_rows, one.type) for one in SCHEMA if one.name not in columns}
        writer.write(pa.RecordBatch.from_pydict(columns | nulls))
        rows_in, bytes_in = rows_in + rows.num_rows, bytes_in + rows.nbytes
    return [file for file in [*written, writer.close()] if file is not None]
