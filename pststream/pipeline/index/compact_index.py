"""Rewrite the worker index as fewer files: small files in a batch, all files without ended rows in `maintain`.

Both leave out the pieces of subscriptions with memory that a later batch has replaced. A batch writes the pieces of
such a subscription again when its threshold has changed, so only those of its last batch are needed. They may be in any
files, and at other workers than the older pieces. So before a compaction the keys and batches of all pieces meet by
subscription key in a shuffle, and those that are replaced go to the compactions whose files have them.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.base.utc_times import to_micros
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import deletions_of, dispatch_index
from pststream.matching.segments import Deletions, merge_deletions
from pststream.pipeline.index.build_index import PIECES, apply_deletions, is_served_by, write_index_rows
from pststream.pipeline.index.place_pieces import send_by_key
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.settings import Settings
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.state.index_files import NO_FILES, NO_WORKER, SMALL_BYTES, IndexFiles, files_by_owner, index_files
from pststream.state.plans import index_version
from pststream.state.slices import read_slices, whole_file
from pststream.storage.parquet_files import delete_files
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import Ledger

START, BATCHES, REPLACED = 0, 1, 2
"""Tags of sent rows: a row that makes a compaction run; pieces with their batch; keys with the last batch of each."""

PART_ROWS = 8_000_000
"""Pieces of some 24 bytes that a task compares, about."""

SIMILAR_ROWS = 4
"""Ratio of rows up to which a file is joined with all smaller ones."""

_NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True)
class Compaction:
    """Files of a worker (paths) to rewrite as few files; one plan serves all of them.

    Rows that end at `bound` (microseconds) or before are dropped; of subscriptions with memory, those that end at
    `memory_bound` or before. With a `plan` (home, version), rows that the worker does not serve are dropped too.

    number: that of the worker in the index
    replaced: keys of subscriptions with memory, and the batch of their last pieces; earlier ones are dropped
    keys: other subscriptions than those with keys in (after, up_to] are dropped
    """

    root: str
    index_version: int
    worker: int
    number: int
    paths: tuple[str, ...]
    deletions: Deletions
    rows: int
    bound: int = names.NO_TIME
    memory_bound: int = names.NO_TIME
    plan: tuple[str, int] | None = None
    replaced: tuple[np.ndarray, np.ndarray] = field(default=_NOTHING, repr=False)
    keys: tuple[int, int] = (-1, names.MAX_INT64)


def compact_small_files(home: Home, settings: Settings, plan_version: int, batch_id: int) -> bool:
    """Compact small files if a worker has more than `settings.merge_files` under a plan; return whether it did."""
    files = index_files(home, plan_version).columns.filter(pc.field("bytes") < SMALL_BYTES)
    counts = files.group_by(["worker", "plan_version"]).aggregate([([], "count_all")])["count_all"].to_numpy()
    if counts.max(initial=0) <= settings.merge_files:
        return False
    small = {key: of for key, of in files_by_owner(home, plan_version, SMALL_BYTES).items() if key[0] != NO_WORKER}
    root, index, none = home.table(names.WORKER_INDEX), index_version(home, plan_version), merge_deletions([])
    similar = {key: choose_similar(files) for key, files in small.items()}
    compactions = [
        Compaction(root, index, worker, files[0].partition["worker"], _paths(root, files), none, _count_rows(files))
        for (worker, _), files in similar.items()
        if files
    ]
    if compactions:
        _replace(home, settings, compactions, sum(similar.values(), []), f"merge-{index}", batch_id)
    return bool(compactions)


def choose_similar(files: list[DataFile]) -> list[DataFile]:
    """Return the files to compact: the smallest, and each that has at most SIMILAR_ROWS times the rows of all smaller
    ones; none if that is a single file.

    So a batch does not write all rows again, and a row is written again O(log(rows)) times.
    """
    by_rows = sorted(files, key=lambda file: (file.rows, file.path))
    before = np.cumsum([file.rows for file in by_rows])
    similar = 1
    while similar < len(files) and by_rows[similar].rows <= SIMILAR_ROWS * before[similar - 1]:
        similar += 1
    return by_rows[:similar] if similar > 1 else []


def compact_index(home: Home, settings: Settings, plan_version: int) -> int:
    """Rewrite a plan's index: apply deletions, and drop rows that no object still to be matched can match.

    These are rows that ended before all such objects, rows that migrations have left at workers that no longer serve
    them or that the plan no longer has, and of subscriptions with memory the rows that later ones replace and those
    that have ended. Returns the number of rows dropped, deletions included. Call it only while no batch is unfinished:
    the late subscriptions of a batch must still meet stored objects, and its deletions must still retract matches.
    """
    ledger = Ledger(home)
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    index = index_version(home, plan_version)
    groups = files_by_owner(home, plan_version)
    root = home.table(names.WORKER_INDEX)
    before = sum(map(_count_rows, groups.values()))
    deletions = deletions_of(index_files(home, plan_version), settings.cache_dir, settings.cache_bytes)
    bound = names.NO_TIME if horizon is None else to_micros(horizon)
    last_batch = ledger.last_batch
    latest = last_batch["stream_time"] if last_batch else None
    memory_bound = bound if latest is None else max(bound, to_micros(latest))
    has_memory = has_standing_queries(home)
    compactions = {
        (worker, plan): Compaction(
            root, index, worker, files[0].partition["worker"], _paths(root, files), deletions, _count_rows(files),
            bound, memory_bound, (home.path, plan),
        )
        for (worker, plan), files in groups.items()
        if worker != names.EVERY_WORKER
        and (
            has_memory or index != plan_version or len(files) > 1 or len(deletions[0])
            or files[0].low["end_at"] <= bound
        )
    }  # fmt: skip
    replaced = [key for key in groups if key in compactions or key[0] == names.EVERY_WORKER]
    removed = [file for key in replaced for file in groups[key]]
    kept = before - _count_rows(removed)
    last = last_transaction(home.table(names.WORKER_INDEX), "upkeep")
    added = _replace(home, settings, list(compactions.values()), removed, "upkeep", last + 1) if removed else []
    return before - kept - _count_rows(added)


def drop_pieces(home: Home, settings: Settings, plan_version: int, key: int) -> None:
    """Rewrite the files of a plan's index that have pieces of a subscription, without these."""
    ended = np.array([key]), np.array([names.NO_TIME])
    compactions = _of_subscriptions(home, plan_version, (key - 1, key), ended)
    if compactions:
        last = last_transaction(home.table(names.WORKER_INDEX), "drop")
        removed = [file for _, files in compactions.values() for file in files]
        _replace(home, settings, [one for one, _ in compactions.values()], removed, "drop", last + 1)


