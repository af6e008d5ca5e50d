"""A sample has as many subscriptions as it may, however many rows of the index each of them has."""

from dataclasses import replace
from pathlib import Path

import pytest

from pststream.benchmarks.support.homes import BenchHome
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.progress import no_progress
from pststream.settings import Settings


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
