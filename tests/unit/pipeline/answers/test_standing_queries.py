"""Subscriptions with memory as arrays: the right ones are read, whatever the files that they are in."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.answers.contract import bucket_of
from pststream.base.names import NEVER_US
from pststream.pipeline.answers.standing_queries import StandingQueries, entries_kept, layout
from pststream.storage.array_cache import ArrayCache

SCHEMA = pa.schema(
    {
        **{name: pa.int64() for name in ("request_key", "subscription_key", "k", "window_us", "window_objects")},
        **{name: pa.string() for name in ("op", "kind")},
        **{name: pa.timestamp("us", "UTC") for name in ("effective_at", "expires_at")},
        **{name: pa.float64() for name in ("lon", "lat", "alpha", "distance_scale_m")},
        "clauses": pa.list_(pa.list_(pa.int64())),
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
