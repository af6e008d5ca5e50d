"""Make the index pieces of range queries: each box of the region with the query's clauses (CNF, term ids)."""

import pyarrow as pa

from pststream.queries.kinds.contract import IndexPieces
from pststream.queries.shapes.registry import REQUEST_COLUMNS, cut_regions

COLUMNS = ("clauses", *(column.name for column in REQUEST_COLUMNS))


def make_pieces(insertions: pa.RecordBatch) -> IndexPieces:
    """Make the pieces of insertions, in the order of the insertions."""
    row, columns = cut_regions(insertions)
    clauses = insertions.column("clauses").take(pa.array(row))
    return IndexPieces(row, pa.RecordBatch.from_pydict({**columns, "clauses": clauses}))
