"""The baseline job of a batch writes the rows of the batch, without searching."""

from pathlib import Path
from typing import Any

import pyarrow.dataset as pds
import pytest

from benchmarks.support.baseline_jobs import find_no_pairs, record_pairs, replay_pairs
from pststream.base import names
from pststream.base.progress import no_progress
from pststream.pipeline.batch import match_task
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.measured_homes import BenchHome
from pststream.settings import Settings
from pststream.tables.delta_tables import read_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import synthetic_objects

SETTINGS = Settings(engine="local", workers=3)


def matches_of_batch(bench: BenchHome, batch_id: int) -> list[Any]:
    """The rows of a batch but for the keys and times of its objects, in the order of the files."""
    columns = ["object_id", "subscription_keys", "worker", "plan_version", "retracted"]
    return sorted(
        read_table(bench.home.table(names.MATCHES), columns, pds.field("batch_id") == batch_id).to_pylist(), key=repr
    )


def test_a_replayed_batch_writes_equal_rows_and_does_not_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(20_000, SubscriptionStyle(frequent_share=0.45))
    drawn = synthetic_objects(3_000, 1)
    bench.add_drawn_objects([drawn])
    with record_pairs() as recorded:
        match(bench.home, SETTINGS)
    found = matches_of_batch(bench, 1)
    assert len(recorded) > 1 and sum(len(row["subscription_keys"]) for row in found) > 500

    bench.add_drawn_objects([drawn])
    with monkeypatch.context() as patch, replay_pairs(recorded):
        patch.delattr(match_task, "match_objects")
        match(bench.home, SETTINGS)
    assert matches_of_batch(bench, 2) == found

    bench.add_drawn_objects([drawn])
    with find_no_pairs():
        assert match(bench.home, SETTINGS)["objects"] == 3_000
    assert matches_of_batch(bench, 3) == []

    bench.add_drawn_objects([synthetic_objects(2_999, 2)])
    with replay_pairs(recorded), pytest.raises(KeyError):
        match(bench.home, SETTINGS)
    match(bench.home, SETTINGS)
    bench.add_drawn_objects([drawn])
    match(bench.home, SETTINGS)
    assert matches_of_batch(bench, 5) == found
