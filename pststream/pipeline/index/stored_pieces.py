"""Compare pieces with those in the worker index: write missing ones, look up recorded units."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.engine.contract import ReceivedRows
from pststream.engine.task_context import TaskContext, segment_cache
from pststream.kernels.matching.match_segment import find_pieces
from pststream.pipeline.index.build_index import PIECES, write_index_rows
from pststream.plans.pieces import IDENTITY, NO_UNIT, number_pieces
from pststream.queries.kinds.registry import ranked_answers
from pststream.state.data_files import DataFile, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import IndexFiles
from pststream.state.slices import BATCH_ROWS, KeyRange, read_slices, whole_file


def has_standing_queries(home: Home, requests_to: int = names.MAX_INT64, is_weighed: bool | None = None) -> bool:
    """Whether the request log up to a key may have subscriptions whose answers are the k best objects.

    is_weighed  ask only about kinds whose values depend on the term statistics, or (False) only about the others
    """
    requests = KeyRange("request_key", -1, requests_to)
    kinds = [answers for answers in ranked_answers().values() if is_weighed in (None, answers.is_weighed)]
    files = requests.files(list_data_files(home, names.REQUESTS))
    return any(files.has_values(answers.mark) for answers in kinds)


_WRITTEN = (*IDENTITY, "batch_id")
"""Columns of equal rows: a later batch may write a piece of a subscription with memory that is like an earlier one."""


PIECE_COLUMNS = [*PIECES.names, "batch_id"]
"""Columns of a piece that moves."""


@dataclass(frozen=True)
class WrittenPieces:
    """The number of pieces that a worker is to have, their bytes, and the files with those that it did not have yet."""

    rows: int
    bytes: int
    files: list[DataFile]


def bytes_of_rows(rows: pa.RecordBatch) -> np.ndarray:
    """Return the size of each row without compression, 8 bytes for each value: int64[rows]."""
    size = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        row = np.arange(rows.num_rows)
        while pa.types.is_list(column.type):
            row, column = row[pc.list_parent_indices(column).to_numpy()], pc.list_flatten(column)
        size += 8 * np.bincount(row, minlength=rows.num_rows)
    return size


def write_missing(
    root: str, context: TaskContext, files: IndexFiles, dry_run: bool, border: int, worker: int, received: ReceivedRows
) -> WrittenPieces:
    """Write the received pieces that the worker does not have yet, each once, though several workers may send it.

    border: greatest subscription key under the older of two active plans, whose pieces get files of their own
    """
    batches = [rows for _, rows in received]
    if not batches:
        return WrittenPieces(0, 0, [])
    rows = pa.concat_batches(batches)
    _, first = np.unique(number_pieces(rows, columns=_WRITTEN)[0], return_index=True)
    rows = rows.take(pa.array(np.sort(first)))
    size = int(bytes_of_rows(rows).sum())
    if dry_run:
        return WrittenPieces(rows.num_rows, size, [])
    slices = tuple(whole_file(file.path) for file in files.of_worker(worker))
    keys = rows.column("subscription_key").unique()
    stored = [
        part.filter(pc.is_in(part.column("subscription_key"), keys)) for part in read_slices(slices, list(_WRITTEN))
    ]
    wanted, *present = number_pieces(rows.select(_WRITTEN), *stored, columns=_WRITTEN)
    missing = rows.filter(pa.array(~np.isin(wanted, np.concatenate([wanted[:0], *present]))))
    is_older, written = pc.less_equal(missing.column("subscription_key"), border), list[DataFile]()
    for side in (missing.filter(is_older), missing.filter(pc.invert(is_older))):
        parts = (side.slice(start, BATCH_ROWS) for start in range(0, side.num_rows, BATCH_ROWS))
        written += write_index_rows(root, context.index_version, context.index_number(worker), parts)
    return WrittenPieces(rows.num_rows, size, written)


def with_recorded_units(pieces: pa.RecordBatch, context: TaskContext, plan_version: int) -> pa.RecordBatch:
    """Return pieces of subscriptions with memory, with the units of the pieces that the index has of them.

    The segments of the plan are asked, which the node builds for the batch anyway; `context.files` names them.
    """
    keys, position_of = np.unique(pieces.column("subscription_key").to_numpy(), return_inverse=True)
    marked = ~keys[::-1]  # in segments such keys are negative
    units = np.full(len(keys), NO_UNIT, np.int64)
    cache = segment_cache(context.cache_dir, context.cache_bytes)
    for files in context.files.segments:
        if files.plan_version != plan_version:
            continue
        segment = cache.segment(files.paths)
        if len(segment.units):
            piece, position = find_pieces(marked, segment.subscription_keys, segment.key_order)
            units[len(keys) - 1 - position] = segment.units[piece]
    recorded = pa.array(units, mask=units < 0).take(pa.array(position_of))
    return pieces.set_column(pieces.schema.get_field_index("unit"), "unit", recorded)
