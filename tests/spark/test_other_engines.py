"""Other engines find the same rows in every table of a home, and what Spark turns on there is honoured or refused."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import pststream
from pststream.base import names
from pststream.engine.spark_session import jar_folder
from pststream.reports.reading.pairs import gold_table
from pststream.reports.views import spark_path
from pststream.state.home import Home as State
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import open_dataset
from tests.command_process import ROOT
from tests.commands import Home, new_home
from tests.erased_homes import OBJECT, SUBSCRIPTION, marked_home, marked_world
from tests.lean_jvm import LEAN
from tests.worlds import moment

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.usefixtures("spark")]

SPARK, KERNEL = ("spark", "spark-earlier", "spark-stream"), ("kernel", "kernel-earlier")
"""Ways of reading in `tests.delta_readers`."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with retractions, erased rows, compacted tables, checkpoints, and the gold table."""
    folder = tmp_path_factory.mktemp("engines")
    world = marked_world(folder / "files", 9)
    home = marked_home(folder / "home", world)
    home.ingest("objects", world.objects[3:5])
    home.match()
    home.run("erase", "--object-id", OBJECT, "--subscription-id", SUBSCRIPTION)
    home.run("maintain")
    home.run("pairs")
    home.ingest("requests", world.requests[3:])
    home.ingest("objects", world.objects[5:])
    home.match()
    home.run("pairs")
    return home


def tables_of(home: Home) -> dict[str, DeltaTable]:
    state = State(home.path)
    return {name: DeltaTable(state.table(name)) for name in TABLES} | {names.PAIRS: DeltaTable(gold_table(state))}


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value as all engines give it: times in UTC as text, structs as lists of their values, maps as sorted pairs."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if pa.types.is_map(kind):
        # Some engines give a map as a dict, or its pairs as dicts with a key and a value.
        pairs = value.items() if isinstance(value, dict) else (p.values() if isinstance(p, dict) else p for p in value)
        return sorted([plain(key, kind.key_type), plain(one, kind.item_type)] for key, one in pairs)
    if pa.types.is_struct(kind):
        return [plain(value.get(field.name), field.type) for field in kind]
    if pa.types.is_nested(kind):
        return [plain(one, kind.value_type) for one in value]
    return value


