"""The fast matching against the slow one, on random worlds and at the edges."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.names import NEVER_US
from pststream.kernels.matching.index_cells import MAX_LEVEL, level_of_box
from pststream.kernels.matching.match_segment import SearchCounts, match_segment
from pststream.matching import matcher
from pststream.matching.matcher import (
    LiveTermFilter,
    MatchedPairs,
    make_probe,
    match_objects,
    merge_pairs,
    sort_objects,
)
from pststream.matching.segments import COLUMNS, build_deletions, build_segment, merge_deletions
from pststream.planning.dispatch import DispatchIndex
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.queries.shapes.registry import PIECE_COLUMNS
from tests.fuzz.cases import examples
from tests.oracles.matching import matches_of

LONS = st.sampled_from([-180.0, -179.99, -90.0, -0.1, 0.0, 0.05, 0.1, 12.3, 90.0, 179.99, 180.0])
LATS = st.sampled_from([-90.0, -89.9, -45.0, 0.0, 0.05, 0.1, 33.3, 89.9, 90.0])
TERMS = st.sets(st.integers(-4, 4), max_size=5)
TIMES = st.integers(0, 6)
KEYS = st.lists(st.integers(0, 99), max_size=4)


@st.composite
def objects(draw):
    return {"lon": draw(LONS), "lat": draw(LATS), "ts": draw(TIMES), "terms": sorted(draw(TERMS))}


@st.composite
def pieces(draw):
    west, east = sorted([draw(LONS), draw(LONS)])
    south, north = sorted([draw(LATS), draw(LATS)])
    clauses = draw(st.lists(st.sets(st.integers(-4, 4), min_size=1, max_size=3), min_size=1, max_size=3))
    shape = draw(st.sampled_from(["box", "circle", "polygon"]))
    circle = draw(st.tuples(LONS, LATS, st.sampled_from([0.0, 5_000.0, 20_015_115.0]))) if shape == "circle" else None
    corners = draw(st.lists(st.tuples(LONS, LATS), min_size=3, max_size=3)) if shape == "polygon" else []
    return {
        "west": west,
        "south": south,
        "east": east,
        "north": north,
        "circle": None if circle is None else list(circle),
        "polygon": [[*corners, corners[0]]] if corners else None,
        "clauses": [sorted(clause) for clause in clauses],
        "created_at": draw(TIMES),
        "end_at": draw(st.sampled_from([3, 5, NEVER_US])),
    }


def piece(key: int, clauses: list[list[int]], **changes) -> dict:
    """Make a piece whose box has the point (1, 1), valid at any time."""
    box = {"west": 0.0, "south": 0.0, "east": 2.0, "north": 2.0, "circle": None, "polygon": None}
    return {**box, "created_at": 0, "end_at": NEVER_US, "subscription_key": key, "clauses": clauses, **changes}


def at_one_point(terms: list[int]) -> dict:
    return {"lon": 1.0, "lat": 1.0, "ts": 1, "terms": terms}


def rows_of(made: list[dict]) -> pa.Table:
    types = {column.name: column.type for column in PIECE_COLUMNS}
    types |= {name: pa.list_(pa.list_(pa.int64())) for name in ("clauses", "verified", "phrases")} | {
        "kind": pa.string(),
        "unit": pa.int64(),
    }
    rows = [{**row, "polygon_edges": edges_of(row["polygon"])} for row in made]
    return pa.table({name: pa.array([row.get(name) for row in rows], types.get(name)) for name in COLUMNS})


def edges_of(rings: list[list[tuple[float, float]]] | None) -> list[float] | None:
    return None if rings is None else [x for ring in rings for a, b in zip(ring, ring[1:]) for x in (*a, *b)]


def arrays_of(made: list[dict]) -> tuple:
    offsets = np.concatenate([[0], np.cumsum([len(thing["terms"]) for thing in made])]).astype(np.int64)
    terms = np.array([term for thing in made for term in thing["terms"]], np.int64)
    lon, lat = (np.array([thing[name] for thing in made], np.float64) for name in ("lon", "lat"))
    return lon, lat, np.array([thing["ts"] for thing in made], np.int64), offsets, terms


def fast(made: list[dict], segments: list[list[dict]], deletions: list[tuple[int, int]], after_key: int = -1) -> list:
    lon, lat, ts, offsets, terms = arrays_of(made)
    batch = sort_objects(lon, lat, ts, offsets, terms, np.zeros(len(terms), np.int32))
    table = pa.table({"subscription_key": [k for k, _ in deletions], "end_at": [e for _, e in deletions]})
    deleted = merge_deletions([build_deletions(table.cast(pa.schema([(n, pa.int64()) for n in table.schema.names])))])
    found = match_objects(batch, [make_probe(build_segment(rows_of(part)), deleted, after_key) for part in segments], 1)
    owner = batch.order[np.repeat(np.arange(len(batch.order)), np.diff(found.offsets))]
    assert found.matches.sum() == len(found.keys) <= found.candidates.sum()
    return sorted(zip(owner.tolist(), found.keys.tolist(), strict=True))


@examples(150)
@given(st.data())
def test_random_worlds(data):
    made = data.draw(st.lists(objects(), max_size=12))
    world = data.draw(st.lists(pieces(), max_size=12))
    for key, piece in enumerate(world):
        piece["subscription_key"] = key
    deletions = data.draw(st.lists(st.tuples(st.integers(0, 12), TIMES), max_size=4))
    cut = data.draw(st.integers(0, len(world)))
    after_key = data.draw(st.sampled_from([-1, -1, 3]))
    found = fast(made, [world[:cut], world[cut:]], deletions, after_key)
    assert found == sorted(matches_of(made, world, deletions, after_key))


@examples(60)
@given(st.data())
def test_no_live_term_is_filtered_out(data):
    made = data.draw(st.lists(objects(), min_size=1, max_size=8))
    world = data.draw(st.lists(pieces(), min_size=1, max_size=8))
    for key, piece in enumerate(world):
        piece["subscription_key"] = key

    class Cache:
        def segments(self, wanted: frozenset[tuple[str, ...]]):
            return {paths: build_segment(rows_of(world)) for paths in wanted}

    live = LiveTermFilter()
    live.update(frozenset([("one",)]), Cache())
    lon, lat, _, offsets, terms = arrays_of(made)
    passed = passes(live, lon, lat, offsets, terms)
    for place, key in matches_of(made, [{**p, "created_at": 0, "end_at": 9} for p in world], []):
        clause = world[key]["clauses"][0]
        mine = slice(offsets[place], offsets[place + 1])
        assert all(passed[mine][[t in clause for t in terms[mine]]])
    live.update(frozenset(), Cache())
    assert not passes(live, lon, lat, offsets, terms).any()


def test_a_failed_reading_leaves_no_segment_out_of_the_filter():
    """The filter would be built again when a segment cannot be read; a later batch wants more segments."""
    segments = {name: build_segment(rows_of([piece(first, [list(range(first, last))])]))
                for name, first, last in (("a", 0, 100), ("b", 100, 140), ("c", 140, 240))}  # fmt: skip
    readings = []

    class Cache:
        def segments(self, wanted: frozenset[tuple[str, ...]]):
            readings.append(wanted)
            if len(readings) == failing:
                raise OSError("unreadable")
            return {paths: segments[paths[0]] for paths in wanted}

    live, cache, failing = LiveTermFilter(), Cache(), 0
    live.update(frozenset([("a",)]), cache)
    failing = len(readings) + 3
    with pytest.raises(OSError, match="unreadable"):
        live.update(frozenset([("b",)]), cache)
    live.update(frozenset([("b",), ("c",)]), cache)
    terms = np.arange(100, 240)
    assert passes(live, np.full(140, 1.0), np.full(140, 1.0), np.arange(141), terms).all()


def test_a_search_ends_soon_after_its_greatest_number_of_pairs():
    """Objects of one block have far more pairs than a search may find: only a buffer more of them is kept."""
    world = [piece(key, [[1]]) for key in range(500)]
    lon, lat, ts, offsets, terms = arrays_of([at_one_point([1])] * 200)
    objects = sort_objects(lon, lat, ts, offsets, terms, np.zeros(200, np.int32))
    segment, deleted = make_probe(build_segment(rows_of(world)))
    counts = SearchCounts(np.zeros(1, np.int64), np.zeros(1, np.int64))
    for most, found in ((1_000, (1_001, 1_000 + 2 * 64)), (100_000, (100_000, 100_000))):
        _, keys = match_segment(objects, segment, deleted, True, counts, 64, most, np.empty(128, np.int64))
        assert found[0] <= len(keys) <= found[1]


def passes(
    live: LiveTermFilter, lon: np.ndarray, lat: np.ndarray, offsets: np.ndarray, terms: np.ndarray
) -> np.ndarray:
    """Whether each (object, term) passes the filter: an object of this one term is sent to the only worker."""
    index = DispatchIndex(space_plan("grid", DispatchGrid(0, 0, 90, 90, 2, 2), np.zeros(4), np.zeros(1), 1))
    owner = np.repeat(np.arange(len(lon)), np.diff(offsets))
    sent, _ = index.route_objects(lon[owner], lat[owner], np.arange(len(terms) + 1), terms, [live.arrays()])
    return np.isin(np.arange(len(terms)), sent)


def test_edges_that_differ_by_less_than_a_step():
    """Boxes are held in steps of 9 mm; points a float away from an edge are told apart all the same."""
    edges = np.array([-180.0, -0.1, 0.0, 12.3, 180.0])
    lons = np.clip(np.concatenate([edges, np.nextafter(edges, 999.0), np.nextafter(edges, -999.0)]), -180.0, 180.0)
    made = [{"lon": lon, "lat": lat, "ts": 1, "terms": [1]} for lon in lons.tolist() for lat in (lons / 2).tolist()]
    world = [
        piece(100 * i + j, [[1]], west=w, east=e, south=w / 2, north=e / 2)
        for i, w in enumerate(lons.tolist())
        for j, e in enumerate(lons.tolist())
        if w <= e
    ]
    assert fast(made, [world], []) == sorted(matches_of(made, world, []))


def test_objects_of_many_blocks_and_keys_that_outgrow_their_room(monkeypatch):
    """Objects of several blocks, one with more terms than a block has room for, and cells on all levels."""
    monkeypatch.setattr(matcher, "HIT_BUFFER", 8)
    monkeypatch.setattr(matcher, "EXPECTED_PAIRS", 0)
    random = np.random.default_rng(1)
    made = [
        {"lon": lon, "lat": lat, "ts": 1, "terms": sorted(random.choice(40, n % 9, replace=False).tolist())}
        for n, (lon, lat) in enumerate(random.uniform(-60, 60, (600, 2)).tolist())
    ]
    made[300]["terms"] = list(range(6000))
    world = []
    for key in range(120):
        (west, south), half = random.uniform(-60, 60, 2).tolist(), 90.0 / 2 ** (key % 12)
        sides = {"west": west - half, "east": west + half, "south": max(south - half, -90.0), "north": south + 1}
        clauses = [sorted(random.choice(40, n, replace=False).tolist()) for n in random.integers(1, 4, 1 + key % 3)]
        world.append(piece(key, clauses, **sides))
    pairs = sorted(matches_of(made, world, []))
    assert len(pairs) > 500
    assert fast(made, [world], []) == pairs
    assert fast(made, [world[::2], world[1::2]], []) == pairs


def test_posting_lists_after_a_longer_one_than_the_place_of_a_key_can_count():
    """With 2^17 terms a key has 15 bits for its place: lists of later terms begin behind 40,000 postings."""
    world = [piece(key, [[1]]) for key in range(40_000)] + [piece(40_000, [[2]])]
    for key, first in enumerate(range(3, 130_000, 500), 40_001):
        world.append(piece(key, [list(range(first, first + 500))], west=1.5))
    assert len(build_segment(rows_of(world)).far_keys) > 1
    made = [{"lon": 1.7, "lat": 1.0, "ts": 1, "terms": terms} for terms in ([1], [2], [4])]
    assert fast(made, [world], []) == [(0, key) for key in range(40_000)] + [(1, 40_000), (2, 40_001)]


def test_two_words_of_a_clause_with_one_id_make_one_pair():
    assert fast([at_one_point([1])], [[piece(7, [[1, 1, 2], [1, 1]])]], []) == [(0, 7)]


def test_levels_suit_the_region():
    hundred_metres = 0.0009
    assert level_of_box(10.0, 50.0, 10.0, 50.0) == MAX_LEVEL
    assert level_of_box(10.0, 50.0, 10.0 + hundred_metres, 50.0 + hundred_metres) == MAX_LEVEL
    assert level_of_box(-180.0, -90.0, 180.0, 90.0) == 0


def test_no_region_blows_the_index_up():
    for half in (0.0, 0.0004, 0.01, 0.3, 4.0, 60.0, 90.0):
        row = piece(1, [[1]], west=5.0 - half, east=5.0 + half, south=-half, north=half)
        assert len(build_segment(rows_of([row])).postings) <= 4


@pytest.mark.parametrize("terms", [1, 1000])
def test_many_terms_and_clauses(terms):
    world = [piece(7, [[i, i + 1000] for i in range(50)])]
    assert fast([at_one_point(list(range(terms)))], [world], []) == ([(0, 7)] if terms == 1000 else [])


def pairs_found(keys: list[list[int]]) -> MatchedPairs:
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in keys])]).astype(np.int64)
    return MatchedPairs(offsets, np.array([key for part in keys for key in part], np.int64), np.zeros(1), np.zeros(1))


@given(st.lists(st.tuples(KEYS, KEYS), max_size=5))
def test_pairs_of_two_searches_are_joined_by_object(both):
    searches = [pairs_found([one for one, _ in both]), pairs_found([other for _, other in both])]
    offsets, keys = merge_pairs(searches)
    joined = [keys[start:stop].tolist() for start, stop in zip(offsets, offsets[1:])]
    assert joined == [one + other for one, other in both]
