"""Commits to a table: what is flushed before what, and the history that names the ingest or batch of each commit."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pststream.base import atomic_files, names
from pststream.base.errors import RetryableError
from pststream.base.utc_times import utc_now
from pststream.pipeline.upkeep.maintain import compact_tables
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import FileWriter, commit_files, list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import Home, table_properties
from pststream.state.log_entries import commit_entry, describe_writer
from pststream.state.tables import TABLES
from pststream.storage.local_folder import FolderFiles
from pststream.tables.delta_tables import last_transaction, read_table, table_version
from pststream.tables.open_tables import open_table
from tests.unit.reports.commands.homes import add_batch, add_file, match_row, thing


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


def test_rows_are_flushed_before_the_entry(hand_home: Home, flushed: list[str]) -> None:
    append(hand_home, 1)
    kinds = [name.rpartition(".")[2] if "." in name[1:] else name.partition("-")[0] for name in flushed]
    assert kinds == ["parquet", "deliveries", ".writing", "_delta_log"]


def test_an_append_comes_after_one_that_was_faster(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    really_create, faster = FolderFiles.create, [7, 8]

    def create(self: FolderFiles, name: str, content: bytes) -> bool:
        if faster:
            schema = pa.schema(DeltaTable(hand_home.table(names.DELIVERIES)).schema().to_arrow())
            rows = pa.Table.from_pylist([row(faster.pop())], schema=schema)
            write_deltalake(hand_home.table(names.DELIVERIES), rows, mode="append")
        return really_create(self, name, content)

    monkeypatch.setattr(FolderFiles, "create", create)
    append(hand_home, 1)
    assert ids(hand_home) == [1, 7, 8]


def test_a_checkpoint_is_flushed_before_it_gets_its_name(
    hand_home: Home, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(hand_home.table(names.DELIVERIES), "_delta_log")
    for batch_id in range(99):
        append(hand_home, batch_id)
    flushed.clear()
    really_replace, seen = os.replace, dict[str, list[str]]()

    def replace(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        seen[Path(target).name] = list(flushed)
        really_replace(source, target)

    monkeypatch.setattr(os, "replace", replace)
    append(hand_home, 99)
    checkpoint = f"{100:020}.checkpoint.parquet"
    assert checkpoint in seen[checkpoint] and (log / checkpoint).is_file()
    folder, written = seen["_last_checkpoint"][-2:]
    assert folder == "_delta_log" and written.startswith(".writing-")
    for entry in log.glob("*.json"):
        entry.unlink()  # the checkpoint alone is the table
    assert ids(hand_home) == list(range(100)) and '"version":100' in (log / "_last_checkpoint").read_text()
    write_checkpoint(hand_home.table(names.DELIVERIES))  # it is there already
    assert {path.name for path in Path(hand_home.path, "tables").iterdir() if path.name.startswith(".")} == set()


def test_a_checkpoint_that_fails_does_not_fail_the_commit_before_it(
    hand_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for batch_id in range(99):
        append(hand_home, batch_id)
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="no checkpoint was written"):
        patch.setattr("pststream.state.delta_log.TemporaryDirectory", fill_disk)
        append(hand_home, 99)
    assert ids(hand_home) == list(range(100))
    write_checkpoint(hand_home.table(names.DELIVERIES))
    assert (Path(hand_home.table(names.DELIVERIES), "_delta_log") / f"{100:020}.checkpoint.parquet").is_file()


def add_versions(home: Home, *versions: int) -> None:
    frequencies = {"term_id": 1, "term": "tea", "objects": 1, "subscriptions": 1}
    rows = [{**frequencies, "plan_version": version} for version in versions]
    ledger_tables.append(home, names.VOCABULARY, rows)


def versions(home: Home) -> list[int]:
    return sorted(read_table(home.table(names.VOCABULARY), ["plan_version"]).column(0).to_pylist())


def test_rows_of_versions_are_deleted_by_a_flushed_commit(hand_home: Home, flushed: list[str]) -> None:
    add_versions(hand_home, 1, 2, 3)
    flushed.clear()
    ledger_tables.delete_versions(hand_home, names.VOCABULARY, "plan_version", 3)
    kinds = [name.rpartition(".")[2] if "." in name[1:] else name.partition("-")[0] for name in flushed]
    assert kinds == ["parquet", "vocabulary", ".writing", "_delta_log"]
    assert versions(hand_home) == [1, 2]
    ledger_tables.delete_versions(hand_home, names.VOCABULARY, "plan_version", 2, 2)
    assert versions(hand_home) == [1]
    before = table_version(hand_home.table(names.VOCABULARY))
    ledger_tables.delete_versions(hand_home, names.VOCABULARY, "plan_version", 2)
    assert table_version(hand_home.table(names.VOCABULARY)) == before, "there is nothing to delete"


def test_files_of_other_versions_stay_as_they_are(hand_home: Home) -> None:
    for version in (1, 2, 3):
        add_versions(hand_home, version)
    before = {file.low["plan_version"]: file.path for file in list_data_files(hand_home, names.VOCABULARY)}
    ledger_tables.delete_versions(hand_home, names.VOCABULARY, "plan_version", 2, 2)
    assert {file.path for file in list_data_files(hand_home, names.VOCABULARY)} == {before[1], before[3]}


def test_a_new_table_is_that_of_delta_rs(hand_home: Home, flushed: list[str], tmp_path: Path) -> None:
    """Protocol, columns, partitions and properties; and it is flushed before it has its name."""
    Home(tmp_path / "new").init()
    entries = [name for name in flushed if name.startswith(".writing-")]
    assert len(entries) >= len(TABLES)
    for name, declared in TABLES.items():
        written = DeltaTable(hand_home.table(name))
        expected = DeltaTable.create(
            str(tmp_path / "other" / name),
            declared.delta_schema,
            partition_by=list(declared.partitions) or None,
            description=declared.meaning,
            configuration=table_properties(declared, hand_home.storage),
        )
        assert (written.schema(), written.protocol()) == (expected.schema(), expected.protocol())
        ours, theirs = written.metadata(), expected.metadata()
        for field in ("name", "description", "partition_columns", "configuration"):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert written.history(1)[0]["operation"] == "CREATE TABLE"


def commit_objects(home: Home, ingest_id: int) -> None:
    schema = TABLES[names.OBJECTS].schema
    row = thing(1, f"o{ingest_id}") | {"object_key": ingest_id << 32 | 1, "terms": [1], "ingest_id": ingest_id}
    writer = FileWriter(home.table(names.OBJECTS), schema)
    writer.write(pa.RecordBatch.from_pylist([row], schema=schema))
    file = writer.close()
    assert file is not None
    assert commit_files(home, names.OBJECTS, [file], application="ingest", transaction=ingest_id)


def entry(home: Home, name: str) -> list[dict[str, Any]]:
    """The newest entry of a table's log."""
    table = DeltaTable(home.table(name))
    path = Path(home.table(name), "_delta_log", f"{table.version():020}.json")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def last_commit(home: Home, name: str) -> dict[str, Any]:
    commit: dict[str, Any] = DeltaTable(home.table(name)).history(1)[0]
    return commit


