"""A stream of Spark that was down for three days continues after `maintain`, and gets each row once."""

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pststream import names
from pststream.pipeline.engine.spark_session import get_session
from pststream.settings import load_settings
from pststream.state.home import STREAMS, Home
from tests.commands import run_here
from tests.unit.reports.commands.homes import add_batch, add_file, insertion, match_row, thing

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DOWN_SECONDS = 3 * 86_400
KEYS = {names.OBJECTS: "object_id", names.REQUESTS: "subscription_id", names.MATCHES: "object_id"}


def add_rows(home: Home, number: int) -> None:
    add_file(home, "requests", [insertion(1, f"{number}")])
    add_file(home, "objects", [thing(1, f"{number}", number)])
    add_batch(home, [match_row(number << 32 | 1, f"{number}", number, [1])])


def age_logs(home: Home) -> None:
    """Set the time of each entry back, as if three days had passed since."""
    for path in Path(home.path, "tables").glob("*/_delta_log/*"):
        os.utime(path, (path.stat().st_mtime - DOWN_SECONDS,) * 2)


def follow(spark: SparkSession, home: Home, name: str, folder: Path) -> list[str]:
    """Read what is new in a table; return the ids of these rows."""
    out, checkpoint = folder / f"{name}-{time.time_ns()}", folder / f"{name}-checkpoint"
    stream = spark.readStream.format("delta").load(home.table(name)).select(KEYS[name])
    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(out))).start().awaitTermination()
    return sorted(row[0] for row in spark.read.parquet(str(out)).collect())


def test_a_stream_that_was_down_for_three_days_continues(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    for number in (1, 2):
        add_rows(home, number)
    for name in STREAMS:
        assert follow(spark, home, name, tmp_path) == ["1", "2"]
    for number in range(3, 8):
        add_rows(home, number)
        if number == 5:
            assert run_here("maintain", "--home", home.path).code == 0  # compacts files that the stream has not read
    age_logs(home)
    for _ in range(2):  # a run removes what lies before the checkpoint of the run before
        assert run_here("maintain", "--home", home.path).code == 0
    for name in STREAMS:
        assert follow(spark, home, name, tmp_path) == ["3", "4", "5", "6", "7"]
