"""Commits to a table: files are flushed before the entry that names them, checkpoints before they get their names."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pststream.base import atomic_files, names
from pststream.base.utc_times import utc_now
from pststream.state import ledger_tables
from pststream.state.data_files import list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import Home, table_properties
from pststream.state.tables import TABLES
from pststream.storage.local_folder import FolderFiles
from pststream.tables.delta_tables import read_table, table_version


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.init()
    return home


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endings of what is flushed, in order."""
    done: list[str] = []
    monkeypatch.setenv(atomic_files.VARIABLE, "1")
    monkeypatch.setattr(atomic_files, "_flush", lambda path: done.append(Path(path).name))
    return done


def append(home: Home, batch_id: int) -> None:
    ledger_tables.append(home, names.DELIVERIES, [row(batch_id)])


def row(batch_id: int) -> dict[str, object]:
    zeros = dict.fromkeys(("position", "message_limit", "limit_seconds", "delivered", "refused", "failures"), 0)
    return {"sink": "s", "batch_id": batch_id, "complete": True, "state": "ok", "written_at": utc_now()} | zeros


def ids(home: Home) -> list[int]:
    return sorted(read_table(home.table(names.DELIVERIES), ["batch_id"]).column(0).to_pylist())


def test_rows_are_flushed_before_the_entry(home: Home, flushed: list[str]) -> None:
    append(home, 1)
    kinds = [name.rpartition(".")[2] if "." in name[1:] else name.partition("-")[0] for name in flushed]
    assert kinds == ["parquet", "deliveries", ".writing", "_delta_log"]


def test_an_append_comes_after_one_that_was_faster(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    really_create, faster = FolderFiles.create, [7, 8]

    def create(self: FolderFiles, name: str, content: bytes) -> bool:
        if faster:
            schema = pa.schema(DeltaTable(home.table(names.DELIVERIES)).schema().to_arrow())
            rows = pa.Table.from_pylist([row(faster.pop())], schema=schema)
            write_deltalake(home.table(names.DELIVERIES), rows, mode="append")
        return really_create(self, name, content)

    monkeypatch.setattr(FolderFiles, "create", create)
    append(home, 1)
    assert ids(home) == [1, 7, 8]


def test_a_checkpoint_is_flushed_before_it_gets_its_name(
    home: Home, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(home.table(names.DELIVERIES), "_delta_log")
    for batch_id in range(99):
        append(home, batch_id)
    flushed.clear()
    really_replace, seen = os.replace, dict[str, list[str]]()

    def replace(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        seen[Path(target).name] = list(flushed)
        really_replace(source, target)

    monkeypatch.setattr(os, "replace", replace)
    append(home, 99)
    checkpoint = f"{100:020}.checkpoint.parquet"
    assert checkpoint in seen[checkpoint] and (log / checkpoint).is_file()
    folder, written = seen["_last_checkpoint"][-2:]
    assert folder == "_delta_log" and written.startswith(".writing-")
    for entry in log.glob("*.json"):
        entry.unlink()  # the checkpoint alone is the table
    assert ids(home) == list(range(100)) and '"version":100' in (log / "_last_checkpoint").read_text()
    write_checkpoint(home.table(names.DELIVERIES))  # it is there already
    assert {path.name for path in Path(home.path, "tables").iterdir() if path.name.startswith(".")} == set()


def add_versions(home: Home, *versions: int) -> None:
    frequencies = {"term_id": 1, "term": "tea", "objects": 1, "subscriptions": 1}
    rows = [{**frequencies, "plan_version": version} for version in versions]
    ledger_tables.append(home, names.VOCABULARY, rows)


def versions(home: Home) -> list[int]:
    return sorted(read_table(home.table(names.VOCABULARY), ["plan_version"]).column(0).to_pylist())


def test_rows_of_versions_are_deleted_by_a_flushed_commit(home: Home, flushed: list[str]) -> None:
    add_versions(home, 1, 2, 3)
    flushed.clear()
    ledger_tables.delete_versions(home, names.VOCABULARY, "plan_version", 3)
    kinds = [name.rpartition(".")[2] if "." in name[1:] else name.partition("-")[0] for name in flushed]
    assert kinds == ["parquet", "vocabulary", ".writing", "_delta_log"]
    assert versions(home) == [1, 2]
    ledger_tables.delete_versions(home, names.VOCABULARY, "plan_version", 2, 2)
    assert versions(home) == [1]
    before = table_version(home.table(names.VOCABULARY))
    ledger_tables.delete_versions(home, names.VOCABULARY, "plan_version", 2)
    assert table_version(home.table(names.VOCABULARY)) == before, "there is nothing to delete"


def test_files_of_other_versions_stay_as_they_are(home: Home) -> None:
    for version in (1, 2, 3):
        add_versions(home, version)
    before = {file.low["plan_version"]: file.path for file in list_data_files(home, names.VOCABULARY)}
    ledger_tables.delete_versions(home, names.VOCABULARY, "plan_version", 2, 2)
    assert {file.path for file in list_data_files(home, names.VOCABULARY)} == {before[1], before[3]}


def test_a_new_table_is_that_of_delta_rs(home: Home, flushed: list[str], tmp_path: Path) -> None:
    """Protocol, columns, partitions and properties; and it is flushed before it has its name."""
    Home(tmp_path / "new").init()
    entries = [name for name in flushed if name.startswith(".writing-")]
    assert len(entries) >= len(TABLES)
    for name, declared in TABLES.items():
        written = DeltaTable(home.table(name))
        expected = DeltaTable.create(
            str(tmp_path / "other" / name),
            declared.delta_schema,
            partition_by=list(declared.partitions) or None,
            description=declared.meaning,
            configuration=table_properties(declared, home.storage),
        )
        assert (written.schema(), written.protocol()) == (expected.schema(), expected.protocol())
        ours, theirs = written.metadata(), expected.metadata()
        for field in ("name", "description", "partition_columns", "configuration"):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert written.history(1)[0]["operation"] == "CREATE TABLE"
