"""Stored rows by the hash of their id, kept on the node, so that few new rows need not read all the log for theirs.

A log only grows, and most of it says nothing of the ids of a new file. A slice of a data file never changes, so its
rows are kept as an entry of the node's cache, ordered by the hash of their id; those of an id are found by bisection.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.kernels.parsing.tokens import hash_texts
from pststream.kernels.search import places_of
from pststream.matching.segment_cache import SegmentCache
from pststream.state.slices import Slice, read_slices
from pststream.text.buffers import utf8_of


class Wanted:
    """Ids to look for. ids: string[n], distinct, without nulls."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self.hashes = np.unique(hash_texts(*utf8_of(ids)))


def earlier_rows(
    cache: SegmentCache, part: Slice, ids: str, columns: list[str], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """The columns of the slice's rows whose column `ids` is wanted, in no order of the log; nothing if there are none.

    Costs a bisection for each wanted id, and reading the slice where the node has not kept it yet.
    """
    name = f"{part.path} {part.first} {part.stop} by {ids} {' '.join(columns)}"
    kept = cache.arrays((name,), lambda: _by_hash(part, ids, columns))
    places, _ = places_of(kept["hashes"], wanted.hashes)
    if len(places):
        rows = pa.ipc.open_stream(pa.py_buffer(kept["rows"])).read_next_batch().take(pa.array(places))
        # Two ids may share a hash.
        yield rows.filter(pc.is_in(rows.column(ids), wanted.ids))


def _by_hash(part: Slice, ids: str, columns: list[str]) -> dict[str, np.ndarray]:
    """The slice's rows ordered by the hash of their id: hashes int64[n], and rows uint8[bytes], an Arrow stream."""
    batches = list(read_slices([part], columns))
    if not batches:
        return {"hashes": np.empty(0, np.int64), "rows": np.empty(0, np.uint8)}
    rows = pa.concat_batches(batches)
    hashes = hash_texts(*utf8_of(rows.column(ids)))
    order = np.argsort(hashes, kind="stable")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows.take(pa.array(order)))
    return {"hashes": hashes[order], "rows": np.frombuffer(sink.getvalue(), np.uint8)}
