"""Every way of docs/tables.md to read the matches gives the same pairs: export, DuckDB, Spark, Polars, Arrow."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest
import shapely

import pststream
from pststream.base import names
from pststream.engine.spark_session import get_session
from pststream.engine.spark_views import create_temporary_views
from pststream.reports.views import view_statements
from pststream.settings import load_settings
from pststream.state.home import Home
from pststream.state.plans import read_plan_row
from pststream.tables.delta_tables import TableReader, greatest_value
from tests.commands import run_here
from tests.disturbed_homes import disturbed_home
from tests.unit.reports.commands.homes import add_file, deletion, insertion, log_key
from tests.unit.reports.commands.test_export import filled

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
COLUMNS = ["object_id", "subscription_id", "ts", "batch_id", "plan_version", "payload"]


def filled_home(folder: Path) -> Home:
    """A home with pairs, some of them retracted, an unfinished batch, and subscriptions of each shape."""
    home = Home(folder / "pststream-home")
    home.init()
    filled(home)
    square = [[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]
    hole, far = [[2, 2], [4, 2], [4, 4], [2, 4], [2, 2]], [[20, 0], [21, 0], [21, 1], [20, 0]]
    several = {"type": "MultiPolygon", "coordinates": [[square, hole], [far]]}
    requests = [
        insertion(1, "wide", bbox=[170.0, -5.0, -160.0, 5.0]), insertion(2, "shape", bbox=None, geometry=several),
        insertion(3, "circle", bbox=None, circle={"lon": 18.07, "lat": 59.33, "radius_m": 5000.5}),
    ]  # fmt: skip
    asked = add_file(home, "requests", requests)
    add_file(home, "requests", [deletion(1, "wide", 5, log_key(asked, 1))])
    return home


def demo_home(folder: Path) -> Home:
    """The home of `pststream demo`."""
    assert run_here("demo", "--out", folder).code == 0
    (folder / "pststream-home").symlink_to(folder / "home")
    home = Home(folder / "home")
    assert read_plan_row(home, 1)["planner"] == names.FIRST_PLANNER, "the map shows the places of a worker"
    return home


def chaos_home(folder: Path) -> Home:
    """A home whose commands were killed, with retractions, and with matches of a batch that is not done."""
    home = Home(disturbed_home(folder / "pststream-home").path)
    reader = TableReader(home)
    assert reader.count(names.MATCHES, pds.field("retracted"))
    assert reader.count(names.MIGRATIONS, pds.field("move") == 0)
    last = greatest_value(home.table(names.BATCHES), "batch_id")
    assert reader.count(names.MATCHES, pds.field("batch_id") == last)
    assert not reader.count(names.BATCHES, (pds.field("batch_id") == last) & (pds.field("status") == "done"))
    return home


@pytest.fixture(scope="module", params=[filled_home, demo_home, chaos_home])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("views")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield request.param(folder)


def ordered(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        rows.select(COLUMNS).sort_by([(name, "ascending") for name in COLUMNS[:2]]).to_pylist()
    )
    return found


def test_all_ways_of_the_page_give_the_same_pairs(home: Home) -> None:
    page = PAGE.read_text("utf-8")
    (export,) = re.findall(r"\.venv/bin/pststream (export matches .*)\n", page)
    assert run_here(*export.split()).code == 0
    wanted = ordered(pq.read_table(Path(home.path).parent / "matches.parquet"))
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    defined: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block.replace("version=12", "version=1").replace('"versionAsOf", 12', '"versionAsOf", 1'), defined)
    opened = pststream.open(home.path)
    assert len(wanted) >= 3
    assert ordered(defined["pairs"].to_arrow()) == wanted
    assert ordered(spark.table("pairs").toArrow()) == wanted
    assert ordered(opened.sql("SELECT * FROM pairs")) == wanted
    assert ordered(opened.matches()) == wanted
    assert sum(defined["busiest"]["objects"].to_pylist()) <= len(wanted)


@pytest.mark.parametrize("view", ["subscriptions", "batches_done", "rejects_by_file"])
def test_spark_and_duckdb_give_the_same_rows(home: Home, view: str) -> None:
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    create_temporary_views(spark, home)

    def comparable(rows: pa.Table) -> list[dict[str, Any]]:
        found = [{name: row[name] for name in sorted(row)} for row in rows.to_pylist()]
        for row in found:
            if row.get("region") is not None:  # knn and topk have none
                row["region"] = shapely.from_wkt(row["region"]).wkt
            if "seconds_by_step" in row:
                row["seconds_by_step"] = sorted(dict(row["seconds_by_step"]).items())
        return sorted(found, key=str)

    of_spark = comparable(spark.table(view).toArrow())
    assert of_spark == comparable(pststream.open(home.path).sql(f"SELECT * FROM {view}"))
    assert of_spark or view == "rejects_by_file"


def test_the_printed_statements_run_in_spark(home: Home) -> None:
    spark = get_session(load_settings(home.path, spark_master="local[2]"))
    for statement in view_statements(home, "spark"):
        spark.sql(statement.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))
    assert spark.table("pairs").count() == pststream.open(home.path).matches().num_rows
