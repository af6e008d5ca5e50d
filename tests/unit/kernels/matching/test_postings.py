"""Postings, their keys and the table of terms against plain comparisons and dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.compile import kernel
from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, fine_column, fine_row, row_of
from pststream.kernels.matching.postings import (
    GUARDS,
    LAST_OF_CLAUSE,
    LAST_OF_PIECE,
    ONES,
    SEVERAL_CLAUSES,
    cell_buckets,
    encode_box,
    encode_keys,
    encode_point,
    fill_buckets,
    find_far_posting,
    find_values,
    look_up,
    make_term_table,
    place_bits,
    words_of_piece,
)

LONS = st.sampled_from([-180.0, -0.1, 0.0, 1e-9, 12.3, 179.99, 180.0]) | st.floats(-180, 180)
LATS = st.sampled_from([-90.0, -0.1, 0.0, 1e-9, 33.3, 90.0]) | st.floats(-90, 90)


@kernel
def _lanes(column, row, level):
    return encode_point(column, row, level)


@settings(max_examples=300, deadline=None)
@given(LONS, LATS)
def test_fine_columns_and_rows_refine_those_of_cells(lon: float, lat: float) -> None:
    assert fine_column(lon) >> 15 == column_of(lon) and fine_row(lat) >> 15 == row_of(lat)
    assert fine_column(np.nextafter(lon, -180.0)) <= fine_column(lon) < 1 << 32
    assert fine_row(np.nextafter(lat, -90.0)) <= fine_row(lat) < 1 << 31


@settings(max_examples=300, deadline=None)
@given(st.tuples(LONS, LONS), st.tuples(LATS, LATS), LONS, LATS, st.integers(0, MAX_LEVEL), st.data())
def test_a_subtraction_excludes_and_admits_only_what_is_certain(lons, lats, lon, lat, level, data) -> None:
    (west, east), (south, north) = sorted(lons), sorted(lats)
    lon = data.draw(st.sampled_from([lon, west, east, np.nextafter(west, -180.0), np.nextafter(east, 180.0)]))
    lat = data.draw(st.sampled_from([lat, south, north, np.nextafter(south, -90.0), np.nextafter(north, 90.0)]))
    shift = MAX_LEVEL - level
    box = encode_box(np.array([west, south, east, north]), column_of(lon) >> shift, row_of(lat) >> shift, level)
    # All values of lanes fit in 64 bits, so plain integers show the bits.
    lanes = int(_lanes(fine_column(lon), fine_row(lat), level)) - int(box)
    guards, ones = int(GUARDS), int(ONES)
    inside = west <= lon <= east and south <= lat <= north
    assert lanes & guards == guards or not inside
    assert (lanes - ones) & guards != guards or inside


@given(st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_masks_hold_words_that_decide(clauses: list[set[int]], data: st.DataObject) -> None:
    parts = [sorted(clause) for clause in clauses]
    own = data.draw(st.sampled_from(parts[0]))
    literals = np.array([term for part in parts for term in part], np.int32)
    literals[np.cumsum([len(part) for part in parts]) - 1] |= LAST_OF_CLAUSE
    literals[-1] |= LAST_OF_PIECE
    several = len(parts) > 1
    words = [part[0] for part in parts[1:] if len(part) == 1] if several else parts[0][: parts[0].index(own)]
    expected = sum({1 << (word % 32) for word in words}) << 32 | several * int(SEVERAL_CLAUSES)
    assert int(words_of_piece(literals, 0, own)) == expected


@pytest.mark.parametrize("terms", [1, 40, 1 << 26])
def test_keys_lead_to_their_first_postings(terms: int) -> None:
    """With 2^26 terms, a key has six bits for the place of its first posting."""
    random = np.random.default_rng(terms)
    widths = random.integers(1, min(terms, 30) + 1, 50)
    cell_keys = np.concatenate([[0], np.cumsum(widths)])
    key_term = np.concatenate([np.sort(random.choice(terms, width, replace=False)) for width in widths]).astype(
        np.int32
    )
    key_postings = np.concatenate([[0], np.cumsum(random.integers(1, 60, len(key_term)))]).astype(np.int32)
    starts, count = cell_buckets(cell_keys)
    buckets = fill_buckets(cell_keys, key_term, key_postings, starts, count, terms)
    keys, far = encode_keys(key_term, key_postings, buckets, terms)
    assert (len(far) > 0) == (terms == 1 << 26)
    bits = place_bits(terms)
    greatest = (1 << bits) - 1
    for bucket in range(count):
        base, begin = int(buckets[bucket, 1]) >> 32, int(buckets[bucket, 1]) & 0xFFFFFFFF
        for key in range(begin, int(buckets[bucket + 1, 1]) & 0xFFFFFFFF):
            place = int(keys[key]) & greatest
            found = base + place if place < greatest else find_far_posting(key, far, key_postings[far].astype(np.int64))
            assert (int(keys[key]) >> bits, found) == (key_term[key], key_postings[key])


@given(st.sets(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=30))
def test_terms_are_looked_up_as_in_a_dictionary(terms: set[int]) -> None:
    ids = np.array(sorted(terms), np.int64)
    table = make_term_table(ids, np.arange(len(ids)) * 7)
    wanted = [*ids.tolist(), -3, -2, -1, 0, 1, 2, 3]
    values = dict(zip(ids.tolist(), range(0, 7 * len(ids), 7)))
    assert [look_up(term, table) for term in wanted] == [values.get(term, -1) for term in wanted]
    assert find_values(np.array(wanted), table).tolist() == [values.get(term, -1) for term in wanted]
