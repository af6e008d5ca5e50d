"""Write the pieces that a worker lacks to its part of the worker index, each once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.engine.contract import ReceivedRows
from pststream.engine.task_context import TaskContext
from pststream.pipeline.index.build_index import write_index_rows
from pststream.plans.pieces import IDENTITY, number_pieces
from pststream.state.data_files import DataFile
from pststream.state.index_files import IndexFile
from pststream.state.slices import BATCH_ROWS, read_slices, whole_file

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
