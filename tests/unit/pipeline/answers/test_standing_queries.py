"""Subscriptions with memory as arrays, their pieces in the index, and the `topk` index and sample made of them."""

import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.answers.contract import bucket_of
from pststream.answers.scored_index import ScoredIndex
from pststream.base.names import NEVER_US
from pststream.kernels.questions.codes import distances_m
from pststream.pipeline.answers.index_thresholds import make_pieces
from pststream.pipeline.answers.scored_candidates import bring_up_index, drop_scored_index
from pststream.pipeline.answers.standing_queries import (
    Queries,
    StandingQueries,
    clauses_of,
    entries_kept,
    layout,
    take_queries,
    verified_queries,
)
from pststream.pipeline.answers.unit_candidates import DrawnTopk
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import count_loads
from pststream.plans.pieces import number_pieces
from pststream.queries.shapes.circle import contains
from pststream.queries.shapes.contract import Region
from pststream.search.term_weights import EQUAL_WEIGHTS
from pststream.storage.array_cache import ArrayCache
from tests.fuzz.cases import examples
from tests.unit.answers.scored_index_worlds import as_messages, as_subscriptions, candidates, random_world

SCHEMA = pa.schema(
    {
        **{
            name: pa.int64()
            for name in ("request_key", "subscription_key", "replaced_key", "k", "window_us", "window_objects")
        },
        **{name: pa.string() for name in ("op", "kind")},
        **{name: pa.timestamp("us", "UTC") for name in ("effective_at", "expires_at")},
        **{name: pa.float64() for name in ("lon", "lat", "alpha", "distance_scale_m", "max_distance_m")},
        **{name: pa.list_(pa.list_(pa.int64())) for name in ("clauses", "verified", "phrases")},
    }
)
BUCKETS = 3


def insertion(key: int, **changed: object) -> dict:
    clauses = [[key, key + 1], [7]][: 1 + key % 2]
    row = {"request_key": key, "subscription_key": key, "op": "insert", "kind": "knn", "effective_at": key * 10, "k": 5}
    return row | {"lon": key / 10, "lat": -key / 10, "clauses": clauses} | changed


@pytest.fixture
def queries(tmp_path: Path) -> StandingQueries:
    deletion = {"request_key": 6, "op": "delete", "subscription_key": 2, "effective_at": 99}
    of_range = {"request_key": 3, "subscription_key": 3, "op": "insert", "kind": "range", "effective_at": 1}
    of_range["clauses"] = [[1]]
    files = [
        [insertion(5), insertion(4, kind="topk", alpha=0.5, distance_scale_m=70.0, window_us=60, expires_at=77)],
        [insertion(1), insertion(2, window_objects=9), of_range, deletion],
        [of_range | {"request_key": 8, "subscription_key": 8}],
    ]
    paths = []
    for number, rows in enumerate(files):
        paths.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), paths[-1], row_group_size=2)
    cache = ArrayCache(str(tmp_path / "cache"), 1 << 30, layout())
    return StandingQueries([(paths[0],), (paths[1], paths[2])], cache)


def test_insertions_of_a_bucket_in_a_range_of_requests(queries: StandingQueries) -> None:
    buckets = bucket_of(np.arange(1, 6), BUCKETS)
    for bucket in range(BUCKETS):
        expected = [key for key in (1, 2, 4, 5) if buckets[key - 1] == bucket and 1 < key <= 4]
        assert queries.insertions(1, 4, bucket, BUCKETS).key.tolist() == expected
    every = [queries.insertions(0, 9, bucket, BUCKETS) for bucket in range(BUCKETS)]
    rows = sorted((row for part in every for row in zip(*(column.tolist() for column in part))), key=lambda row: row[0])
    assert [row[0] for row in rows] == [1, 2, 4, 5]
    assert [(row[3], row[4]) for row in rows] == [(0, 0), (0, 9), (60, 0), (0, 0)]
    assert [row[5] for row in rows] == [10, -(2**63), -(2**63), 50]  # without a window, those from `created_at` on
    assert [row[7] for row in rows] == [NEVER_US, NEVER_US, 77, NEVER_US]