class Rows:
    """Compares the rows of a table by engine."""

    def __init__(self, table: DeltaTable) -> None:
        self.schema = open_dataset(table).schema

    def of(self, rows: list[dict[str, Any]]) -> list[str]:
        """The rows as sorted texts that are the same for all engines."""
        fields = sorted(self.schema, key=lambda field: field.name)
        return sorted(repr([plain(row[field.name], field.type) for field in fields]) for row in rows)

    def of_table(self, table: DeltaTable) -> list[str]:
        """The rows that delta-rs reads."""
        return self.of(open_dataset(table).to_table().to_pylist())


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows that were written below a folder; without rows there is no file."""
    return pq.read_table(folder, partitioning=None).to_pylist() if list(folder.glob("*.parquet")) else []


@pytest.mark.timeout(1_800)
def test_every_engine_reads_the_same_rows(home: Home, tmp_path: Path) -> None:
    import polars

    tables = tables_of(home)
    earlier = {name: table.version() // 2 for name, table in tables.items()}
    asked = {name: (one.table_uri, earlier[name], name == names.PAIRS) for name, one in tables.items()}
    command = [sys.executable, "-m", "tests.delta_readers", tmp_path, jar_folder()]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": LEAN}
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    by_spark = {way: defaultdict(list) for way in SPARK}
    for way, by_table in by_spark.items():
        for row in written(tmp_path / way):
            by_table[row["name"]].append(json.loads(row["row"]))
    read = Counter[str]()
    for name, table in tables.items():
        rows, old = Rows(table), DeltaTable(table.table_uri, version=earlier[name])
        latest, before = rows.of_table(table), rows.of_table(old)
        read[name] += len(latest)
        for wanted, version in ((latest, None), (before, earlier[name])):
            frame = polars.scan_delta(table.table_uri, version=version).collect()
            assert rows.of(frame.to_arrow().to_pylist()) == wanted, f"Polars reads {name}"
        found = {way: by_spark[way][name] for way in SPARK} | {way: written(tmp_path / way / name) for way in KERNEL}
        for way in (*SPARK, *KERNEL):
            assert rows.of(found[way]) == (before if way.endswith("earlier") else latest), f"{way} reads {name}"
    assert read[names.PAIRS] > 100 and read[names.MATCHES] > 100 and len(+read) > 10, read
    gold = json.loads(done.stdout.splitlines()[-1])[names.PAIRS]
    assert gold["changes"]["insert"] - gold["changes"]["delete"] == read[names.PAIRS]
    assert gold["clustering"] == ["subscription_key", "day"]
    properties = tables[names.PAIRS].metadata().configuration
    assert (properties["delta.enableChangeDataFeed"], properties["delta.enableDeletionVectors"]) == ("true", "false")


def test_duckdb_reads_the_same_rows(home: Home) -> None:
    import duckdb

    connection = duckdb.connect()
    try:
        connection.execute("LOAD delta")
    except duckdb.Error as error:
        pytest.skip(f"needs DuckDB's extension delta: {str(error).splitlines()[0]}")
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables_of(home).items():
        rows = Rows(table)
        found = connection.execute("SELECT * FROM delta_scan(?)", [table.table_uri]).to_arrow_table()
        assert rows.of(found.to_pylist()) == rows.of_table(table), f"DuckDB reads {name}"


TURNED_ON = {
    "changeDataFeed": "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "the checkConstraints named": "ADD CONSTRAINT named CHECK (length(object_id) > 0)",
    "deletionVectors": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "rowTracking": "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "another declaration of the column extra": "ADD COLUMN extra INT",
}
"""What Spark changes of a table, by the name in the error; the SQL in the error undoes the first two."""


def test_what_spark_turns_on_is_refused_by_name(tmp_path: Path, spark: Any) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=1)
    table = spark_path(State(home.path).table(names.OBJECTS))
    asked = {"op": "insert", "subscription_id": "s", "created_at": moment(0), "keywords": "tea", "bbox": [0, 0, 9, 9]}
    (tmp_path / "asked.jsonl").write_text(json.dumps(asked))
    home.ingest("requests", [tmp_path / "asked.jsonl"])
    for number, (named, change) in enumerate(TURNED_ON.items()):
        thing = {"object_id": f"{number}", "ts": moment(number), "lon": 1.0, "lat": 2.0, "text": "tea"}
        file = tmp_path / f"{number}.jsonl"
        file.write_text(json.dumps(thing))
        spark.sql(f"ALTER TABLE {table} {change}")
        error = home.run("ingest", "objects", file, code=2)["error"]
        assert "its table objects uses what commits of PSTStream do not honour: " in error and named in error
        if number < 2:
            spark.sql(error.partition("in Spark: ")[2].splitlines()[0])
            home.ingest("objects", [file])
            home.match()
            assert len(home.exported()) == number + 1


def test_spark_shows_operations_and_their_metrics(home: Home, spark: Any) -> None:
    def commits(name: str, operation: str) -> list[Any]:
        history = spark.sql(f"DESCRIBE HISTORY {spark_path(State(home.path).table(name))}").collect()
        return [row for row in history if row["operation"] == operation]

    erasures = pststream.open(home.path).sql("SELECT table_name, sum(rows_removed) FROM erasures GROUP BY ALL")
    assert erasures.num_rows > 2
    for name, rows in zip(*(column.to_pylist() for column in erasures.columns), strict=True):
        deletions = [row["operationMetrics"] for row in commits(name, "DELETE") if '"erase"' in row["userMetadata"]]
        counts = [int(one[metric]) for one in deletions for metric in ("numDeletedRows", "numUpdatedRows")]
        assert sum(counts) == rows and min(counts) >= 0, name
    written = commits(names.OBJECTS, "WRITE")
    assert sum(int(row["operationMetrics"]["numOutputRows"]) for row in written) > 100
    assert not any(row["isBlindAppend"] for row in written), "duplicates are looked for in the table"
    assert any(row["isBlindAppend"] for row in commits(names.MATCHES, "WRITE"))
    compacted = commits(names.OBJECTS, "OPTIMIZE")[0]["operationMetrics"]
    assert int(compacted["numRemovedFiles"]) > int(compacted["numAddedFiles"]) > 0
