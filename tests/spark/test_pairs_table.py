"""The gold table of pairs is the view after every update, also after a kill; `erase` and `keep` leave nothing in it.

The commands that are killed use the Spark of this process.
"""

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pststream
from pststream.base import names
from pststream.base.errors import UsageError
from pststream.engine import spark_session
from pststream.pipeline.upkeep.pairs_table import MARK, update_hourly, update_pairs
from pststream.reports.reading.pairs import gold_batch, gold_table
from pststream.settings import Settings
from pststream.state.home import Home as State
from pststream.tables.delta_tables import latest_dataset
from tests.commands import KILLED, Home
from tests.erased_homes import MARKER, OBJECT, SUBSCRIPTION, marked_home, marked_world, raw_files_with
from tests.watcher_process import Watching, landing_folder
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.usefixtures("spark")]

VIEW = """
SELECT pairs.*, objects.lon, objects.lat, objects.text, requests.keywords, CAST(pairs.ts AS DATE) AS day
FROM pairs
JOIN objects ON objects.object_key = pairs.object_key
JOIN requests ON requests.subscription_key = pairs.subscription_key AND requests.op = 'insert'
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, WrittenWorld]:
    """A home with three batches, and the files of three more, which delete subscriptions in the past."""
    folder = tmp_path_factory.mktemp("gold")
    world = marked_world(folder / "files", 9)
    return marked_home(folder / "home", world), world


def oldest_time(pairs: pa.Table) -> datetime:
    """The least time of an object, whether or not the file says that its times are of UTC."""
    return pc.min(pairs.column("ts").cast(pa.timestamp("us", "UTC"))).as_py()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = sorted(table.column_names)
    return sorted(zip(*(table.column(name).to_pylist() for name in columns)), key=repr)


def assert_equal(home: Home) -> int:
    """Compare the table with the view; return the number of rows."""
    wanted = pststream.open(home.path).sql(VIEW)
    stored = latest_dataset(gold_table(State(home.path))).to_table()
    assert set(stored.column_names) == set(wanted.column_names)
    assert rows_of(stored) == rows_of(wanted.cast(pa.schema([stored.schema.field(n) for n in wanted.column_names])))
    return stored.num_rows


def retractions(home: Home) -> int:
    batches = pststream.open(home.path).sql("SELECT sum(retractions) AS n FROM batches_done")
    return int(batches.column(0)[0].as_py() or 0)


def test_the_table_is_the_view_after_every_update(filled: tuple[Home, WrittenWorld]) -> None:
    home, world = filled
    first = home.run("pairs")
    assert (first["batch_from"], first["batch_to"]) == (0, 3) and first["rows"] == assert_equal(home) > 50
    assert home.run("pairs") == first | {"batch_from": 3, "deleted": 0, "seconds": pytest.approx(0, abs=60)}
    retracted = retractions(home)
    home.ingest("objects", world.objects[3:5])
    home.ingest("requests", world.requests[3:])
    home.match()
    home.run("withdraw", "--object-id", "o1", "--object-id", "o2", "--file", world.objects[0])
    home.match()
    assert home.run("status")["pairs_table"] == {"batch_id": 3, "behind": 2}
    assert home.run("pairs", "--dry-run")["batch_to"] == 5
    for step in ("pairs.deleted", "pairs.appended"):
        assert home.crash(step, "pairs").code == KILLED
    assert gold_batch(State(home.path)) == 5, "the append was committed"
    assert retractions(home) > retracted
    assert_equal(home)
    home.ingest("objects", world.objects[5:])
    home.match()
    assert home.run("pairs")["batch_from"] == 5
    rows = assert_equal(home)
    assert home.run("status")["pairs_table"] == {"batch_id": 6, "behind": 0}
    gold = next(one for one in home.run("check")["checks"] if one["check"] == "gold")
    assert gold["success"] and gold["figures"] == {"gold_off": 0}
    assert home.run("pairs", "--rebuild")["rows"] == rows == assert_equal(home)


def test_a_check_reports_a_table_that_differs(filled: tuple[Home, WrittenWorld], spark: Any) -> None:
    home, _ = filled
    home.run("pairs")
    key = latest_dataset(gold_table(State(home.path))).head(1, columns=["object_key"]).column(0)[0].as_py()
    spark.sql(f"DELETE FROM delta.`{gold_table(State(home.path))}` WHERE object_key = {key}")
    checked = home.run("check", code=1)["checks"]
    assert [one["check"] for one in checked if not one["success"]] == ["gold"]
    home.run("pairs", "--rebuild")
    assert_equal(home)


def test_an_erasure_leaves_no_byte_below_the_table(filled: tuple[Home, WrittenWorld]) -> None:
    home, _ = filled
    home.run("pairs")
    folder = home.path / names.GOLD
    assert raw_files_with(folder), "the table names the ids"
    both = ("--object-id", OBJECT, "--subscription-id", SUBSCRIPTION)
    planned = home.run("erase", *both, "--dry-run")["rows"]["gold/pairs"]
    before = latest_dataset(gold_table(State(home.path))).count_rows()
    assert home.crash("pairs.erased", "erase", *both).code == KILLED
    assert (home.path / MARK).exists() and raw_files_with(folder), "older versions are still there"
    home.run("erase", "--object-id", "unknown")  # finishes it
    assert before - latest_dataset(gold_table(State(home.path))).count_rows() == planned
    assert raw_files_with(folder) == [] and not (home.path / MARK).exists()
    assert MARKER not in json.dumps(assert_equal(home)) and not list(folder.rglob("_change_data/*"))
    home.run("maintain")
    home.run("check")
    home.run("backup", "--out", home.path.parent / "copy")
    assert not (home.path.parent / "copy" / names.GOLD).exists()


def test_old_rows_go_with_their_versions(filled: tuple[Home, WrittenWorld]) -> None:
    home, _ = filled
    home.run("pairs")
    before = latest_dataset(gold_table(State(home.path))).to_table()
    expired = home.run("maintain", "--keep", "matches=1d")["rows_expired"]
    rows = assert_equal(home)
    assert expired["gold/pairs"] == before.num_rows - rows > 0
    oldest = oldest_time(latest_dataset(gold_table(State(home.path))).to_table())
    files = [path for path in Path(gold_table(State(home.path))).rglob("*.parquet") if "_delta_log" not in path.parts]
    assert all(oldest_time(pa.parquet.read_table(path)) >= oldest for path in files)
    home.run("check")


def test_a_watcher_updates_it(filled: tuple[Home, WrittenWorld], tmp_path: Path) -> None:
    home, _ = filled
    shutil.rmtree(home.path / names.GOLD, ignore_errors=True)
    with Watching(home, landing_folder(tmp_path / "landing"), PSTSTREAM_PAIRS_TABLE="run") as watching:
        watching.until(lambda _: gold_batch(State(home.path)) > 0)
        code, document, _ = watching.end()
    assert code == 0 and document["failures"] == 0
    assert assert_equal(home) > 0


def test_a_bucket_needs_the_jars_of_s3a(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_REMOTE")
    (tmp_path / "delta-spark.jar").touch()
    monkeypatch.setattr(spark_session, "jar_folder", lambda: tmp_path)
    state = State("s3://bucket/home")
    with pytest.raises(UsageError, match=r"(?s)jars of S3A.*fetch_jars --s3a .*spark_remote"):
        spark_session.check_jars(Settings(), state)
    spark_session.check_jars(Settings(spark_remote="sc://elsewhere"), state)
    (tmp_path / "s3a").mkdir()
    (tmp_path / "s3a" / "hadoop-aws-3.5.0.jar").touch()
    spark_session.check_jars(Settings(), state)


def test_the_hourly_job_does_nothing_by_default(filled: tuple[Home, WrittenWorld]) -> None:
    home = State(filled[0].path)
    update_pairs(home, Settings())
    assert update_hourly(home, Settings()) is None
    assert update_hourly(home, Settings(pairs_table="hourly")) == update_pairs(home, Settings()) | {
        "seconds": pytest.approx(0, abs=60)
    }
