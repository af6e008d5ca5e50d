"""Units of a plan of `topk` that run as tasks of Spark find what buckets find in this process."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.pipeline.batch import worker_parts
from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests.commands import Home
from tests.standing_worlds import nearest, scored, standing_home, write_standing_world

pytestmark = pytest.mark.spark

PLANNERS = {1: "prefix", 2: "keyword_first"}
"""The planner of the plan that is made before the batches of a file."""

UNITS = 4


def rows_of(home: Home, what: str) -> list[str]:
    out = home.path.parent / f"{home.path.name}-{what}.parquet"
    home.run("export", what, "--out", out)
    return sorted(map(str, pq.read_table(out).to_pylist()))


def candidates_of(home: Home) -> dict[int, dict[str, int]]:
    """Return the candidates that each batch counts, by kind."""
    rows = read_table(State(home.path).table("batches")).to_pylist()
    return {row["batch_id"]: dict(row["candidates"]) for row in rows if row["status"] == "done"}


@pytest.mark.deep
def test_batches_under_plans_of_topk_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = write_standing_world(tmp_path / "files", 45, 3, 90, 40, (scored, nearest))
    on_spark = standing_home(tmp_path / "spark", world, engine="spark", spark_master="local[2]")
    by_bucket = standing_home(tmp_path / "bucket", world)
    for number, (requests, objects) in enumerate(zip(world.requests, world.objects)):
        for home in (on_spark, by_bucket):
            home.ingest("requests", [requests])
            home.ingest("objects", [objects])
            if number in PLANNERS and home is on_spark:
                home.run("plan", "--planner", PLANNERS[number], "--workers", UNITS)
            # On Spark several tasks match the objects of a worker.
            monkeypatch.setattr(worker_parts, "MIN_TASK_OBJECTS", 1 if home is on_spark else 10**9)
            home.match("--max-objects", "20")
    loads = read_table(State(on_spark.path).table("unit_loads")).to_pylist()
    searched = {(row["plan_version"], row["unit"]) for row in loads if row["worker"] == names.UNIT_OF_TOPK}
    assert searched == {(version, unit) for version in (2, 3) for unit in range(UNITS)}
    assert candidates_of(on_spark) == candidates_of(by_bucket)
    assert sum(counts.get("topk", 0) for counts in candidates_of(on_spark).values()) > 20
    for what in ("answers", "changes"):
        found = rows_of(on_spark, what)
        assert found and found == rows_of(by_bucket, what)
    assert on_spark.run("check")["success"]