@contextmanager
def pieces_apart(home: Home, settings: Settings, plan_version: int, keys: tuple[int, int]) -> Iterator[IndexFiles]:
    """Yield an index of the pieces of the subscriptions with keys in (after, up_to] alone, with all deletions, in files
    that no commit names; delete them at the end.
    """
    compactions = _of_subscriptions(home, plan_version, keys, merge_deletions([]))
    tasks = [replace(one, keys=keys) for one, _ in compactions.values()]
    written = get_engine(settings, home).run_tasks(tasks, _compact_files) if tasks else []
    indexed, rows = index_files(home, plan_version), list[dict[str, Any]]()
    for (worker, plan), files in zip(compactions, written):
        same = {"worker": worker, "max_key": keys[1], "plan_version": plan}
        rows += [{"path": one.path, "bytes": one.bytes, "rows": one.rows} | same for one in files]
    own = pa.Table.from_pylist(rows, NO_FILES.columns.schema)
    columns = pa.concat_tables([indexed.of_worker(names.EVERY_WORKER).columns, own])
    try:
        yield IndexFiles(
            indexed.root, columns.sort_by([("worker", "ascending"), ("path", "ascending")]).combine_chunks()
        )
    finally:
        delete_files([f"{indexed.root}/{row['path']}" for row in rows])


def _of_subscriptions(
    home: Home, plan_version: int, keys: tuple[int, int], deletions: Deletions
) -> dict[tuple[int, int], tuple[Compaction, list[DataFile]]]:
    """Return a compaction, and its files, of each worker and plan with files that may have keys in (after, up_to]."""
    root, index = home.table(names.WORKER_INDEX), index_version(home, plan_version)
    chosen = {}
    for (worker, plan), files in files_by_owner(home, plan_version).items():
        own = [one for one in files if worker >= 0 and one.may_contain("subscription_key", keys[0] + 1, keys[1])]
        if own:
            number = own[0].partition["worker"]
            compaction = Compaction(root, index, worker, number, _paths(root, own), deletions, _count_rows(own))
            chosen[worker, plan] = compaction, own
    return chosen


