"""Build index segments from rows of `worker_index`, find the pieces that deletions end, and cache both on a node.

A row is a piece: one box of a subscription, its clauses, its validity. Its postings, one for each index cell that the
box covers and each term of the clause that it is posted under, are derived here: the rows are five times smaller than
the postings, so the table is cheap to write, to migrate and to store, while the postings are in the node-local cache.

Departure from PS2Stream section IV-D: the paper posts an OR query under the least frequent keyword of *each* conjunct.
Every clause must hold in a match, so one clause is enough: a piece is posted under all terms of the clause whose terms
are rarest in sum. A posting emits a match only if its term is the first of the clause that the object has. So each pair
is found once, on one worker, and no merger is needed.

Arrays of a segment (S pieces, P postings, K keys, C cells, T terms):

    terms int64[T] ascending; term_table int64[2^b,2]: hash table of them (`kernels/matching/postings.py`); the value
        of a term is its number | the levels that it is posted on << 32
    levels int64[L], level_cells int64[L+1]: slice of `cells` of each level in use
    cells int64[C], cell_buckets int64[C]: index cells, ascending, and where the buckets of each begin
    buckets uint64[B+1,2]: the keys (cell, term) of a cell in buckets of 64 bits by their place among all terms. A
        bucket has a bit for each key, so that most misses cost one look-up, and its first key | its first posting
        << 32, so that a hit costs few more
    keys uint32[K]: term and place of the first posting in the bucket (`kernels/matching/postings.py`), ascending
        inside a cell
    far_keys int64[F], far_postings int64[F]: keys whose place does not fit, ascending, and the first posting of each
    postings uint64[P,2]: box, piece and a mask of words (`kernels/matching/postings.py`)
    subscription_keys int64[S]: negative (`~key`) for subscriptions with memory, of which a pair is only a candidate
    first_literals int32[S], literals int32[]: the terms of all clauses of all pieces; marks end a clause and a piece
    boxes float64[S,4]: read only where the steps of a posting's box do not decide
    validity int64[S,2]: created_at, end_at; read only if `bounds` do not decide
    bounds int64[4]: of all pieces the least key, the greatest key, the greatest created_at, the least end_at
    exact_tests int32[S]: number of the exact test or -1: the box decides; none if no piece has one
    shape_codes int64[R], shape_offsets int64[R+1], shape_numbers float64[]: exact tests, each with the code of its
        shape and the numbers that its kernel reads (kernels/matching/shapes)
    key_order int32[S]: the pieces in the order of their subscription keys
    units int32[S]: the unit that is recorded with each piece, NO_UNIT where none is; none if no piece has one
    verified_keys int64[V]: subscription keys with verified clauses, ascending; verified_clauses int64[V+1]: slice of
        the clauses of each; verified_literals int64[C+1]: slice of the literals of each clause; verified int64[]:
        literals (kernels/matching/verify_clauses.py)
    phrase_words int64[P+1], phrases int64[]: the words of each phrase in the verified clauses
"""

import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import make_read_only
from pststream.base.arrow_columns import integers, one_array
from pststream.kernels.matching.build_segment import (
    SORT_KEY_BITS,
    count_postings,
    directory,
    encode_postings,
    fill_postings,
    first_cells,
    term_levels,
)
from pststream.kernels.matching.index_cells import MAX_LEVEL
from pststream.kernels.matching.match_segment import Deleted, find_pieces, mark_bits
from pststream.kernels.matching.postings import (
    LAST_OF_CLAUSE,
    LAST_OF_PIECE,
    TERM_BITS,
    cell_buckets,
    encode_keys,
    fill_buckets,
    make_term_table,
)
from pststream.kernels.sort_and_search import sort_with
from pststream.plans.pieces import nested_lists, recorded_units
from pststream.queries.shapes.registry import PIECE_COLUMNS, SIDES, exact_tests
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.storage.parquet_files import open_parquet, without_views

PIECE_NAMES = tuple(column.name for column in PIECE_COLUMNS)

