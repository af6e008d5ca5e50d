"""Make the index pieces of range queries: one for each box of the region, posted under the keywords."""

import pyarrow as pa
import pyarrow.compute as pc

from pststream.kinds.contract import IndexPieces
from pststream.kinds.range.request import SIDES

COLUMNS = ("clauses", *SIDES, "circle")


def make_pieces(insertions: pa.RecordBatch) -> IndexPieces:
    """The pieces of insertions, in the order of the insertions and of their boxes."""
    row = pc.list_parent_indices(insertions.column("west"))
    columns = {side: pc.list_flatten(insertions.column(side)) for side in SIDES}
    columns |= {name: insertions.column(name).take(row) for name in ("circle", "clauses")}
    return IndexPieces(row.to_numpy(), pa.RecordBatch.from_pydict(columns))
