"""Entries of Delta's logs go when they are old enough, and nothing else does."""

import os
import time
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from pststream.base import names
from pststream.state import ledger_tables
from pststream.state.home import LOG_RETENTION, STREAMS, Home
from pststream.tables.delta_tables import last_transaction, read_table, table_version

COMMITS = 5


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with commits in `vocabulary`, two days old."""
    found = Home(tmp_path / "home")
    found.init()
    for number in range(COMMITS):
        ledger_tables.append(
            found,
            names.VOCABULARY,
            [{"plan_version": number, "term_id": number, "term": "tea", "objects": 1, "subscriptions": 1}],
        )
    for file in log_of(found):
        os.utime(file, (time.time() - 2 * 86_400,) * 2)
    return found


def log_of(home: Home) -> list[Path]:
    return sorted(Path(home.table(names.VOCABULARY), "_delta_log").glob("*.json"))


def table_of(home: Home) -> DeltaTable:
    return DeltaTable(home.table(names.VOCABULARY))


def test_old_entries_go(home: Home) -> None:
    version = table_version(home.table(names.VOCABULARY))
    table = table_of(home)
    table.create_write_transaction(
        [], "append", table.schema(), commit_properties=CommitProperties(app_transactions=[Transaction("test", 7)])
    )
    for _ in range(2):
        ledger_tables.trim_log(home, names.VOCABULARY, 7)
        for file in log_of(home):
            os.utime(file, (time.time() - 2 * 86_400,) * 2)
    assert len(log_of(home)) == 1
    assert table_version(home.table(names.VOCABULARY)) == version + 1
    assert read_table(home.table(names.VOCABULARY)).num_rows == COMMITS
    assert last_transaction(home.table(names.VOCABULARY), "test") == 7


def test_young_entries_stay(home: Home) -> None:
    for file in log_of(home):
        os.utime(file)
    before = log_of(home)
    ledger_tables.trim_log(home, names.VOCABULARY, 7)
    assert log_of(home) == before


@pytest.mark.parametrize("name", [names.VOCABULARY, names.MATCHES])
def test_what_a_user_has_set_holds(home: Home, name: str) -> None:
    kept = "interval 30 days"
    DeltaTable(home.table(name)).alter.set_table_properties({LOG_RETENTION: kept})
    before = log_of(home)
    ledger_tables.trim_log(home, name, 7)
    assert DeltaTable(home.table(name)).metadata().configuration[LOG_RETENTION] == kept
    assert log_of(home) == before


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_finds_the_entries_of_six_days(home: Home, name: str) -> None:
    log = Path(home.table(name), "_delta_log")
    for _ in range(3):
        ledger_tables.trim_log(home, name, 7)
        for file in log.glob("*.json"):
            os.utime(file, (time.time() - 6 * 86_400,) * 2)
    assert DeltaTable(home.table(name)).metadata().configuration[LOG_RETENTION] == "interval 7 days"
    assert len(list(log.glob("*.json"))) == DeltaTable(home.table(name)).version() + 1
    for _ in range(2):
        for file in log.glob("*.json"):
            os.utime(file, (time.time() - 8 * 86_400,) * 2)
        ledger_tables.trim_log(home, name, 7)
    assert len(list(log.glob("*.json"))) == 1


def test_removed_files_are_remembered_for_as_long_as_they_are_kept(home: Home) -> None:
    for days in (30, 30, 3):
        ledger_tables.trim_log(home, names.VOCABULARY, days)
        assert table_of(home).metadata().configuration[ledger_tables.FILES_KEPT] == f"interval {days} days"
    assert table_version(home.table(names.VOCABULARY)) == COMMITS + 2
