"""The history of a table names the ingest or batch of each commit, and compactions as OPTIMIZE without a change."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.base.errors import RetryableError
from pststream.pipeline.upkeep.maintain import compact_tables
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import FileWriter, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.log_entries import commit_entry, describe_writer
from pststream.state.tables import TABLES
from pststream.storage.local_folder import FolderFiles
from pststream.tables.delta_tables import last_transaction, table_version
from pststream.tables.open_tables import open_table
from tests.unit.reports.commands.homes import add_batch, add_file, match_row, thing


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
