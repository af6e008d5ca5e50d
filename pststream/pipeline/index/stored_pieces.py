"""Compare pieces with those in the worker index: find replaced ones, write missing ones, look up recorded units.

A batch writes the pieces of a subscription with memory again when its threshold has changed, so only those of its last
batch are needed. They may be in any files, and at other workers than the older pieces. So before a compaction the keys
and batches of all pieces meet by subscription key in a shuffle, and those that are replaced go to the compactions whose
files have them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.engine.task_context import TaskContext, segment_cache
from pststream.kernels.matching.match_segment import find_pieces
from pststream.pipeline.index.build_index import write_index_rows
from pststream.pipeline.index.place_pieces import send_by_key
from pststream.plans.owners import NO_UNIT
from pststream.plans.pieces import IDENTITY, number_pieces
from pststream.queries.kinds.registry import ranked_answers
from pststream.state.data_files import DataFile, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, segment_files
from pststream.state.slices import BATCH_ROWS, KeyRange, read_slices, whole_file

START, PIECES, REPLACED = 0, 1, 2
"""Tags of sent rows: a row that makes a compaction run; pieces with their batch; keys with the last batch of each."""

PART_ROWS = 8_000_000
"""Pieces of some 24 bytes that a task compares, about."""


def has_standing_queries(home: Home, requests_to: int = names.MAX_INT64, is_weighed: bool | None = None) -> bool:
    """Whether the request log up to a key may have subscriptions whose answers are the k best objects.

    is_weighed  ask only about kinds whose values depend on the term statistics, or (False) only about the others
    """
    requests = KeyRange("request_key", -1, requests_to)
    kinds = [answers for answers in ranked_answers().values() if is_weighed in (None, answers.is_weighed)]
    files = requests.files(list_data_files(home, names.REQUESTS))
    return any(answers.mark in file.low for answers in kinds for file in files)


def send_batches(parts: int, compaction: tuple[int, Sequence[str]]) -> Iterator[SentRows]:
    """Send the subscription key and the batch of each piece in the files of a compaction to the part of its key.

    compaction: its number, and the paths of its files
    """
    number, paths = compaction
    yield 0, START, pa.record_batch({"number": pa.array([number])})
    for rows in read_slices([whole_file(path) for path in paths], ["subscription_key", "batch_id", "kind"]):
        of_memory = rows.filter(pc.is_valid(rows.column("kind"))).drop_columns(["kind"])
        of_memory = of_memory.append_column("number", pa.array(np.full(of_memory.num_rows, number)))
        yield from send_by_key(of_memory, PIECES, parts)


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


_WRITTEN = (*IDENTITY, "batch_id")
"""Columns of equal rows: a later batch may write a piece of a subscription with memory that is like an earlier one."""


@dataclass(frozen=True)
class WrittenPieces:
    """The number of pieces that a worker is to have, and the files with those that it did not have yet."""

    rows: int
    files: list[DataFile]


def write_missing(
    root: str,
    context: TaskContext,
    files: tuple[IndexFile, ...],
    dry_run: bool,
    worker: int,
    received: ReceivedRows,
) -> WrittenPieces:
    """Write the received pieces that the worker does not have yet, each once, though several workers may send it."""
    batches = [rows for _, rows in received]
    if not batches:
        return WrittenPieces(0, [])
    rows = pa.concat_batches(batches)
    _, first = np.unique(number_pieces(rows, columns=_WRITTEN)[0], return_index=True)
    rows = rows.take(pa.array(np.sort(first)))
    if dry_run:
        return WrittenPieces(rows.num_rows, [])
    slices = tuple(whole_file(file.path) for file in files if file.worker == worker)
    keys = rows.column("subscription_key").unique()
    stored = [
        part.filter(pc.is_in(part.column("subscription_key"), keys)) for part in read_slices(slices, list(_WRITTEN))
    ]
    wanted, *present = number_pieces(rows.select(_WRITTEN), *stored, columns=_WRITTEN)
    missing = rows.filter(pa.array(~np.isin(wanted, np.concatenate([wanted[:0], *present]))))
    parts = (missing.slice(start, BATCH_ROWS) for start in range(0, missing.num_rows, BATCH_ROWS))
    return WrittenPieces(rows.num_rows, write_index_rows(root, context.index_version, worker, parts))


def with_recorded_units(pieces: pa.RecordBatch, context: TaskContext, plan_version: int) -> pa.RecordBatch:
    """Return pieces of subscriptions with memory, with the units of the pieces that the index has of them.

    The segments of the plan are asked, which the node builds for the batch anyway; `context.files` names them.
    """
    keys, position_of = np.unique(pieces.column("subscription_key").to_numpy(), return_inverse=True)
    marked = ~keys[::-1]  # in segments such keys are negative
    units = np.full(len(keys), NO_UNIT, np.int64)
    cache = segment_cache(context.cache_dir, context.cache_bytes)
    for files in segment_files(context.files):
        if files.plan_version != plan_version:
            continue
        segment = cache.segment(files.paths)
        if len(segment.units):
            piece, position = find_pieces(marked, segment.subscription_keys, segment.key_order)
            units[len(keys) - 1 - position] = segment.units[piece]
    recorded = pa.array(units, mask=units < 0).take(pa.array(position_of))
    return pieces.set_column(pieces.schema.get_field_index("unit"), "unit", recorded)
