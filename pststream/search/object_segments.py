"""Build object segments: convert rows of `objects` into the arrays that answer questions.

A segment is a function of its data files and LAYOUT alone. Late objects, and files that `maintain` has compacted, are
rows like any other. Arrays of a segment (n objects in Morton order, T terms):

    codes, places, times, keys, offsets, row_terms, posting_offsets, postings, cell_rows: see
        kernels/questions/question_arrays.py
    terms int64[T]: term ids (queries/text/tokenizer.py), the terms of more objects first, in tiers; ascending within
        a tier
    tiers int64[]: tier i has the terms from place tiers[i] up to tiers[i + 1]
    word_offsets int32[T+1], words uint8[]: the word of each term, UTF-8
    id_offsets int32[n+1], ids uint8[]: the object_id of each object, UTF-8
        (offsets are int64 where there are 2 GiB of bytes or more)
    slice_times, listed_rows, cells, cell_lists, list_offsets, list_bounds, list_terms, list_counts: see
        kernels/questions/frequent_terms.py
    bounds int64[4]: least and greatest ts, least and greatest key
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrays import make_read_only
from pststream.base.arrow_columns import TIME, csr, one_array, utf8_of
from pststream.kernels.parsing.texts import FOLDED
from pststream.kernels.questions.build_segment import (
    find_terms,
    find_words,
    gather_rows,
    number_terms,
)
from pststream.kernels.questions.codes import LEVELS, pack_numbers, place_codes
from pststream.kernels.questions.frequent_terms import LEAST_OBJECTS, FrequentTerms, list_frequent_terms
from pststream.kernels.questions.question_arrays import ObjectArrays
from pststream.kernels.sort_and_search import transpose
from pststream.queries.shapes.contract import matched_lon
from pststream.queries.text.tokenizer import normalized_texts

LAYOUT = "objects-6"
"""Name and version of the arrays, part of the name of the cache folder."""

COLUMNS = ("object_key", "object_id", "ts", "lon", "lat", "text", "terms")

MAX_TERMS = (1 << 31) - 1


class TooManyTerms(ValueError):
    """The objects of some data files have more terms together than a segment can have."""


class ObjectSegment(NamedTuple):
    """See the module's docstring for shapes and meaning; the arrays are read-only."""

    codes: np.ndarray
    places: np.ndarray
    times: np.ndarray
    keys: np.ndarray
    offsets: np.ndarray
    row_terms: np.ndarray
    posting_offsets: np.ndarray
    postings: np.ndarray
    cell_rows: np.ndarray
    terms: np.ndarray
    tiers: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray
    id_offsets: np.ndarray
    ids: np.ndarray
    slice_times: np.ndarray
    listed_rows: np.ndarray
    cells: np.ndarray
    cell_lists: np.ndarray
    list_offsets: np.ndarray
    list_bounds: np.ndarray
    list_terms: np.ndarray
    list_counts: np.ndarray
    bounds: np.ndarray

    @property
    def objects(self) -> ObjectArrays:
        """The arrays that kernels search."""
        return ObjectArrays(*self[: len(ObjectArrays._fields)])

    @property
    def frequent_terms(self) -> FrequentTerms:
        """The lists of frequent terms of cells."""
        return FrequentTerms(*(getattr(self, name) for name in FrequentTerms._fields))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)

    def object_ids(self, rows: np.ndarray) -> pa.Array:
        """Return the object_id of some rows (int64[n]): string[n], or large_string[n]."""
        texts = pa.StringArray if self.id_offsets.dtype == np.int32 else pa.LargeStringArray
        ids = texts.from_buffers(len(self.keys), pa.py_buffer(self.id_offsets), pa.py_buffer(self.ids))
        return ids.take(pa.array(rows))

    def find_terms(self, ids: np.ndarray) -> np.ndarray:
        """Return the place of each term id among `terms`, -1 where it is absent: int32[n]; `ids` int64[n]."""
        return np.asarray(find_terms(self.terms, self.tiers, ids))

    def words_of(self, terms: np.ndarray) -> pa.Array:
        """Return the words of terms, by their places among the terms of the segment: large_string[n]."""
        texts = pa.StringArray if self.word_offsets.dtype == np.int32 else pa.LargeStringArray
        words = texts.from_buffers(len(self.terms), pa.py_buffer(self.word_offsets), pa.py_buffer(self.words))
        return words.take(pa.array(terms)).cast(pa.large_string())

    def word(self, term: int) -> str:
        """Return the word of a term, by its place among the terms of the segment."""
        return bytes(self.words[self.word_offsets[term] : self.word_offsets[term + 1]]).decode()


