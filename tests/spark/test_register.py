"""`pststream register` creates tables and views that another session with the same metastore reads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pststream
from pststream.state.home import Home
from tests.command_process import ROOT
from tests.commands import run_here
from tests.lean_jvm import LEAN
from tests.unit.reports.commands.test_export import filled

pytestmark = [pytest.mark.spark, pytest.mark.deep]

REGISTER = """
import json, os, subprocess, sys
import deltalake, pststream
from tests.commands import run_here
from pststream.engine.spark_session import get_session, spark_url
from pststream.reports.reading.pairs import gold_table
from pststream.settings import Settings
from pststream.state.home import Home
spark = get_session(Settings(spark_master="local[1]"))
spark.sql("CREATE SCHEMA taken")
spark.sql("CREATE VIEW taken.objects AS SELECT 'a column' AS Location")
for schema, home in zip(("alerts", "alerts", "taken"), sys.argv[1:4]):
    done = run_here("register", "--catalog", "spark_catalog", "--schema", schema, "--home", home, "--json")
    print("DONE", json.dumps([done.code, done.out, done.err]))
home = sys.argv[1]
deltalake.write_deltalake(gold_table(Home(home)), pststream.open(home).sql("FROM pairs"))
done = run_here("register", "--catalog", "spark_catalog", "--schema", "alerts", "--home", home, "--json")
print("DONE", json.dumps([done.code, done.out, done.err]), flush=True)
environment = os.environ | {"SPARK_REMOTE": spark_url(Settings())}  # a second Spark takes as long to start
subprocess.run([sys.executable, "-c", sys.argv[4]], env=environment, check=True)
"""

READ = """
import json
from pststream.engine.spark_session import get_session
from pststream.settings import Settings
spark = get_session(Settings())
pairs = spark.sql("SELECT object_id, subscription_id FROM spark_catalog.alerts.pairs ORDER BY ALL").collect()
meanings = spark.sql("DESCRIBE spark_catalog.alerts.objects").collect()
history = spark.sql("DESCRIBE HISTORY spark_catalog.alerts.batches").collect()
shown = [list(map(list, pairs)), meanings[0].comment, history[0].userMetadata]
spark.sql("DESCRIBE DETAIL spark_catalog.alerts.pairs").collect()  # of a view it fails
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
        # Each statement is about a few rows: compiling plans and waiting for the disk would take most of the time.
        "spark.sql.codegen.wholeStage false",
        "spark.sql.codegen.factoryMode NO_CODEGEN",
        "spark.sql.adaptive.enabled false",
    ]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n", "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{LEAN} -Dderby.system.durability=test")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(program: str, *arguments: str) -> list[Any]:
    """Run a program in a process of its own; return the JSON of its lines that begin with a word in capitals."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return [json.loads(rest) for word, _, rest in lines if word in ("DONE", "SHOWN")]


def test_another_session_reads_tables_and_views(metastore: Path) -> None:
    home, other = Home(metastore / "home"), Home(metastore / "other")
    for one in (home, other):
        one.init()
    filled(home)
    done = lines_of(REGISTER, home.path, other.path, home.path, READ)
    first, refused, taken, with_gold, shown = done
    views = ["pairs", "subscriptions", "batches_done", "rejects_by_file"]
    assert first[0] == 0, first[2]
    assert json.loads(first[1])["views"] == views
    assert refused[0] == 2 and f"is already a table at file:{home.path}" in refused[2]
    assert taken[0] == 2 and "taken.objects is already a view" in taken[2]
    assert with_gold[0] == 0, with_gold[2]
    assert "pairs" in json.loads(with_gold[1])["tables"] and json.loads(with_gold[1])["views"] == views[1:]
    wanted = pststream.open(home.path).sql("SELECT object_id, subscription_id FROM pairs ORDER BY ALL").to_pylist()
    comment, metadata = "position in the log: file_seq << 32 | row", '{"batch_id": 3, "plan_version": 1}'
    assert shown == [[list(pair.values()) for pair in wanted], comment, metadata, 2]


def test_a_catalog_in_memory_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    refused = run_here("register", "--catalog", "spark_catalog", "--home", home.path)
    assert refused.code == 2 and "is in memory" in refused.err
