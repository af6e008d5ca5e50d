"""Requests into rows of the worker index: each subscription to the workers whose units it touches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.domain.pieces import first_clauses, rarest_clause_first
from pststream.domain.plan import PartitionPlan
from pststream.kinds.contract import QueryKind
from pststream.kinds.registry import piece_columns, split_by_kind
from pststream.matching.deletions import Deletions
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import TaskContext, deletions_of, dispatch_index, ranking
from pststream.routing.dispatch import DispatchIndex
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, FileWriter, commit, data_files, located
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, index_files
from pststream.state.plans import Ranking
from pststream.state.slices import KeyRange, Slice, read_slices, tasks_of
from pststream.state.tables import TABLES

SCHEMA = TABLES[names.WORKER_INDEX].schema
SIDES = ("west", "south", "east", "north")
PIECES = pa.schema([field for field in SCHEMA if field.name not in ("index_version", "worker", "batch_id")])
"""A piece: one box of a subscription, its clauses and its validity."""

REQUEST_COLUMNS = ["subscription_key", "op", "at", "expires_at", *piece_columns()]
SEGMENT_ROWS = 1_000_000
"""A file of the index, which becomes one segment, holds no more rows than this."""


@dataclass(frozen=True)
class Assignment:
    """A plan, and the ranking of terms that goes with it."""

    plan: PartitionPlan
    ranking: Ranking


def apply_requests(home: Home, work: TaskContext, after: int, to: int, settings: Settings) -> None:
    """Append the index rows of the requests with keys in (after, to], in one commit of the batch."""
    requests = KeyRange("request_key", after, to)
    tasks = tasks_of(located(home, names.REQUESTS, requests.files(data_files(home, names.REQUESTS))))
    written = get_engine(settings).run_shuffled(
        tasks,
        partial(_send_requests, work, requests),
        work.workers + 1,
        partial(_write_part, home.table(names.WORKER_INDEX), work),
    )
    files = [file for part in written for file in part]
    commit(home, names.WORKER_INDEX, files, application=f"index-{work.index_version}", transaction=work.batch_id)


def rebuild(home: Home, old: TaskContext, new: TaskContext, assignment: Assignment, settings: Settings) -> None:
    """Append the index rows of a new plan for all that the old plan's index holds, deletions worked in."""
    held = tuple(index_files(home, old.plan_version))
    tasks = tasks_of((file.path, file.rows) for file in held if file.worker != names.EVERY_WORKER)
    written = get_engine(settings).run_shuffled(
        tasks,
        partial(_send_stored, old, held, new, assignment),
        new.workers + 1,
        partial(_write_part, home.table(names.WORKER_INDEX), new),
    )
    files = [file for part in written for file in part]
    # A planner that was killed may have built an index of this version, which the caller has removed: each try counts.
    last = ledger_tables.last_transaction(home, names.WORKER_INDEX, "rebuild")
    commit(home, names.WORKER_INDEX, files, application="rebuild", transaction=last + 1)


def _send_requests(work: TaskContext, requests: KeyRange, slices: tuple[Slice, ...]) -> Iterator[SentRows]:
    dispatch, rank = dispatch_index(work.home, work.plan_version), ranking(work.home, work.plan_version)
    for rows in read_slices(slices, ["request_key", *REQUEST_COLUMNS], requests):
        yield work.workers, 0, deletions_in(rows, work.batch_id)
        yield from _parcels(assign(pieces_in(rows), dispatch.workers_of_pieces, rank.frequency), work)


