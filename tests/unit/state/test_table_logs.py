"""Old files and log entries go when nobody may need them; commits hold while other programs use the same table."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from pststream.base import atomic_files, names
from pststream.base.errors import HomeError, RetryableError
from pststream.state import delta_log, erasures, ledger_tables
from pststream.state.data_files import commit_files, list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import LOG_RETENTION, STREAMS, Home
from pststream.state.locks import HeldLock, write_fencing_token
from pststream.state.log_entries import metadata_action
from pststream.storage.local_folder import FolderFiles
from pststream.tables.delta_tables import last_transaction, read_table, table_version

DAY = 86_400


@pytest.fixture
def shrunk_home(hand_home: Home) -> Home:
    rows = [{"plan_version": n, "term_id": n, "term": str(n), "objects": 1, "subscriptions": 1} for n in (1, 2)]
    ledger_tables.append(hand_home, names.VOCABULARY, rows)
    ledger_tables.delete_versions(hand_home, names.VOCABULARY, "plan_version", 1, 1)
    return hand_home


def data_files(home: Home) -> set[str]:
    return {path.name for path in Path(home.table(names.VOCABULARY)).glob("*.parquet")}


def aged(home: Home, days: float) -> None:
    """Lets the table's past lie back by some days: the times of its files, and of their removal."""
    past = time.time() - days * DAY
    for path in Path(home.table(names.VOCABULARY)).rglob("*"):
        if path.suffix == ".json":
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            for line in lines:
                if "remove" in line:
                    line["remove"]["deletionTimestamp"] = int(past * 1000)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        os.utime(path, (past, past))


def test_removed_files_stay_for_readers_of_recent_versions(shrunk_home: Home) -> None:
    before = data_files(shrunk_home)
    assert len(before) == 2
    aged(shrunk_home, 6)
    assert ledger_tables.vacuum(shrunk_home, names.VOCABULARY, 7) == 0
    assert data_files(shrunk_home) == before
    assert DeltaTable(shrunk_home.table(names.VOCABULARY), version=1).to_pyarrow_table().num_rows == 2


def test_removed_files_go_when_they_are_old(shrunk_home: Home) -> None:
    aged(shrunk_home, 8)
    assert ledger_tables.vacuum(shrunk_home, names.VOCABULARY, 7) == 1
    assert read_table(shrunk_home.table(names.VOCABULARY)).column("term_id").to_pylist() == [2]
    aged(shrunk_home, 8)
    assert ledger_tables.vacuum(shrunk_home, names.VOCABULARY, 7) == 0, "once"


def test_what_a_killed_task_has_left_goes_when_it_is_old(shrunk_home: Home) -> None:
    left = Path(shrunk_home.table(names.VOCABULARY)) / "part-left.parquet"
    left.write_bytes(b"half")
    DeltaTable(shrunk_home.table(names.VOCABULARY)).create_checkpoint()
    assert ledger_tables.vacuum(shrunk_home, names.VOCABULARY, 1) == 0, "it may still be written"
    old = time.time() - 2 * DAY
    os.utime(left, (old, old))
    assert ledger_tables.vacuum(shrunk_home, names.VOCABULARY, 1) == 1
    assert not left.exists()


COMMITS = 5


@pytest.fixture
def old_home(hand_home: Home) -> Home:
    """A home with commits in `vocabulary`, two days old."""
    for number in range(COMMITS):
        row = {"plan_version": number, "term_id": number, "term": "tea", "objects": 1, "subscriptions": 1}
        ledger_tables.append(hand_home, names.VOCABULARY, [row])
    for file in log_of(hand_home):
        os.utime(file, (time.time() - 2 * 86_400,) * 2)
    return hand_home


def log_of(home: Home) -> list[Path]:
    return sorted(Path(home.table(names.VOCABULARY), "_delta_log").glob("*.json"))


def table_of(home: Home) -> DeltaTable:
    return DeltaTable(home.table(names.VOCABULARY))