COLUMNS = ("subscription_key", *PIECE_NAMES, "clauses", "verified", "phrases", "created_at", "end_at", "kind", "unit")

NO_VERIFIED = pa.schema([(name, pa.list_(pa.list_(pa.int64()))) for name in ("verified", "phrases")])
"""Columns of `worker_index` that are null without verified clauses."""

MAX_POSTINGS = (1 << 31) - 1


class Segment(NamedTuple):
    """See the module's docstring for shapes and meaning; the arrays are read-only."""

    terms: np.ndarray
    term_table: np.ndarray
    levels: np.ndarray
    level_cells: np.ndarray
    cells: np.ndarray
    cell_buckets: np.ndarray
    buckets: np.ndarray
    keys: np.ndarray
    far_keys: np.ndarray
    far_postings: np.ndarray
    postings: np.ndarray
    subscription_keys: np.ndarray
    first_literals: np.ndarray
    literals: np.ndarray
    boxes: np.ndarray
    validity: np.ndarray
    bounds: np.ndarray
    exact_tests: np.ndarray
    shape_codes: np.ndarray
    shape_offsets: np.ndarray
    shape_numbers: np.ndarray
    key_order: np.ndarray
    units: np.ndarray
    verified_keys: np.ndarray
    verified_clauses: np.ndarray
    verified_literals: np.ndarray
    verified: np.ndarray
    phrase_words: np.ndarray
    phrases: np.ndarray

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return len(self.subscription_keys)

    @property
    def has_candidates(self) -> bool:
        """Whether there are pieces of subscriptions with memory."""
        return bool(self.bounds[0] < 0)

    @property
    def posting_keys(self) -> int:
        """Number of keys, which are pairs of an index cell and a term."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


def build_segment(rows: pa.Table) -> Segment:
    """Build the segment of rows (columns COLUMNS)."""
    # Pieces in the order of their first postings, their terms numbered within the segment.
    rows = _in_order_of_postings(rows)
    boxes = _boxes(rows)
    outer, inner, term_ids = nested_lists(one_array(rows.column("clauses")))
    terms, local = np.unique(term_ids, return_inverse=True)
    if len(terms) >= 1 << TERM_BITS:
        raise ValueError(f"a segment holds at most {1 << TERM_BITS} terms, not {len(terms)}")
    first_literal, literals = inner[outer[:-1]], local.astype(np.int32)
    literals[inner[1:] - 1] |= LAST_OF_CLAUSE
    literals[inner[outer[1:]] - 1] |= LAST_OF_PIECE
    # The postings, sorted by cell and term.
    first_size = inner[outer[:-1] + 1] - first_literal
    postings = count_postings(boxes, first_size)
    if max(postings, len(literals)) > MAX_POSTINGS:
        given = f"{postings}, {len(literals)}"
        raise ValueError(f"a segment holds at most {MAX_POSTINGS} postings and literals, not {given}")
    sort_key, piece = _sorted_postings(postings, boxes, first_literal, first_size, literals)
    # The directory of cells and keys, and the look-ups into it.
    cells, cell_keys, key_term, key_postings = directory(sort_key)
    borders = np.searchsorted(cells, [1 << (2 * level) for level in range(MAX_LEVEL + 2)])
    levels = np.flatnonzero(np.diff(borders)).astype(np.int64)
    starts, count = cell_buckets(cell_keys)
    buckets = fill_buckets(cell_keys, key_term, key_postings, starts, count, len(terms))
    posting_keys, far_keys = encode_keys(key_term, key_postings, buckets, len(terms))
    levels_of_term = term_levels(cells, cell_keys, key_term, len(terms))
    # The data to verify a posting whose box contains the object.
    codes, offsets, numbers = exact_tests({name: one_array(rows.column(name)) for name in PIECE_NAMES}, len(boxes))
    tested, exact_test = np.flatnonzero(codes), np.where(codes, np.cumsum(codes > 0) - 1, -1).astype(np.int32)
    keys, units = integers(rows, "subscription_key"), recorded_units(one_array(rows.column("unit")))
    keys = np.where(rows.column("kind").is_valid().to_numpy(), ~keys, keys)
    created, end = (integers(rows, name) for name in ("created_at", "end_at"))
    arrays = Segment(
        terms=terms,
        term_table=make_term_table(terms, np.arange(len(terms)) | (levels_of_term << 32)),
        levels=levels,
        level_cells=np.append(borders[levels], len(cells)).astype(np.int64),
        cells=cells,
        cell_buckets=starts,
        buckets=buckets,
        keys=posting_keys,
        far_keys=far_keys,
        far_postings=key_postings[far_keys].astype(np.int64),
        postings=encode_postings(sort_key, piece, boxes, first_literal, literals),
        subscription_keys=keys,
        first_literals=first_literal.astype(np.int32),
        literals=literals,
        boxes=boxes,
        validity=np.column_stack([created, end]),
        bounds=_bounds(keys, created, end),
        exact_tests=exact_test if len(tested) else np.empty(0, np.int32),
        shape_codes=codes[tested],
        shape_offsets=np.append(offsets[tested], offsets[-1]),
        shape_numbers=numbers,
        key_order=np.argsort(keys, kind="stable").astype(np.int32),
        units=units if (units >= 0).any() else np.empty(0, np.int32),
        **_verified(rows, keys),
    )
    return make_read_only(arrays)


def _verified(rows: pa.Table, keys: np.ndarray) -> dict[str, np.ndarray]:
    """Return the verified clauses and phrases of the rows, whose subscriptions have these keys, once a subscription."""
    chosen = np.flatnonzero(rows.column("verified").is_valid().to_numpy())
    verified_keys, first = np.unique(keys[chosen], return_index=True)
    kept = rows.select(["verified", "phrases"]).take(pa.array(chosen[first]))
    clauses, literals, verified = nested_lists(one_array(kept.column("verified")))
    _, phrase_words, phrases = nested_lists(one_array(kept.column("phrases").drop_null()))
    return {
        "verified_keys": verified_keys,
        "verified_clauses": clauses,
        "verified_literals": literals,
        "verified": verified,
        "phrase_words": phrase_words,
        "phrases": phrases,
    }


def _bounds(keys: np.ndarray, created: np.ndarray, end: np.ndarray) -> np.ndarray:
    last, first = names.MAX_INT64, names.MIN_INT64
    bounds = keys.min(initial=last), keys.max(initial=first), created.max(initial=first), end.min(initial=last)
    return np.array(bounds, np.int64)


def _sorted_postings(
    count: int, boxes: np.ndarray, first_literal: np.ndarray, first_size: np.ndarray, literals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sort key (cell and term) and the piece of each posting, sorted by both; no two are equal."""
    sort_key, piece = np.empty(count, np.int64), np.empty(count, np.int32)
    fill_postings(boxes, first_literal, first_size, literals, sort_key, piece)
    sort_key, piece = sort_with(sort_key, piece, SORT_KEY_BITS)
    # Two words of a clause may have the same id.
    repeated = (sort_key[1:] == sort_key[:-1]) & (piece[1:] == piece[:-1])
    if repeated.any():
        kept = np.append(True, ~repeated)
        sort_key, piece = sort_key[kept], piece[kept]
    return sort_key, piece


