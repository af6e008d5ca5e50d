"""Commits while other programs work on the same table, and what delta-rs writes to disk by itself."""

import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pststream.base import atomic_files, names
from pststream.base.errors import HomeError, RetryableError
from pststream.state import delta_log, erasures, ledger_tables
from pststream.state.data_files import commit_files, list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import Home
from pststream.storage.local_folder import FolderFiles
from pststream.tables.delta_tables import read_table, table_version


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


def log_of(home: Home) -> Path:
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
    before = sorted(os.listdir(log_of(home)))
    delta_log._write_flushed(log_of(home).parent, 2)
    assert sorted(os.listdir(log_of(home))) == before


def test_entries_that_must_not_be_linked_are_copied(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_checkpoint(home.table(names.VOCABULARY))
    for entry in log_of(home).glob("*.json"):
        entry.unlink()
    assert terms(home) == [0, 1, 2]


def test_what_a_killed_process_left_is_removed_after_an_hour(home: Home) -> None:
    copy, entry = log_of(home).parents[1] / ".checkpoint-killed", log_of(home) / ".writing-killed"
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
    assert min(os.listdir(log_of(home))) == f"{version:020}.checkpoint.parquet" and terms(home) == [0, 1, 2]


def test_a_table_that_asks_writers_for_more_is_refused(home: Home) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "inCommitTimestamp"]}
    (log_of(home) / f"{4:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(HomeError, match=r"vocabulary asks writers for inCommitTimestamp"):
        append(home, 3)
