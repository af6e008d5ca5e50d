"""`pststream register` creates tables and views that another session with the same metastore reads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pststream
from pststream.state.home import Home
from tests.commands import run_here, run_in_new_python
from tests.unit.reports.commands.test_export import filled

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READ = """
import json, sys
from pststream.pipeline.engine.spark_session import get_session
from pststream.settings import Settings
spark = get_session(Settings(spark_master="local[1]"))
pairs = spark.sql("SELECT object_id, subscription_id FROM spark_catalog.alerts.pairs ORDER BY ALL").collect()
meanings = spark.sql("DESCRIBE spark_catalog.alerts.objects").collect()
history = spark.sql("DESCRIBE HISTORY spark_catalog.alerts.batches").collect()
shown = [list(map(list, pairs)), meanings[0].comment, history[0].userMetadata]
print("SHOWN", json.dumps([*shown, spark.table("alerts.subscriptions").count()]))
"""


@pytest.fixture
def metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hive metastore in a Derby database, by spark-defaults.conf."""
    lines = [
        "spark.sql.catalogImplementation hive",
        f"spark.sql.warehouse.dir {tmp_path}/warehouse",
        f"spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={tmp_path}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll true",
        "spark.hadoop.hive.metastore.schema.verification false",
    ]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n", "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_another_session_reads_tables_and_views(metastore: Path) -> None:
    home = Home(metastore / "home")
    home.init()
    filled(home)
    for _ in range(2):
        done = run_in_new_python(
            "register", "--catalog", "spark_catalog", "--schema", "alerts", "--home", home.path, "--json"
        )
        assert done.code == 0, done.err
        assert json.loads(done.out)["views"] == ["pairs", "subscriptions", "batches_done", "rejects_by_file"]
    read = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    (line,) = (line for line in read.stdout.splitlines() if line.startswith("SHOWN "))
    wanted = pststream.open(home.path).sql("SELECT object_id, subscription_id FROM pairs ORDER BY ALL").to_pylist()
    comment, metadata = "position in the log: file_seq << 32 | row", '{"batch_id": 3, "plan_version": 1}'
    assert json.loads(line.removeprefix("SHOWN ")) == [[list(pair.values()) for pair in wanted], comment, metadata, 2]
    other = Home(metastore / "other")
    other.init()
    refused = run_in_new_python("register", "--catalog", "spark_catalog", "--schema", "alerts", "--home", other.path)
    assert refused.code == 2 and f"is already a table at file:{home.path}" in refused.err


def test_a_catalog_in_memory_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    refused = run_here("register", "--catalog", "spark_catalog", "--home", home.path)
    assert refused.code == 2 and "is in memory" in refused.err