def test_old_entries_go(old_home: Home) -> None:
    version = table_version(old_home.table(names.VOCABULARY))
    table = table_of(old_home)
    table.create_write_transaction(
        [], "append", table.schema(), commit_properties=CommitProperties(app_transactions=[Transaction("test", 7)])
    )
    for _ in range(2):
        ledger_tables.trim_log(old_home, names.VOCABULARY, 7)
        for file in log_of(old_home):
            os.utime(file, (time.time() - 2 * 86_400,) * 2)
    assert len(log_of(old_home)) == 1
    assert table_version(old_home.table(names.VOCABULARY)) == version + 1
    assert read_table(old_home.table(names.VOCABULARY)).num_rows == COMMITS
    assert last_transaction(old_home.table(names.VOCABULARY), "test") == 7


def test_young_entries_stay(old_home: Home) -> None:
    for file in log_of(old_home):
        os.utime(file)
    before = log_of(old_home)
    ledger_tables.trim_log(old_home, names.VOCABULARY, 7)
    assert log_of(old_home) == before


@pytest.mark.parametrize("name", [names.VOCABULARY, names.MATCHES])
def test_what_a_user_has_set_holds(old_home: Home, name: str) -> None:
    kept = "interval 30 days"
    DeltaTable(old_home.table(name)).alter.set_table_properties({LOG_RETENTION: kept})
    before = log_of(old_home)
    ledger_tables.trim_log(old_home, name, 7)
    assert DeltaTable(old_home.table(name)).metadata().configuration[LOG_RETENTION] == kept
    assert log_of(old_home) == before


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_finds_the_entries_of_six_days(old_home: Home, name: str) -> None:
    log = Path(old_home.table(name), "_delta_log")
    for _ in range(3):
        ledger_tables.trim_log(old_home, name, 7)
        for file in log.glob("*.json"):
            os.utime(file, (time.time() - 6 * 86_400,) * 2)
    assert DeltaTable(old_home.table(name)).metadata().configuration[LOG_RETENTION] == "interval 7 days"
    assert len(list(log.glob("*.json"))) == DeltaTable(old_home.table(name)).version() + 1
    for _ in range(2):
        for file in log.glob("*.json"):
            os.utime(file, (time.time() - 8 * 86_400,) * 2)
        ledger_tables.trim_log(old_home, name, 7)
    assert len(list(log.glob("*.json"))) == 1


def test_removed_files_are_remembered_for_as_long_as_they_are_kept(old_home: Home) -> None:
    for days in (30, 30, 3):
        ledger_tables.trim_log(old_home, names.VOCABULARY, days)
        assert table_of(old_home).metadata().configuration[ledger_tables.FILES_KEPT] == f"interval {days} days"
    assert table_version(old_home.table(names.VOCABULARY)) == COMMITS + 2


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with three files of one table."""
    home = Home(tmp_path / "home")
    home.create_tables([names.VOCABULARY])
    for term_id in range(3):
        append(home, term_id)
    return home


@pytest.fixture
def flushed(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is flushed, in order."""
    done: list[str] = []
    monkeypatch.setenv(atomic_files.VARIABLE, "1")
    monkeypatch.setattr(atomic_files, "_flush", lambda path: done.append(Path(path).name))
    return done


def append(home: Home, term_id: int) -> None:
    row = {"plan_version": 1, "term": "tea", "term_id": term_id, "objects": 1, "subscriptions": 1}
    ledger_tables.append(home, names.VOCABULARY, [row])


def terms(home: Home) -> list[int]:
    return sorted(read_table(home.table(names.VOCABULARY), ["term_id"]).column(0).to_pylist())


def log_folder(home: Home) -> Path:
    return Path(home.table(names.VOCABULARY), names.DELTA_LOG)


