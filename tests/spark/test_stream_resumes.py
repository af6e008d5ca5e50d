"""A stream of Spark continues after three days and `maintain`, and one that skips changes continues after `erase`."""

import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pststream.base import names
from pststream.engine.spark_session import get_session
from pststream.settings import load_settings
from pststream.state.home import STREAMS, Home
from tests import worlds
from tests.commands import Home as Commands
from tests.commands import new_home

pytestmark = [pytest.mark.spark, pytest.mark.deep]
DOWN_SECONDS = 3 * 86_400
KEYS = {names.OBJECTS: "object_id", names.REQUESTS: "subscription_id", names.MATCHES: "object_id"}


def add_rows(home: Commands, number: int) -> None:
    """Ingest and match a subscription and an object with this number, which matches all subscriptions so far."""
    asked = {"op": "insert", "subscription_id": f"{number}", "created_at": worlds.moment(number), "keywords": "coffee"}
    thing = {"object_id": f"{number}", "ts": worlds.moment(number), "lon": 1.0, "lat": 2.0, "text": "coffee"}
    for kind, row in (("requests", asked | {"bbox": [0, 0, 9, 9]}), ("objects", thing)):
        file = home.path.parent / f"{kind}-{number}.jsonl"
        file.write_text(json.dumps(row) + "\n", "utf-8")
        home.ingest(kind, [file])
    home.match()


def age_logs(home: Home) -> None:
    """Set the time of each entry back, as if three days had passed since."""
    for path in Path(home.path, "tables").glob("*/_delta_log/*"):
        os.utime(path, (path.stat().st_mtime - DOWN_SECONDS,) * 2)


def follow(spark: SparkSession, home: Home, name: str, folder: Path, **options: str) -> list[str]:
    """Read what is new in a table; return the ids of these rows."""
    out, checkpoint = folder / f"{name}-{time.time_ns()}", folder / f"{name}-checkpoint"
    stream = spark.readStream.format("delta").options(**options).load(home.table(name)).select(KEYS[name])
    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = query.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(out)))
    for left in reversed(range(20)):
        try:
            query.start().awaitTermination()
            break
        except Exception as error:  # Spark gives the Python worker of a function ten seconds to start
            if "failed to connect back" not in str(error) or not left:
                raise
    return sorted(row[0] for row in spark.read.parquet(str(out)).collect())


def test_a_stream_that_was_down_for_three_days_continues(tmp_path: Path) -> None:
    commands = new_home(tmp_path / "home", workers=1)
    home = Home(commands.path)
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    for number in (1, 2):
        add_rows(commands, number)
    for name in STREAMS:
        assert follow(spark, home, name, tmp_path) == ["1", "2"]
    for number in range(3, 8):
        add_rows(commands, number)
        if number == 5:
            commands.run("maintain")  # compacts files that the stream has not read
    age_logs(home)
    for _ in range(2):  # a run removes what lies before the checkpoint of the run before
        commands.run("maintain")
    for name in STREAMS:
        assert follow(spark, home, name, tmp_path) == ["3", "4", "5", "6", "7"]


def test_a_stream_that_skips_changes_continues_after_an_erasure(tmp_path: Path) -> None:
    commands = new_home(tmp_path / "home", workers=1, cache_dir=str(tmp_path / "cache"))
    home = Home(commands.path)
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    for number in (1, 2):
        add_rows(commands, number)
    before = {name: follow(spark, home, name, tmp_path, skipChangeCommits="true") for name in STREAMS}
    assert before == dict.fromkeys(STREAMS, ["1", "2"])
    commands.run("erase", "--object-id", "1", "--subscription-id", "2")
    add_rows(commands, 3)
    after = {name: follow(spark, home, name, tmp_path, skipChangeCommits="true") for name in STREAMS}
    assert after == dict.fromkeys(STREAMS, ["3"])
    left = spark.read.format("delta").load(home.table(names.OBJECTS)).select("object_id").collect()
    assert sorted(row[0] for row in left) == ["2", "3"]