def test_commits_name_the_ingest_or_batch(hand_home: Home) -> None:
    commit_objects(hand_home, 7)
    assert json.loads(last_commit(hand_home, names.OBJECTS)["userMetadata"]) == {"step": "ingest", "ingest_id": 7}
    add_file(hand_home, "objects", [thing(1, "o1")])
    assert json.loads(last_commit(hand_home, names.FILES)["userMetadata"]) == {"ingest_id": 1}
    add_batch(hand_home, [match_row(1, "o1", 0, [2])], cpu_seconds=[1.0, 2.0])
    for name in (names.BATCHES, names.MATCHES, names.UNIT_LOADS):
        assert json.loads(last_commit(hand_home, name)["userMetadata"]) == {"batch_id": 1, "plan_version": 1}, name


def test_rows_of_several_writers_name_none(hand_home: Home) -> None:
    assert describe_writer({"batch_id": (1, 2), "plan_version": (3, 3)}) == {"userMetadata": '{"plan_version": 3}'}
    assert describe_writer({"batch_id": (None, None)}) == {}
    ledger_tables.append(hand_home, names.VOCABULARY, [])
    assert "userMetadata" not in last_commit(hand_home, names.VOCABULARY)


def test_compaction_is_an_optimize_that_changes_no_rows(hand_home: Home) -> None:
    for ingest_id in (1, 2, 3):
        commit_objects(hand_home, ingest_id)
    before = open_table(hand_home.table(names.OBJECTS)).to_pyarrow_table().sort_by("object_key")
    files = list_data_files(hand_home, names.OBJECTS)
    assert compact_tables(hand_home, Settings()) == 2
    commit = last_commit(hand_home, names.OBJECTS)
    assert commit["operation"] == "OPTIMIZE" and json.loads(commit["userMetadata"]) == {"step": "join"}
    actions = entry(hand_home, names.OBJECTS)
    changes = [one[kind] for one in actions for kind in ("add", "remove") if kind in one]
    assert [change["dataChange"] for change in changes] == [False] * 4
    assert {one["remove"]["path"] for one in actions if "remove" in one} == {file.path for file in files}
    assert open_table(hand_home.table(names.OBJECTS)).to_pyarrow_table().sort_by("object_key") == before
    (file,) = list_data_files(hand_home, names.OBJECTS)
    assert (file.rows, file.low["ingest_id"], file.high["ingest_id"]) == (3, 1, 3)
    assert last_transaction(hand_home.table(names.OBJECTS), "join") == 0
    commit_objects(hand_home, 4)
    assert table_version(hand_home.table(names.OBJECTS)) == 5


def test_a_checkpoint_is_written_after_so_many_commits(hand_home: Home) -> None:
    open_table(hand_home.table(names.OBJECTS)).alter.set_table_properties({"delta.checkpointInterval": "4"})
    for ingest_id in range(1, 9):
        commit_objects(hand_home, ingest_id)
    log = Path(hand_home.table(names.OBJECTS), "_delta_log")
    assert sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")) == [4, 8]
    assert last_transaction(hand_home.table(names.OBJECTS), "ingest") == 8
    assert len(list_data_files(hand_home, names.OBJECTS)) == 8


def test_a_commit_whose_answer_was_lost_is_the_own_one(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_and_lose_the_answer(self: FolderFiles, name: str, content: bytes) -> bool:
        self.write(name, content)
        return False

    monkeypatch.setattr(FolderFiles, "create", create_and_lose_the_answer)
    commit_objects(hand_home, 1)
    assert last_transaction(hand_home.table(names.OBJECTS), "ingest") == 1


def test_of_two_commits_of_one_version_the_second_is_refused(hand_home: Home) -> None:
    table = open_table(hand_home.table(names.OBJECTS))
    commit_objects(hand_home, 1)
    before = entry(hand_home, names.OBJECTS)
    with pytest.raises(RetryableError, match="another process has committed"):
        commit_entry(hand_home, names.OBJECTS, table, "OPTIMIZE", [])
    assert entry(hand_home, names.OBJECTS) == before
    log = Path(hand_home.table(names.OBJECTS), "_delta_log")
    assert sorted(path.name for path in log.iterdir()) == [f"{version:020}.json" for version in (0, 1)]