def test_files_that_another_program_has_replaced_are_not_replaced_again(home: Home) -> None:
    files = list_data_files(home, names.VOCABULARY)
    DeltaTable(home.table(names.VOCABULARY)).optimize.compact()
    with pytest.raises(RetryableError, match="replaced files"):
        commit_files(home, names.VOCABULARY, [], files, application="join", transaction=1, rows_change=False)
    assert terms(home) == [0, 1, 2]


def test_an_entry_that_is_refused_and_not_there_is_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    really_create, refusals = FolderFiles.create, [1]

    def create(self: FolderFiles, name: str, content: bytes) -> bool:
        return False if refusals and refusals.pop() else really_create(self, name, content)

    monkeypatch.setattr(FolderFiles, "create", create)
    append(home, 3)
    assert terms(home) == [0, 1, 2, 3] and not refusals


def test_a_compaction_comes_after_an_append_that_was_faster(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    really_create, faster = FolderFiles.create, [3]

    def create(self: FolderFiles, name: str, content: bytes) -> bool:
        if faster:
            append(home, faster.pop())
        return really_create(self, name, content)

    monkeypatch.setattr(FolderFiles, "create", create)
    ledger_tables.compact(home, names.VOCABULARY)
    assert [file.rows for file in list_data_files(home, names.VOCABULARY)] in ([3, 1], [1, 3])
    assert terms(home) == [0, 1, 2, 3] and not faster


def test_a_table_of_one_file_is_left_alone_without_its_lock(home: Home) -> None:
    lock = f".lock-compact-{names.VOCABULARY}"
    ledger_tables.compact(home, names.VOCABULARY)
    assert home.files.exists(lock)
    home.files.delete([lock])
    version = table_version(home.table(names.VOCABULARY))
    ledger_tables.compact(home, names.VOCABULARY)
    assert table_version(home.table(names.VOCABULARY)) == version and not home.files.exists(lock)


def test_a_checkpoint_that_another_process_has_overtaken_is_left_out(home: Home) -> None:
    write_checkpoint(home.table(names.VOCABULARY))
    before = sorted(os.listdir(log_folder(home)))
    delta_log._write_flushed(log_folder(home).parent, 2)
    assert sorted(os.listdir(log_folder(home))) == before


def test_entries_that_must_not_be_linked_are_copied(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_checkpoint(home.table(names.VOCABULARY))
    for entry in log_folder(home).glob("*.json"):
        entry.unlink()
    assert terms(home) == [0, 1, 2]


def test_what_a_killed_process_left_is_removed_after_an_hour(home: Home) -> None:
    copy, entry = log_folder(home).parents[1] / ".checkpoint-killed", log_folder(home) / ".writing-killed"
    (copy / names.DELTA_LOG).mkdir(parents=True)
    entry.touch()
    write_checkpoint(home.table(names.VOCABULARY))
    assert copy.exists() and entry.exists()
    for path in (copy, entry):
        os.utime(path, (1, 1))
    write_checkpoint(home.table(names.VOCABULARY))
    assert not copy.exists() and not entry.exists()


def test_a_vacuum_commits_nothing(home: Home) -> None:
    ledger_tables.compact(home, names.VOCABULARY)
    before = table_version(home.table(names.VOCABULARY))
    assert ledger_tables.vacuum(home, names.VOCABULARY, 0) == 3
    assert table_version(home.table(names.VOCABULARY)) == before and terms(home) == [0, 1, 2]


def test_a_checkpoint_is_flushed_before_the_log_before_it_is_deleted(home: Home, flushed: list[str]) -> None:
    ledger_tables.compact(home, names.VOCABULARY)
    version = table_version(home.table(names.VOCABULARY))
    erasures.drop_older_versions(home, names.VOCABULARY)
    assert f"{version:020}.checkpoint.parquet" in flushed
    assert min(os.listdir(log_folder(home))) == f"{version:020}.checkpoint.parquet" and terms(home) == [0, 1, 2]


def set_features(*features: str) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", *features]}}


def set_property(table: DeltaTable, key: str, value: str = "true") -> dict[str, Any]:
    return metadata_action(table, {**table.metadata().configuration, key: value})


def change_column(table: DeltaTable, **changes: Any) -> dict[str, Any]:
    action = metadata_action(table, table.metadata().configuration)
    schema = json.loads(action["metaData"]["schemaString"])
    schema["fields"][-1] |= changes
    action["metaData"]["schemaString"] = json.dumps(schema)
    return action


@pytest.mark.parametrize(
    ("action", "named"),
    [
        (lambda _: set_features("inCommitTimestamp"), "inCommitTimestamp\n.* DROP FEATURE inCommitTimestamp"),
        (lambda _: set_features("clustering", "rowTracking"), "clustering, rowTracking"),
        (lambda _: {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, "columnMapping"),
        (lambda _: {"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}, "version 8 of the protocol"),
        (lambda table: set_property(table, "delta.enableChangeDataFeed", "TRUE"), "changeDataFeed\n.* UNSET"),
        (lambda table: set_property(table, "delta.appendOnly"), "appendOnly"),
        (lambda table: set_property(table, "delta.constraints.some", "objects > 0"), "checkConstraints some\n.* DROP"),
        (lambda table: change_column(table, metadata={"delta.generationExpression": "1"}), "generatedColumns of"),
        (lambda table: change_column(table, metadata={"delta.identity.start": 1}), "identityColumns of the column"),
        (lambda table: change_column(table, metadata={"CURRENT_DEFAULT": "1"}), "allowColumnDefaults of the column"),
        (lambda table: change_column(table, metadata={"delta.invariants": "{}"}), "invariants of the column"),
        (lambda table: change_column(table, nullable=True), "another declaration of the column subscriptions"),
        (lambda table: change_column(table, name="another"), "declaration of the column another"),
    ],
)
def test_a_feature_that_commits_would_not_honour_is_refused(
    home: Home, action: Callable[[DeltaTable], dict[str, Any]], named: str
) -> None:
    entry = log_folder(home) / f"{4:020}.json"
    entry.write_text(json.dumps(action(table_of(home))) + "\n")
    with pytest.raises(HomeError, match=f"vocabulary uses what commits of PSTStream do not honour: .*{named}"):
        append(home, 3)
    with pytest.raises(HomeError, match=named):
        write_fencing_token(
            [home.table(names.VOCABULARY)], cast("HeldLock", SimpleNamespace(name="lock", fencing_token=1))
        )
    assert table_version(home.table(names.VOCABULARY)) == 4


def test_features_without_a_use_are_no_obstacle(home: Home) -> None:
    lines = [set_features("changeDataFeed", "checkConstraints", "generatedColumns", "invariants")]
    lines += [change_column(table_of(home), metadata={"comment": "of a user"})]
    (log_folder(home) / f"{4:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    append(home, 3)
    assert terms(home) == [0, 1, 2, 3]


def test_commits_have_the_metrics_of_deltas_own_writers(home: Home) -> None:
    append(home, 3)
    ledger_tables.compact(home, names.VOCABULARY)
    (file,) = list_data_files(home, names.VOCABULARY)
    ledger_tables.delete_versions(home, names.VOCABULARY, "plan_version", 1)
    last, *_ = table_of(home).history()
    metrics = [one["operationMetrics"] for one in reversed(table_of(home).history()[:3])]
    assert metrics[0] == {"numFiles": "1", "numOutputRows": "1", "numOutputBytes": metrics[0]["numOutputBytes"]}
    assert (metrics[1]["numAddedFiles"], metrics[1]["numRemovedFiles"]) == ("1", "4")
    assert metrics[1]["numAddedBytes"] == metrics[2]["numRemovedBytes"] == str(file.bytes)
    assert (metrics[2]["numDeletedRows"], metrics[2]["numCopiedRows"]) == ("4", "0")
    assert last["isBlindAppend"] is False