def test_deletions_in_a_range_of_requests(queries: StandingQueries) -> None:
    assert [array.tolist() for array in queries.deletions(5, 6)] == [[2], [99]]
    assert not len(queries.deletions(6, 9)[0])


def test_subscriptions_that_end_in_a_span(queries: StandingQueries) -> None:
    """Key 4 expires at 77; request 6 deletes key 2 as of 99."""

    def ended(requests: tuple[int, int], times: tuple[int, int]) -> list[int]:
        return sorted(queries.ended(requests, times).tolist())

    assert ended((-1, 9), (-(2**63), 99)) == [2, 4]
    assert ended((-1, 9), (76, 77)) == [4] and ended((-1, 9), (77, 98)) == []
    assert ended((-1, 5), (0, 200)) == [4]  # the deletion is not known yet
    assert ended((5, 6), (100, 120)) == [2]  # it is new, and as of an earlier time
    assert ended((6, 9), (98, 99)) == [2] and ended((6, 9), (99, 120)) == []
    assert ended((6, 9), (120, 90)) == []  # stream time has fallen


def test_queries_by_key_with_their_clauses(queries: StandingQueries) -> None:
    for wanted in ([1, 2, 4, 5], [4, 5], [2], [1, 5], []):
        is_known, chosen = queries.select(np.array(wanted, np.int64))
        assert is_known.all()
        assert chosen.key.tolist() == wanted and chosen.numbers[:, 0].tolist() == [key / 10 for key in wanted]
        clauses = [
            [
                chosen.terms[chosen.literal_offsets[clause] : chosen.literal_offsets[clause + 1]].tolist()
                for clause in range(chosen.clause_offsets[at], chosen.clause_offsets[at + 1])
            ]
            for at in range(len(wanted))
        ]
        assert clauses == [insertion(key)["clauses"] for key in wanted]


def test_queries_by_key_with_their_verified_clauses(tmp_path: Path) -> None:
    verified, phrases = [[8, 11], [4]], [[1, 2, 1], [2, 2]]
    rows = [insertion(1), insertion(2, verified=verified, phrases=phrases), insertion(3)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "rows.parquet")
    cache = ArrayCache(str(tmp_path / "cache"), 1 << 30, layout())
    chosen = StandingQueries([(str(tmp_path / "rows.parquet"),)], cache).select(np.array([2, 3]))[1]
    assert clauses_of(chosen, "verified").to_pylist() == [verified, None]
    assert clauses_of(chosen, "phrases").to_pylist() == [phrases, None]
    (asked,) = [verified_queries(take_queries(chosen, np.array([1, 0])))]
    assert asked is not None and asked.are_needed.tolist() == [False, True]
    assert verified_queries(take_queries(chosen, np.array([1]))) is None


def test_a_key_that_no_insertion_has_is_left_out(queries: StandingQueries) -> None:
    is_known, chosen = queries.select(np.array([0, 1, 3, 5, 9], np.int64))
    assert is_known.tolist() == [False, True, False, True, False] and chosen.key.tolist() == [1, 5]


def test_which_are_scored_and_how(queries: StandingQueries) -> None:
    keys = np.array([5, 4, 0, 3, 8, 4, 9], np.int64)
    assert queries.are_scored(keys).tolist() == [False, True, False, False, False, True, False]
    chosen = queries.select(np.array([2, 4, 5]))[1]
    assert chosen.are_scored.tolist() == [False, True, False] and chosen.numbers[1, 2:].tolist() == [0.5, 70.0]


def test_words_of_scored_subscriptions(queries: StandingQueries) -> None:
    assert queries.are_scored_words(np.array([5, 7, 4, 1, -3])).tolist() == [True, False, True, False, False]
    assert not len(queries.are_scored_words(np.empty(0, np.int64)))