def build_object_segment(rows: pa.Table) -> ObjectSegment:
    """Build the segment of rows of `objects` (columns COLUMNS); raises TooManyTerms for 2^31 terms or more."""
    lon, lat = (_numbers(rows, name, np.float64) for name in ("lon", "lat"))
    lon = matched_lon(lon, lat)
    codes, order = _order_codes(place_codes(lon, lat))
    times, keys = (_numbers(rows, name, np.int64)[order] for name in ("ts", "object_key"))
    term_offsets, ids = csr(one_array(rows.column("terms")))
    if len(ids) > MAX_TERMS:
        raise TooManyTerms(f"a segment holds at most {MAX_TERMS} terms of objects, not {len(ids)}")
    distinct, numbers = number_terms(ids)
    of_tier, tiers, places = place_terms(distinct, numbers)
    terms = distinct[of_tier]
    offsets, row_terms = gather_rows(order, term_offsets, places)
    listed = list_terms(codes, times, offsets, row_terms, tiers)
    posting_offsets, postings = listed["posting_offsets"], listed.pop("rows")
    # Each term is a word of the text of its first row.
    has_first = np.zeros(len(order), bool)
    has_first[postings[posting_offsets[:-1]]] = True
    first_rows = np.flatnonzero(has_first)
    texts = normalized_texts(_take_texts(rows.column("text"), order[first_rows]))
    data, text_offsets = utf8_of(texts)
    word_offsets, words = find_words(first_rows, data, text_offsets, FOLDED, offsets, row_terms, terms)
    id_bytes, id_offsets = utf8_of(_take_texts(rows.column("object_id"), order))
    bounds = [times.min(), times.max(), keys.min(), keys.max()] if len(times) else 4 * [0]
    segment = ObjectSegment(
        codes=codes,
        places=np.column_stack([lon[order], lat[order]]),
        times=times,
        keys=keys,
        cell_rows=first_rows_of_cells(codes),
        terms=terms,
        word_offsets=_narrow(word_offsets),
        words=words,
        id_offsets=_narrow(id_offsets - id_offsets[0]),
        ids=id_bytes[id_offsets[0] : id_offsets[-1]],
        **listed,
        bounds=np.array(bounds, np.int64),
    )
    return make_read_only(segment)


def place_terms(distinct: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms of a segment in its order, as places in `distinct` (int64[T]), the tiers, and the place in that
    order of each of `numbers`: int32[m].

    distinct   int64[T]: term ids
    numbers    int[m]: the terms of objects, as places in `distinct`
    """
    of_tier, tiers = _in_tiers(distinct, np.bincount(numbers, minlength=len(distinct)))
    place_of = np.empty(len(distinct), np.int32)
    place_of[of_tier] = np.arange(len(distinct), dtype=np.int32)
    return of_tier, tiers, place_of[numbers]


def list_terms(
    codes: np.ndarray, times: np.ndarray, offsets: np.ndarray, row_terms: np.ndarray, tiers: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays of a segment that its terms alone decide, without the words, and `rows`: postings, not packed.

    offsets, row_terms   int32[n+1], int32[m]: the terms of each object
    """
    starts, rows = transpose(offsets, row_terms, int(tiers[-1]))
    return {
        "offsets": offsets,
        "row_terms": pack_numbers(row_terms, int(tiers[-1])),
        "posting_offsets": starts.astype(np.int32),
        "postings": pack_numbers(rows, len(codes)),
        "tiers": tiers,
        **list_frequent_terms(codes, times, offsets, row_terms, tiers)._asdict(),
        "rows": rows,
    }


def _order_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (uint32[n]) in ascending order, and the rows that have them, equal codes in their order: int64[n].

    A sort of numbers that end with their row is several times faster than a stable `argsort`.
    """
    packed = np.sort(codes.astype(np.uint64) << np.uint64(32) | np.arange(len(codes), dtype=np.uint64))
    return (packed >> np.uint64(32)).astype(np.uint32), (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)


def row_order(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the objects at these places (float64[n]), which a segment is built from, in its order: int64[n]."""
    return _order_codes(place_codes(matched_lon(lon, lat), lat))[1]


def _in_tiers(distinct: np.ndarray, objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of terms by tier, then by id, and the tiers; see LEAST_OBJECTS.

    distinct, objects  int64[T]: the terms, and the number of objects that have each
    """
    tier = np.searchsorted(-np.array(LEAST_OBJECTS), -objects).astype(np.uint8)
    by_id = np.argsort(distinct)
    order = by_id[np.argsort(tier[by_id], kind="stable")]
    sizes = np.bincount(tier, minlength=len(LEAST_OBJECTS) + 1)
    return order, np.append(0, np.cumsum(sizes)).astype(np.int64)


def first_rows_of_cells(codes: np.ndarray) -> np.ndarray:
    """Return the first row of each cell of a level with about 16 objects in a cell, and the number of rows."""
    level = min(8, max(0, (len(codes) // 16).bit_length() // 2))
    cells = np.arange((1 << 2 * level) + 1, dtype=np.int64)
    return np.searchsorted(codes, cells << 2 * (LEVELS - level)).astype(np.int32)


def _numbers(rows: pa.Table, name: str, kind: type) -> np.ndarray:
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(TIME).cast(pa.int64())
    return column.to_numpy().astype(kind, copy=False)


def _narrow(offsets: np.ndarray) -> np.ndarray:
    return offsets.astype(np.int32) if offsets[-1] <= MAX_TERMS else offsets


def _take_texts(column: pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    """Return distinct rows (int64[n]) of a column of texts: large_string[n].

    Arrow's `take` puts the chunks of a column together first, which fails if these are strings of 2 GiB or more.
    """
    wanted = np.zeros(len(column), bool)
    wanted[rows] = True
    positions = np.cumsum(wanted) - 1
    return one_array(column.filter(pa.array(wanted)).cast(pa.large_string())).take(pa.array(positions[rows]))