def _in_order_of_postings(rows: pa.Table) -> pa.Table:
    """Sort rows by the cell and the term of their first posting, so that hits of one list are neighbours in memory."""
    outer, inner, terms = nested_lists(one_array(rows.column("clauses")))
    first = terms[inner[outer[:-1]]]
    keys = (first_cells(_boxes(rows)) << TERM_BITS) | (first & ((1 << TERM_BITS) - 1))
    _, order = sort_with(keys, np.arange(len(keys), dtype=np.int32), SORT_KEY_BITS)
    return rows.take(pa.array(order)).combine_chunks()


def _boxes(rows: pa.Table) -> np.ndarray:
    return np.column_stack([rows.column(side).to_numpy().astype(np.float64, copy=False) for side in SIDES])


DELETION_COLUMNS = ("subscription_key", "end_at")
Deletions = tuple[np.ndarray, np.ndarray]
"""Keys int64[n], ascending and distinct, and ends int64[n], microseconds."""

NO_DELETIONS: Deletions = (np.empty(0, np.int64), np.empty(0, np.int64))


def build_deletions(rows: pa.Table) -> dict[str, np.ndarray]:
    """Return keys int64[n], ascending, and ends int64[n] (microseconds) of the deletions in a data file."""
    keys = rows.column("subscription_key").to_numpy()
    order = np.argsort(keys, kind="stable")
    return {"keys": keys[order], "ends": rows.column("end_at").to_numpy()[order]}


