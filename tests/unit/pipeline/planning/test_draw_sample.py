"""A sample has as many subscriptions as it may, whatever rows of the index they have, and costs of matches by kind."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scenarios.plans.standing_planners import draw_mixed
from pststream.base.progress import no_progress
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.measured_homes import STREAMS, BenchHome, StandingHome
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.planning.load_model import CostModel
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle


def test_subscriptions_count_once_for_a_sample_however_many_workers_store_them(tmp_path: Path) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(2_000, SubscriptionStyle("q1", side_km=(3_000.0, 3_000.0)))
    bench.add_objects(500)
    settings = Settings(
        planner="grid", workers=16, max_ahead_seconds=0, engine="local", cache_dir=str(tmp_path / "cache")
    )
    match(bench.home, settings)
    sample, _ = draw_sample(bench.home, replace(settings, sample_subscriptions=1_000))
    assert 800 < sample.subscriptions < 1_200
    assert sample.subscriptions * sample.subscription_scale == pytest.approx(2_000, rel=0.1)


def test_matches_have_the_cost_of_the_kind_of_their_subscription(tmp_path: Path) -> None:
    settings = Settings(planner="grid", workers=3, max_ahead_seconds=0, engine="local")
    home = StandingHome(tmp_path, STREAMS["tw14"], 1, settings, no_progress)
    home.add_objects(200)
    for columns in draw_mixed(home.stream.draw(200, 2), 90, 3):
        home.add_queries(columns)
    home.run_batch()
    home.add_objects(50)
    home.run_batch()  # it indexes the circles of the first answers
    sample, _ = draw_sample(home.bench.home, home.settings)
    of_range, of_knn = CostModel.of(home.settings).match_reads(np.array([False, True])).tolist()
    assert 0 < of_range < of_knn
    counts = {reads: len(np.unique(sample.piece_key[sample.match_reads == reads])) for reads in (of_range, of_knn)}
    assert counts == {of_range: 60, of_knn: 30} and sample.subscriptions == 90
