"""VACUUM: what readers of recent versions may need stays, what nobody names goes when it is old enough."""

import json
import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table

DAY = 86_400


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.init()
    ledger_tables.append(
        made,
        names.VOCABULARY,
        [{"plan_version": n, "term_id": n, "term": str(n), "objects": 1, "subscriptions": 1} for n in (1, 2)],
    )
    ledger_tables.delete_versions(made, names.VOCABULARY, "plan_version", 1, 1)
    return made


def files(home: Home) -> set[str]:
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


def test_removed_files_stay_for_readers_of_recent_versions(home: Home) -> None:
    before = files(home)
    assert len(before) == 2
    aged(home, 6)
    assert ledger_tables.vacuum(home, names.VOCABULARY, 7) == 0
    assert files(home) == before
    assert DeltaTable(home.table(names.VOCABULARY), version=1).to_pyarrow_table().num_rows == 2


def test_removed_files_go_when_they_are_old(home: Home) -> None:
    aged(home, 8)
    assert ledger_tables.vacuum(home, names.VOCABULARY, 7) == 1
    assert read_table(home.table(names.VOCABULARY)).column("term_id").to_pylist() == [2]
    aged(home, 8)
    assert ledger_tables.vacuum(home, names.VOCABULARY, 7) == 0, "once"


def test_what_a_killed_task_has_left_goes_when_it_is_old(home: Home) -> None:
    left = Path(home.table(names.VOCABULARY)) / "part-left.parquet"
    left.write_bytes(b"half")
    DeltaTable(home.table(names.VOCABULARY)).create_checkpoint()
    assert ledger_tables.vacuum(home, names.VOCABULARY, 1) == 0, "it may still be written"
    old = time.time() - 2 * DAY
    os.utime(left, (old, old))
    assert ledger_tables.vacuum(home, names.VOCABULARY, 1) == 1
    assert not left.exists()


def test_a_shorter_retention_is_taken_at_its_word(home: Home) -> None:
    aged(home, 2)
    assert ledger_tables.vacuum(home, names.VOCABULARY, 1) == 1