def test_entries_kept_are_k_without_a_window_and_staggered_with_one() -> None:
    keys, k = np.arange(1000), np.full(1000, 20)
    assert set(entries_kept(keys, k, np.zeros(1000, bool)).tolist()) == {20}
    kept = entries_kept(keys, k, np.ones(1000, bool))
    assert 20 <= kept.min() < 31 < kept.max() < 40 and len(np.unique(kept)) > 4


LONS = st.sampled_from((-180.0, -179.999, -90.0, 0.0, 18.07, 179.999, 180.0)) | st.floats(-180, 180)
LATS = st.sampled_from((-90.0, -89.9999, -45.0, 0.0, 59.33, 89.9999, 90.0)) | st.floats(-90, 90)


def queries_at(points: np.ndarray, window_micros: int = 0, farthest: float = np.nan) -> Queries:
    """Return queries at points, each for one word; farthest: the greatest distance that counts, not a number: any."""
    count = len(points)
    numbers, zeros = np.arange(count), np.zeros(count, np.int64)
    return Queries(
        key=numbers,
        kind=zeros.astype(np.int8),
        numbers=np.column_stack([points, np.full(count, farthest)]),
        k=zeros + 1,
        window_micros=zeros + window_micros,
        window_objects=zeros,
        created_at=numbers * 10,
        expires_at=numbers + 1000,
        clause_offsets=np.arange(count + 1),
        literal_offsets=np.arange(count + 1),
        terms=numbers + 7,
        **{name: np.zeros(count + 1, np.int64) for name in ("verified_clauses", "phrase_offsets")},
        **{name: np.zeros(1, np.int64) for name in ("verified_literals", "word_offsets")},
        **{name: np.empty(0, np.int64) for name in ("verified", "phrases")},
    )


def has(pieces: list[dict], lon: float, lat: float) -> bool:
    """Whether one of the pieces contains a point."""
    return any(
        row["west"] <= lon <= row["east"]
        and row["south"] <= lat <= row["north"]
        and (row["circle"] is None or contains(Region((), "circle", tuple(row["circle"])), lon, lat))
        for row in pieces
    )


@examples(200)
@given(LONS, LATS, LONS, LATS)
def test_an_object_at_the_threshold_lies_in_the_pieces(lon: float, lat: float, x: float, y: float) -> None:
    point, place = np.array([[lon, lat]]), np.array([[x, y]])
    threshold = distances_m(point, place).astype(np.float32)
    assert has(make_pieces(queries_at(point), threshold).to_pylist(), x, y)
    # The greatest distance bounds the circle before the answer is full.
    bounded = queries_at(point, farthest=float(threshold[0]))
    assert make_pieces(bounded, np.array([np.inf], np.float32)).equals(make_pieces(queries_at(point), threshold))


def test_pieces_have_the_clauses_and_the_validity_of_their_subscriptions() -> None:
    points = np.array([[180.0, 0.0], [0.0, 0.0], [10.0, 10.0]])
    thresholds = np.array([1000.0, np.inf, 5.0], np.float32)
    pieces = make_pieces(queries_at(points), thresholds).to_pylist()
    assert [row["subscription_key"] for row in pieces] == [0, 0, 1, 2]  # the first crosses the antimeridian
    assert [row["clauses"] for row in pieces] == [[[7]], [[7]], [[8]], [[9]]]
    assert [(row["created_at"], row["end_at"]) for row in pieces] == [(0, 1000), (0, 1000), (10, 1001), (20, 1002)]
    assert {row["kind"] for row in pieces} == {"knn"}
    assert pieces[2]["circle"] is None and has(pieces[2:3], 90.0, 90.0)
    assert {row["created_at"] for row in make_pieces(queries_at(points, 60), thresholds).to_pylist()} == {-(2**63)}


