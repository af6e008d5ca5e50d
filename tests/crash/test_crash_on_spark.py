"""Steps whose tasks Spark runs, killed and run again: those before and after the tasks are the same on both engines."""

from pathlib import Path

import pytest

from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, killed_then_run, written

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.deep, pytest.mark.timeout(1200)]


def test_killed_on_spark_and_run_again(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 22, 2)
    home, undisturbed = (home_for(tmp_path / engine, world, engine=engine) for engine in ("spark", "local"))
    undisturbed.ingest("requests", world.requests)
    undisturbed.ingest("objects", world.objects)
    undisturbed.match()
    steps = ("ingest.parsed", "match.indexed"), ("ingest.objects_written", "match.matched")
    for requests, objects, (ingested, matched) in zip(world.requests, world.objects, steps, strict=True):
        killed_then_run(home, "ingest.requests_written", "ingest", "requests", requests)
        killed_then_run(home, ingested, "ingest", "objects", objects)
        killed_then_run(home, "plan.indexed", "plan", "--planner", "grid", "--workers", "2")
        killed_then_run(home, matched, "match", "--until-empty")
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)
