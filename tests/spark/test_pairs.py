"""The view `pairs` equals the export, and the queries of docs/tables.md run."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pststream.pipeline.engine.pairs_view import pairs
from pststream.pipeline.engine.spark_session import get_session
from pststream.reports.commands.export import export_matches
from pststream.settings import load_settings
from pststream.state.home import Home
from tests.unit.reports.commands.test_export import filled

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.fixture
def filled_home(tmp_path: Path) -> Home:
    """A home with pairs, some of them retracted, and an unfinished batch."""
    made = Home(tmp_path / "pststream-home")
    made.init()
    filled(made)
    return made


def test_the_view_equals_the_export(filled_home: Home, tmp_path: Path) -> None:
    spark = get_session(load_settings(filled_home.path, spark_master="local[2]"))
    columns = ("object_id", "subscription_id", "ts", "batch_id", "plan_version", "payload")
    found = pairs(spark, filled_home).select(*columns).toArrow().to_pylist()
    out = tmp_path / "pairs.parquet"
    export_matches(filled_home, str(out))
    wanted = pq.read_table(out).to_pylist()
    assert len(wanted) == 3
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_the_queries_of_the_page_run(
    filled_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(filled_home.path).parent)
    get_session(load_settings(filled_home.path, spark_master="local[2]"))
    text = PAGE.read_text("utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block.replace("version=12", "version=1").replace('"versionAsOf", 12', '"versionAsOf", 1'), names)
    assert "|             s1|      2|" in capsys.readouterr().out
    (query,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    query = query.replace("`/path/to/home/", f"`{filled_home.path}/")
    rows = get_session(load_settings(filled_home.path)).sql(query).collect()
    assert sorted(row.subscription_id for row in rows) == ["s1", "s2"]
