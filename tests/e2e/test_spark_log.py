"""On Spark a command prints its own lines only; Spark's log is in the home, and an error says where."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ENTRY, Result, new_home, run_apart

pytestmark = pytest.mark.deep

SPARK = {"PSTSTREAM_ENGINE": "spark"}

OBJECTS = "object_id,ts,lon,lat,text\np1,2026-01-01T08:00:00Z,18.07,59.33,free coffee\n"

REQUESTS = (
    '{"op": "insert", "subscription_id": "s1", "keywords": "coffee", "bbox": [18, 59, 19, 60],'
    ' "created_at": "2026-01-01T00:00:00Z"}\n'
)

MATCH_LINES = [
    r"batch 1 started under plan 1",
    r"batch 1 done: 1 object, 1 match in .*",
    r"1 batch: 1 object, 1 match",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a home with one object and one request that wait for `match`."""
    home = new_home(tmp_path / "home")
    (tmp_path / "objects.csv").write_text(OBJECTS)
    (tmp_path / "requests.jsonl").write_text(REQUESTS)
    home.run("ingest", "objects", tmp_path / "objects.csv")
    home.run("ingest", "requests", tmp_path / "requests.jsonl")
    return home.path


def output(*arguments: str) -> Result:
    """Run a command on Spark; return what it and its children print."""
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        env={**os.environ, **SPARK},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return Result(done.returncode, done.stdout, "")


@pytest.mark.spark
def test_match_prints_its_own_lines_only(home: Path) -> None:
    done = output("match", "--home", str(home))
    lines = [line for line in done.out.splitlines() if not re.search(", .* left$", line)]  # progress
    assert done.code == 0 and len(lines) == len(MATCH_LINES), done.out
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(MATCH_LINES, lines)), done.out
    assert "Traceback" not in (home / "logs" / "spark-stderr.log").read_text()
    assert (home / "logs" / "spark.log").exists()


@pytest.mark.spark
def test_a_failing_task_shows_its_error_and_the_place_of_the_log(home: Path) -> None:
    for file in (home / "tables" / "objects").rglob("*.parquet"):
        file.write_bytes(b"not Parquet")
    done = run_apart("match", "--home", home, environment=SPARK)
    assert done.code == 1 and "a task on Spark failed: " in done.err and "Parquet" in done.err, done.err
    assert f"the log of Spark is in {home}/logs" in done.err.splitlines()[-1]
    assert "Parquet" in (home / "logs" / "spark.log").read_text()


@pytest.mark.spark
def test_an_error_of_the_jvm_is_part_of_the_error(home: Path) -> None:
    memory = {"PSTSTREAM_SPARK_DRIVER_MEMORY": "much"}
    done = run_apart("match", "--home", home, environment=SPARK | memory)
    assert done.code == 1 and "much" in done.err, done.err


@pytest.mark.spark
def test_verbose_prints_the_log_on_standard_error(home: Path) -> None:
    done = run_apart("match", "--verbose", "--home", home, environment=SPARK)
    assert done.code == 0 and "WARN" in done.err and not (home / "logs").exists()