def _send_stored(
    old: TaskContext, held: tuple[IndexFile, ...], new: TaskContext, assignment: Assignment, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    dispatch = DispatchIndex(assignment.plan)
    for pieces in stored_pieces(old, held, slices):
        yield from _parcels(assign(pieces, dispatch.workers_of_pieces, assignment.ranking.frequency), new)


def stored_pieces(
    work: TaskContext, held: tuple[IndexFile, ...], slices: tuple[Slice, ...]
) -> Iterator[pa.RecordBatch]:
    """Pieces of an index, deletions worked in; one that several workers hold comes from the first of them alone."""
    deleted = deletions_of(held, work.cache_dir, work.cache_bytes)
    for part in slices:
        worker, version = next((file.worker, file.plan_version) for file in held if file.path == part.path)
        dispatch = dispatch_index(work.home, version)
        for rows in read_slices([part], PIECES.names):
            offsets, workers = dispatch.workers_of_pieces(_boxes(rows), *first_clauses(rows.column("clauses")))
            mine = rows.filter(pa.array(workers[offsets[:-1]] == worker))
            yield with_ends(mine, deleted)


def served_by(pieces: pa.RecordBatch, dispatch: DispatchIndex, worker: int) -> np.ndarray:
    """Whether the worker is to hold each piece: bool[pieces]."""
    offsets, workers = dispatch.workers_of_pieces(_boxes(pieces), *first_clauses(pieces.column("clauses")))
    owner = np.repeat(np.arange(pieces.num_rows), np.diff(offsets))
    return np.bincount(owner[workers == worker], minlength=pieces.num_rows) > 0


def with_ends(pieces: pa.RecordBatch, deleted: Deletions) -> pa.RecordBatch:
    """The pieces, each ended by its deletion if that comes before the end it has."""
    keys, ends = deleted
    own = pieces.column("subscription_key").to_numpy()
    place = np.minimum(np.searchsorted(keys, own), max(len(keys) - 1, 0))
    until = pieces.column("end_at").to_numpy()
    if len(keys):
        until = np.where(keys[place] == own, np.minimum(until, ends[place]), until)
    return pieces.set_column(PIECES.get_field_index("end_at"), "end_at", pa.array(until))


def pieces_in(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The pieces of the insertions among rows of `requests`."""
    inserted = rows.filter(pc.equal(rows.column("op"), "insert"))
    return pa.concat_batches([_pieces_of_kind(kind, of_kind) for kind, of_kind in split_by_kind(inserted)])


def _pieces_of_kind(kind: QueryKind, inserted: pa.RecordBatch) -> pa.RecordBatch:
    made = kind.make_pieces(inserted)
    row = pa.array(made.row)
    expires = inserted.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US)
    values = {
        "subscription_key": inserted.column("subscription_key").take(row),
        **dict(zip(made.columns.schema.names, made.columns.columns)),
        "created_at": inserted.column("at").cast(pa.int64()).take(row),
        "end_at": expires.take(row),
    }
    nulls = {field.name: pa.nulls(len(row), field.type) for field in PIECES if field.name not in values}
    return pa.RecordBatch.from_pydict(values | nulls, schema=PIECES)


def deletions_in(rows: pa.RecordBatch, batch_id: int) -> pa.RecordBatch:
    """The deletions among rows of `requests`: subscription_key, end_at, batch_id."""
    deleted = rows.filter(pc.equal(rows.column("op"), "delete"))
    return pa.RecordBatch.from_pydict(
        {
            "subscription_key": deleted.column("subscription_key"),
            "end_at": deleted.column("at").cast(pa.int64()),
            "batch_id": pa.array(np.full(deleted.num_rows, batch_id)),
        }
    )


def assign(
    pieces: pa.RecordBatch,
    workers_of_pieces: Callable[..., tuple[np.ndarray, np.ndarray]],
    frequency: Callable[[np.ndarray], np.ndarray],
) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
    """Pieces with the rarest clause first; and for each that is to be stored somewhere, its place and its worker."""
    clauses, post_offsets, post_terms = rarest_clause_first(pieces.column("clauses"), frequency)
    offsets, workers = workers_of_pieces(_boxes(pieces), post_offsets, post_terms)
    place = PIECES.get_field_index("clauses")
    ranked = pieces.set_column(place, "clauses", clauses.cast(PIECES.field(place).type))
    return ranked, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), workers


def _parcels(assigned: tuple[pa.RecordBatch, np.ndarray, np.ndarray], work: TaskContext) -> Iterator[SentRows]:
    pieces, place, workers = assigned
    order = np.argsort(workers, kind="stable")
    borders = np.searchsorted(workers[order], np.arange(work.workers + 1))
    for worker in range(work.workers):
        mine = order[borders[worker] : borders[worker + 1]]
        if len(mine):
            rows = pieces.take(pa.array(place[mine]))
            yield worker, 0, rows.append_column("batch_id", pa.array(np.full(len(mine), work.batch_id)))


def _write_part(root: str, work: TaskContext, part: int, received: ReceivedRows) -> list[DataFile]:
    """Write the rows of a worker, or the deletions (part `workers`)."""
    worker = names.EVERY_WORKER if part == work.workers else part
    return write_rows(root, work.index_version, worker, (rows for _, rows in received))


def write_rows(root: str, index_version: int, worker: int, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write rows of a worker as data files of the index."""
    partition = {"index_version": index_version, "worker": worker}
    written: list[DataFile | None] = []
    writer, rows_in = FileWriter(root, SCHEMA, partition), 0
    for rows in batches:
        if rows_in and rows_in + rows.num_rows > SEGMENT_ROWS:
            written.append(writer.close())
            writer, rows_in = FileWriter(root, SCHEMA, partition), 0
        writer.write(_completed(rows))
        rows_in += rows.num_rows
    return [file for file in [*written, writer.close()] if file is not None]


def _completed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the index's other columns, null (deletions have few)."""
    found = set(rows.schema.names)
    return pa.RecordBatch.from_pydict(
        {f.name: rows.column(f.name) if f.name in found else pa.nulls(rows.num_rows, f.type) for f in SCHEMA}
    )


def _boxes(pieces: pa.RecordBatch) -> np.ndarray:
    return np.column_stack([pieces.column(side).to_numpy() for side in SIDES])
