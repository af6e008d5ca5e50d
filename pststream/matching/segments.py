"""Build index segments: convert rows of `worker_index` (pieces of subscriptions) into the arrays that kernels match.

A row is a piece: one box of a subscription, its clauses, its validity. Its postings, one for each index cell that the
box covers and each term of the clause that it is posted under, are derived here: the rows are five times smaller than
the postings, so the table is cheap to write, to migrate and to store, while the postings are in the node-local cache.

Departure from PS2Stream section IV-D: the paper posts an OR query under the least frequent keyword of *each* conjunct.
Every clause must hold in a match, so one clause is enough: a piece is posted under all terms of the clause whose terms
are rarest in sum. A posting emits a match only if its term is the first of the clause that the object has. So each pair
is found once, on one worker, and no merger is needed.

Arrays of a segment (S pieces, P postings, K keys, C cells, T terms):

    terms int64[T] ascending; slots int64[2^b], places int32[2^b]: hash table of them; levels_of_term uint32[T]
    levels int64[L], level_cells int64[L+1]: slice of `cells` of each level in use
    cells int64[C], cell_keys int64[C+1], key_term int32[K], key_postings int32[K+1]: directory of the index cells
    cell_buckets int64[C,2], buckets uint64[B+1,2]: keys of a cell in buckets of 64 bits by their place among all terms.
        A bucket has a bit for each key, so that most misses cost one look-up, and its first key, so that a hit costs
        few more
    fine_boxes int32[P,4], posting_piece int32[P], posting_rank int16[P] (-1: only the box is to be tested)
    boxes float64[S,4]: read only where the steps of 9 mm of `fine_boxes` do not decide
    records int64[S,4]: subscription key, created_at, end_at, number of the exact test or -1: the box decides
    literal_offsets int32[S+1], literals int32[]: clauses as the kernel reads them
    shape_codes int64[R], shape_offsets int64[R+1], shape_numbers float64[]: exact tests, each with the code of its
        shape and the numbers that its kernel reads (kernels/matching/shapes)
    sorted_keys int64[S], key_order int32[S]: subscription keys, ascending, and the piece of each
    longest int64[1]: length of the longest posting list
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.kernels.matching.build_segment import (
    TERM_BITS,
    cell_buckets,
    count_postings,
    directory,
    fill_buckets,
    fill_postings,
    fine_boxes,
    first_cells,
    hash_table,
    term_levels,
)
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.shapes.registry import PIECE_COLUMNS, SHAPES

COLUMNS = ("subscription_key", *(column.name for column in PIECE_COLUMNS), "clauses", "created_at", "end_at")


MAX_POSTINGS = (1 << 31) - 1


class Segment(NamedTuple):
    """See the module's docstring for shapes and meaning; the arrays are read-only."""

    terms: np.ndarray
    slots: np.ndarray
    places: np.ndarray
    levels_of_term: np.ndarray
    levels: np.ndarray
    level_cells: np.ndarray
    cells: np.ndarray
    cell_keys: np.ndarray
    key_term: np.ndarray
    key_postings: np.ndarray
    cell_buckets: np.ndarray
    buckets: np.ndarray
    fine_boxes: np.ndarray
    posting_piece: np.ndarray
    posting_rank: np.ndarray
    boxes: np.ndarray
    records: np.ndarray
    literal_offsets: np.ndarray
    literals: np.ndarray
    shape_codes: np.ndarray
    shape_offsets: np.ndarray
    shape_numbers: np.ndarray
    sorted_keys: np.ndarray
    key_order: np.ndarray
    longest: np.ndarray

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return len(self.records)

    @property
    def bits(self) -> int:
        """The hash table has 2^bits slots."""
        return int(len(self.slots)).bit_length() - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


def build_segment(rows: pa.Table) -> Segment:
    """Build the segment of rows (columns COLUMNS)."""
    # Pieces in the order of their first postings, their terms numbered within the segment.
    rows = _in_order_of_postings(rows)
    boxes = _boxes(rows)
    outer, inner, term_ids = _nested(rows.column("clauses"))
    terms, local = np.unique(term_ids, return_inverse=True)
    if len(terms) >= 1 << TERM_BITS:
        raise ValueError(f"a segment holds at most {1 << TERM_BITS} terms, not {len(terms)}")
    literal_offsets, literals = _literals(outer, inner, local)
    # The postings, sorted by cell and term.
    first_size = (inner[outer[:-1] + 1] - inner[outer[:-1]]).astype(np.int64)
    postings = count_postings(boxes, first_size)
    if max(postings, len(literals)) > MAX_POSTINGS:
        raise ValueError(
            f"a segment holds at most {MAX_POSTINGS} postings and literals, not {postings}, {len(literals)}"
        )
    sort_key, piece, rank = _sorted_postings(postings, boxes, literal_offsets, first_size, literals)
    only_clause = np.diff(outer) == 1
    rank[(rank == 0) & only_clause[piece]] = -1
    # The directory of cells and keys, and the look-ups into it.
    cells, cell_keys, key_term, key_postings = directory(sort_key)
    levels, level_cells = _levels(cells)
    starts, buckets = cell_buckets(cell_keys)
    slots, places = hash_table(terms, max(3, (2 * len(terms)).bit_length()))
    # The data to verify a posting whose box contains the object.
    exact_test, shape_codes, shape_offsets, shape_numbers = _exact_tests(rows)
    records = _records(rows, exact_test)
    key_order = np.argsort(records[:, 0], kind="stable")
    segment = Segment(
        terms=terms,
        slots=slots,
        places=places,
        levels_of_term=term_levels(cells, cell_keys, key_term, len(terms)),
        levels=levels,
        level_cells=level_cells,
        cells=cells,
        cell_keys=cell_keys,
        key_term=key_term,
        key_postings=key_postings,
        cell_buckets=starts,
        buckets=fill_buckets(cell_keys, key_term, starts, buckets, len(terms)),
        fine_boxes=fine_boxes(boxes)[piece],
        posting_piece=piece,
        posting_rank=rank,
        boxes=boxes,
        records=records,
        literal_offsets=literal_offsets.astype(np.int32),
        literals=literals,
        shape_codes=shape_codes,
        shape_offsets=shape_offsets,
        shape_numbers=shape_numbers,
        sorted_keys=records[key_order, 0],
        key_order=key_order.astype(np.int32),
        longest=np.diff(key_postings).max(initial=0, keepdims=True).astype(np.int64),
    )
    for array in segment:
        array.setflags(write=False)
    return segment


