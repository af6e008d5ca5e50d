"""The `topk` index of a bucket is that of the subscriptions and thresholds given, whatever the folder has."""

import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.answers.scored_index import ScoredIndex
from pststream.pipeline.answers.scored_candidates import bring_up_index, drop_scored_index
from pststream.pipeline.answers.standing_queries import StandingQueries, layout
from pststream.search.term_weights import EQUAL_WEIGHTS
from pststream.storage.array_cache import ArrayCache
from tests.unit.answers.scored_index_worlds import as_subscriptions, candidates, random_world

COUNT = 150


@pytest.fixture
def world() -> tuple:
    return random_world(random.Random(5), COUNT, 40)


@pytest.fixture
def queries(tmp_path: Path, world: tuple) -> StandingQueries:
    """The subscriptions of the world in a file of `requests`."""
    rows = [
        {
            "request_key": one.key, "subscription_key": one.key, "op": "insert", "kind": "topk", "k": 1,
            "lon": one.lon, "lat": one.lat, "alpha": one.alpha, "distance_scale_m": one.scale,
            "clauses": [[word] for word in one.words], "effective_at": 0, "expires_at": None, "window_us": None,
            "window_objects": None,
        }
        for one in world[0]
    ]  # fmt: skip
    times = pa.timestamp("us", "UTC")
    table = pa.Table.from_pylist(rows)
    for place, name in enumerate(table.schema.names):
        if name in ("effective_at", "expires_at"):
            table = table.set_column(place, name, table.column(name).cast(times))
    pq.write_table(table, tmp_path / "requests.parquet")
    cache = ArrayCache(str(tmp_path / "cache"), 1 << 30, layout())
    return StandingQueries([(str(tmp_path / "requests.parquet"),)], cache)


def test_the_index_is_that_of_the_subscriptions_and_thresholds(
    tmp_path: Path, world: tuple, queries: StandingQueries
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
        index = bring_up_index(folder, keys, thresholds, queries, EQUAL_WEIGHTS, step)
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