def _replace(
    home: Home,
    settings: Settings,
    compactions: list[Compaction],
    removed: list[DataFile],
    application: str,
    transaction: int,
) -> list[DataFile]:
    engine = get_engine(settings, home)
    if has_standing_queries(home):
        parts = max(engine.parallelism, 1 + sum(one.rows for one in compactions) // PART_ROWS)
        stages = [Stage(parts, send_replaced), Stage(len(compactions), partial(_compact_others, tuple(compactions)))]
        tasks = [(ordinal, one.paths) for ordinal, one in enumerate(compactions)]
        written = engine.run_shuffled(tasks, partial(send_batches, parts), stages)
    else:
        written = engine.run_tasks(compactions, _compact_files)
    added = [file for part in written for file in part]
    commit_files(home, names.WORKER_INDEX, added, removed, application=application, transaction=transaction)
    return added


def _compact_others(compactions: tuple[Compaction, ...], number: int, received: ReceivedRows) -> list[DataFile]:
    """Compact files without the pieces that others replace."""
    return _compact_files(replace(compactions[number], replaced=receive_replaced(received)))


def _compact_files(compaction: Compaction) -> list[DataFile]:
    return write_index_rows(compaction.root, compaction.index_version, compaction.number, _kept_rows(compaction))


def _kept_rows(compaction: Compaction) -> Iterator[pa.RecordBatch]:
    columns = [*PIECES.names, "batch_id"]
    for rows in read_slices([whole_file(path) for path in compaction.paths], columns):
        pieces = apply_deletions(rows, compaction.deletions)
        has_memory = pieces.column("kind").is_valid().to_numpy(zero_copy_only=False)
        bound = np.where(has_memory, compaction.memory_bound, compaction.bound)
        kept = pieces.column("end_at").to_numpy() > bound
        kept &= ~(has_memory & are_replaced(pieces, *compaction.replaced))
        key, (after, up_to) = pieces.column("subscription_key").to_numpy(), compaction.keys
        kept &= (key > after) & (key <= up_to)
        if compaction.plan:
            kept &= is_served_by(pieces, dispatch_index(*compaction.plan), compaction.worker)
        yield pieces.filter(pa.array(kept))


def _count_rows(files: Iterable[DataFile]) -> int:
    return sum(file.rows for file in files)


def _paths(root: str, files: list[DataFile]) -> tuple[str, ...]:
    return tuple(f"{root}/{file.path}" for file in files)


def send_batches(parts: int, compaction: tuple[int, Sequence[str]]) -> Iterator[SentRows]:
    """Send the subscription key and the batch of each piece in the files of a compaction to the part of its key.

    compaction: its number, and the paths of its files
    """
    number, paths = compaction
    yield 0, START, pa.record_batch({"number": pa.array([number])})
    for rows in read_slices([whole_file(path) for path in paths], ["subscription_key", "batch_id", "kind"]):
        of_memory = rows.filter(pc.is_valid(rows.column("kind"))).drop_columns(["kind"])
        of_memory = of_memory.append_column("number", pa.array(np.full(of_memory.num_rows, number)))
        yield from send_by_key(of_memory, BATCHES, parts)


def send_replaced(_: int, received: ReceivedRows) -> Iterator[SentRows]:
    """Send each compaction the keys of which it has replaced pieces, with the last batch of each; and START rows."""
    pieces = []
    for tag, rows in received:
        if tag == START:
            yield rows.column("number")[0].as_py(), START, rows
        else:
            pieces.append(rows)
    if not pieces:
        return
    columns = pa.Table.from_batches(pieces)
    key, batch, number = (columns.column(name).to_numpy() for name in ("subscription_key", "batch_id", "number"))
    order = np.lexsort((batch, key))
    last = np.flatnonzero(np.append(np.diff(key[order]) != 0, True))
    newest = np.empty(len(order), np.int64)
    newest[order] = np.repeat(batch[order[last]], np.diff(last, prepend=-1))
    is_replaced = batch < newest
    for compaction in distinct_values(number[is_replaced]).tolist():
        chosen = is_replaced & (number == compaction)
        keys, first = np.unique(key[chosen], return_index=True)
        yield compaction, REPLACED, pa.record_batch({"key": keys, "batch_id": newest[chosen][first]})


def receive_replaced(received: ReceivedRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the received keys, ascending, and the last batch of each: int64[n] each."""
    parts = [rows for tag, rows in received if tag == REPLACED]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = pa.Table.from_batches(parts)
    key, batch = rows.column("key").to_numpy(), rows.column("batch_id").to_numpy()
    order = np.argsort(key)
    return key[order], batch[order]


def are_replaced(pieces: pa.RecordBatch, keys: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """Return which pieces are of an earlier batch than the last of their subscription: bool[pieces].

    keys, batches: as `receive_replaced` returns them
    """
    last = look_up(pieces.column("subscription_key").to_numpy(), keys, batches, -1)
    return np.asarray(pieces.column("batch_id").to_numpy() < last)