def _sorted_postings(
    count: int, boxes: np.ndarray, literal_offsets: np.ndarray, first_size: np.ndarray, literals: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sort key (cell and term), the piece and the rank of each posting, sorted by the key."""
    sort_key = np.empty(count, np.int64)
    piece = np.empty(count, np.int32)
    rank = np.empty(count, np.int16)
    fill_postings(boxes, literal_offsets[:-1] + 1, first_size, literals, sort_key, piece, rank)
    order = np.argsort(sort_key, kind="stable")
    return sort_key[order], piece[order], rank[order]


def _in_order_of_postings(rows: pa.Table) -> pa.Table:
    """Sort rows by the cell and the term of their first posting, so that hits of one list are neighbours in memory."""
    outer, inner, terms = _nested(rows.column("clauses"))
    first = terms[inner[outer[:-1]]]
    order = np.argsort((first_cells(_boxes(rows)) << TERM_BITS) | (first & ((1 << TERM_BITS) - 1)), kind="stable")
    return rows.take(pa.array(order)).combine_chunks()


def _boxes(rows: pa.Table) -> np.ndarray:
    return np.column_stack([_floats(rows, side) for side in ("west", "south", "east", "north")])


def _floats(rows: pa.Table, name: str) -> np.ndarray:
    return rows.column(name).to_numpy().astype(np.float64, copy=False)


def _nested(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the offsets of each piece's clauses, the offsets of each clause's terms, and the terms; offsets from 0."""
    clauses = _one_chunk(column)
    outer = clauses.offsets.to_numpy().astype(np.int64)
    inner_list = clauses.values
    inner = inner_list.offsets.to_numpy().astype(np.int64)[outer[0] : outer[-1] + 1]
    terms = inner_list.values.to_numpy(zero_copy_only=False)[inner[0] : inner[-1]]
    return outer - outer[0], inner - inner[0], terms.astype(np.int64, copy=False)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _literals(outer: np.ndarray, inner: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of each piece's clauses, and all clauses in one array: size, terms, size, terms ... (int32)."""
    clauses = len(inner) - 1
    sizes = np.diff(inner)
    literals = np.empty(clauses + len(local), np.int32)
    literals[inner[:-1] + np.arange(clauses)] = sizes
    literals[np.arange(len(local)) + np.repeat(np.arange(clauses), sizes) + 1] = local
    return inner[outer] + outer, literals


def _levels(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    borders = np.searchsorted(cells, [1 << (2 * level) for level in range(MAX_LEVEL + 2)])
    used = np.flatnonzero(np.diff(borders))
    return used.astype(np.int64), np.append(borders[used], len(cells)).astype(np.int64)


def _records(rows: pa.Table, exact_test: np.ndarray) -> np.ndarray:
    records = np.empty((rows.num_rows, 4), np.int64)
    for place, name in enumerate(("subscription_key", "created_at", "end_at")):
        records[:, place] = rows.column(name).to_numpy()
    records[:, 3] = exact_test
    return records


def _exact_tests(rows: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of each piece's exact test (-1: none); the shape codes, offsets and numbers of the tests."""
    codes, lengths = np.zeros(rows.num_rows, np.int64), np.zeros(rows.num_rows, np.int64)
    tests_by_shape = []
    for shape in SHAPES:
        if shape.PIECE_COLUMN is None:
            continue
        column = _one_chunk(rows.column(shape.PIECE_COLUMN.name))
        has = column.is_valid().to_numpy(zero_copy_only=False)
        if has.any():
            kept = column.drop_null()
            codes[has], lengths[has] = shape.CODE, kept.value_lengths().to_numpy()
            tests_by_shape.append((np.flatnonzero(has), kept.flatten().to_numpy()))
    tested = np.flatnonzero(codes)
    exact_test = np.full(rows.num_rows, -1, np.int64)
    exact_test[tested] = np.arange(len(tested))
    offsets = np.concatenate([[0], np.cumsum(lengths[tested])]).astype(np.int64)
    numbers = np.empty(offsets[-1], np.float64)
    for pieces, values in tests_by_shape:
        widths = lengths[pieces]
        source = np.cumsum(widths) - widths
        numbers[np.repeat(offsets[exact_test[pieces]] - source, widths) + np.arange(len(values))] = values
    return exact_test, codes[tested], offsets, numbers
