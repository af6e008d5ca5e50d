"""Find stored log rows by object or subscription id, with an index of each data file in the node's cache.

A log only grows, and most of its rows do not have an id of a new file. A slice of a data file never changes, so the
node sorts the rows of a slice by the hash of their id once, and later finds the rows of an id by bisection.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.buffers import utf8_of
from pststream.base.sorted_keys import distinct_values
from pststream.kernels.parsing.tokens import hash_texts
from pststream.kernels.search import find_all_positions
from pststream.matching.segment_cache import SegmentCache
from pststream.state.slices import Slice, read_slices


class IdSet:
    """Ids to look up, with their distinct hashes; ids: string[n] without nulls."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self.hashes = distinct_values(hash_texts(*utf8_of(ids)))


def find_rows_by_id(
    cache: SegmentCache, part: Slice, id_column: str, columns: list[str], wanted: IdSet
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the slice's rows whose id is in `wanted`, in any order; nothing if there are none.

    Costs a bisection for each id of `wanted`, and reads the slice if the node's cache does not have its index.
    """
    name = f"{part.path} {part.first} {part.stop} by {id_column} {' '.join(columns)}"
    index = cache.arrays((name,), lambda: _build_index(part, id_column, columns))
    places, _ = find_all_positions(index["hashes"], wanted.hashes)
    if len(places):
        rows = pa.ipc.open_stream(pa.py_buffer(index["rows"])).read_next_batch().take(pa.array(places))
        # Two ids may share a hash.
        yield rows.filter(pc.is_in(rows.column(id_column), wanted.ids))


def _build_index(part: Slice, id_column: str, columns: list[str]) -> dict[str, np.ndarray]:
    """Return the slice's rows sorted by the hash of their id: hashes int64[n]; rows uint8[bytes], an Arrow stream."""
    batches = list(read_slices([part], columns))
    if not batches:
        return {"hashes": np.empty(0, np.int64), "rows": np.empty(0, np.uint8)}
    rows = pa.concat_batches(batches)
    hashes = hash_texts(*utf8_of(rows.column(id_column)))
    order = np.argsort(hashes, kind="stable")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows.take(pa.array(order)))
    return {"hashes": hashes[order], "rows": np.frombuffer(sink.getvalue(), np.uint8)}