def merge_deletions(parts: list[dict[str, np.ndarray]]) -> Deletions:
    """Merge the keys and ends of all parts, ascending by key; keep the earliest end of each key."""
    if not parts:
        return NO_DELETIONS
    keys = np.concatenate([part["keys"] for part in parts])
    ends = np.concatenate([part["ends"] for part in parts])
    order = np.lexsort((ends, keys))
    keys, ends = keys[order], ends[order]
    first = np.ones(len(keys), bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], ends[first]


def deleted_pieces(segment: Segment, keys: np.ndarray, ends: np.ndarray, after_key: int = names.MIN_INT64) -> Deleted:
    """Return the pieces of the segment that the deletions end, with their ends, for `verify`.

    The segment is not built again (lazy deletion): the kernel looks deletions up only for the pieces that they end.

    Source: PS2Stream section IV-D.
    """
    # Most deletions concern subscriptions that are older than the segment.
    first, last = np.searchsorted(keys, segment.bounds[0], "left"), np.searchsorted(keys, segment.bounds[1], "right")
    pieces, deletion = find_pieces(keys[first:last], segment.subscription_keys, segment.key_order)
    piece_ends = ends[first:last][deletion]
    order = np.argsort(pieces, kind="stable")
    return Deleted(mark_bits(pieces, segment.pieces), pieces[order], piece_ends[order], after_key)


def without_pieces(segment: Segment, deleted: Deleted, others: np.ndarray) -> Deleted:
    """Return the deletions with further pieces (int64[n], ascending), which end before every object."""
    kept = ~np.isin(deleted.pieces, others)
    pieces = np.concatenate([deleted.pieces[kept], others])
    ends = np.concatenate([deleted.ends[kept], np.full(len(others), names.NO_TIME)])
    order = np.argsort(pieces, kind="stable")
    return Deleted(mark_bits(pieces, segment.pieces), pieces[order], ends[order], deleted.after_key)


LAYOUT = 8
"""Layout version in the name of the cache folder, so that code with other arrays reads none of the entries."""


class SegmentCache(ArrayCache):
    """Arrays of the index, built from data files; one instance for each process."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        super().__init__(folder, max_bytes, str(LAYOUT))

    def segments(self, wanted: Iterable[Paths]) -> dict[Paths, Segment]:
        """Return several segments.

        Each thread loads them in a different order, so that threads and processes that start together on new files
        build different segments first.
        """
        thread = os.getpid(), threading.get_ident()
        return {paths: self.segment(paths) for paths in sorted(wanted, key=lambda paths: hash((thread, paths)))}

    def segment(self, paths: Paths) -> Segment:
        """Return the segment of some data files of pieces."""
        return Segment(**self.arrays(paths, lambda: build_segment(_read(paths, COLUMNS))._asdict()))

    def deletions(self, path: str) -> dict[str, np.ndarray]:
        """Return the keys and ends of a data file of deletions (matching/segments.py)."""
        return self.arrays((path,), lambda: build_deletions(_read((path,), DELETION_COLUMNS)))


def _read(paths: Paths, columns: tuple[str, ...]) -> pa.Table:
    """Read columns of data files."""

    def read(path: str) -> pa.Table:
        with open_parquet(path) as file:
            return without_views(file.read(columns)).select(columns)

    return pa.concat_tables(map(read, paths))