def test_pieces_of_different_thresholds_are_different_pieces() -> None:
    """Migrations know a piece by its subscription and its south-western corner, and copy it once."""
    points = np.array([[0.0, -90.0], [0.0, -89.0], [0.0, 90.0], [180.0, 0.0], [5.0, 50.0]])
    for some, others in ((1000.0, 2000.0), (2e5, 3e6), (1.9e7, np.inf), (2.1e7, np.inf)):
        both = [make_pieces(queries_at(points), np.full(5, radius, np.float32)) for radius in (some, others)]
        one, other = number_pieces(*both)
        rows = dict(zip(one.tolist(), both[0].to_pylist()))
        for number, row in zip(other.tolist(), both[1].to_pylist()):
            assert number not in rows or rows[number] == row


COUNT = 150


@pytest.fixture
def world() -> tuple:
    return random_world(random.Random(5), COUNT, 40)


@pytest.fixture
def topk_queries(tmp_path: Path, world: tuple) -> StandingQueries:
    """The subscriptions of the world in a file of `requests`."""
    rows = [
        {
            "request_key": one.key, "subscription_key": one.key, "op": "insert", "kind": "topk", "k": 1,
            "lon": one.lon, "lat": one.lat, "alpha": one.alpha, "distance_scale_m": one.scale, "max_distance_m": None,
            "clauses": [[word] for word in one.words], "effective_at": 0, "expires_at": None, "window_us": None,
            "window_objects": None,
        }
        for one in world[0]
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, tmp_path / "requests.parquet")
    cache = ArrayCache(str(tmp_path / "cache"), 1 << 30, layout())
    return StandingQueries([(str(tmp_path / "requests.parquet"),)], cache)


def test_the_index_is_that_of_the_subscriptions_and_thresholds(
    tmp_path: Path, world: tuple, topk_queries: StandingQueries
) -> None:
    subscriptions, messages, _ = world
    rnd, numbers = random.Random(6), np.random.default_rng(6)
    by_key = {one.key: one for one in subscriptions}
    folder, found = tmp_path / "3-topk-a", 0
    for step in range(25):
        if step % 8 == 5:
            shutil.rmtree(folder)
        keys = np.array(sorted(rnd.sample(sorted(by_key), rnd.choice((1, 60, COUNT)))))
        thresholds = numbers.choice(np.array([-0.9, -0.5, -0.2, np.inf], np.float32), len(keys))
        index = bring_up_index(folder, keys, thresholds, topk_queries, EQUAL_WEIGHTS, step)
        expected = ScoredIndex()
        expected.insert(as_subscriptions([by_key[key] for key in keys.tolist()], {}))
        expected.change_thresholds(keys, thresholds)
        assert candidates(index, messages, {}) == candidates(expected, messages, {})
        found += len(candidates(index, messages, {}))
    assert found > 1_000


def test_dropping_leaves_the_indexes_of_other_buckets(tmp_path: Path) -> None:
    for name in ("3-topk-a", "3-topk-b", "13-topk-a", "3"):
        (tmp_path / name).mkdir()
    drop_scored_index(tmp_path / "3-topk")
    assert {path.name for path in tmp_path.iterdir()} == {"13-topk-a", "3"}


def test_words_that_no_subscription_has_do_not_count() -> None:
    made, sent, weights = random_world(random.Random(3), 4, 60)
    subscriptions, messages = as_subscriptions(made, weights), as_messages(sent, weights)
    drawn = DrawnTopk(subscriptions, messages, 2.0)
    known = set(subscriptions.terms.tolist())
    assert not known >= set(messages.terms.tolist())
    sample, borders = drawn.sample, messages.offsets.tolist()
    expected = [[term for term in messages.terms[a:b].tolist() if term in known] for a, b in zip(borders, borders[1:])]
    parts = np.split(sample.message_terms, sample.message_offsets[1:-1])
    assert [part.tolist() for part in parts] == expected
    assert sample.subscription_scale == 2.0 and sample.messages == len(messages.key)
    plan = make_topk_plan("keyword", sample, 3)
    owned = sum(int(plan.owns(unit, part).any()) for part in parts for unit in range(3))
    assert count_loads(sample, plan).messages.sum() == owned
