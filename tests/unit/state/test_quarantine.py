"""Quarantined files: their entries and copies until they are released or discarded."""

import datetime as dt
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.pipeline.ingest import landing_gate
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine
from pststream.state.home import Home
from pststream.state.quarantine import DISCARDED, QUARANTINED, RELEASED, find_quarantined, read_entries


@pytest.fixture
def home(hand_home: Home, tmp_path: Path) -> Home:
    files = [(offered(tmp_path, name), [f"{name} is bad"]) for name in ("a.csv", "b.csv")]
    quarantine.add_entries(hand_home, files, 1)
    return hand_home


def offered(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    path.write_text(name, "utf-8")
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    return {"kind": "objects", "path": str(path), "sha256": sha256, "bytes": len(name), "options": "{}"}


def test_a_full_quarantine_keeps_the_beginnings_of_files(home: Home, tmp_path: Path) -> None:
    files = [(offered(tmp_path, name), ["bad"]) for name in ("c.csv", "d.csv", "e.csv")]
    room = quarantine.find_room(home, Settings(quarantine_files=4, quarantine_bytes=15))
    assert room == (2, 5), "two copies of five bytes are there"
    added = quarantine.add_entries(home, files, 3, room=room)
    assert [(entry["copy"], entry["head"]) for entry in added] == [
        ("quarantine/3/c.csv", []), (None, ["d.csv"]), (None, ["e.csv"])
    ]  # fmt: skip
    assert len(copies(home)) == 3 and quarantine.find_room(home, Settings(quarantine_files=4)).files == 1
    with pytest.raises(UsageError, match="was not copied"):
        find_quarantined(home, [4], RELEASED)
    hashes = {name: file["sha256"] for file, _ in files for name in [Path(file["path"]).name]}
    assert judged(home, hashes.values()) == set(hashes.values())
    quarantine.discard(home, [3, 4])
    again = judged(home, hashes.values())
    assert again == {hashes[name] for name in ("c.csv", "e.csv")}, "4 had no copy: it is checked again"
    assert judged(home, []) == set()


def test_old_files_are_discarded(home: Home) -> None:
    assert quarantine.discard(home, [], dt.timedelta(hours=1)) == []
    assert [row["hold_id"] for row in quarantine.discard(home, [2], dt.timedelta(0))] == [1, 2]
    assert copies(home) == [] and {one["status"] for one in read_entries(home)} == {DISCARDED}


def copies(home: Home) -> list[str]:
    return sorted(str(path.relative_to(home.path)) for path in Path(home.path, "quarantine").rglob("*.csv"))


def begin(home: Home, hold: dict[str, Any], status: str) -> None:
    """What an ingest of the copy leaves in the ledger."""
    row = {name: hold[name] for name in ("kind", "sha256", "bytes", "options")} | {"started_at": hold["written_at"]}
    ledger_tables.append(
        home, names.FILES, [row | {"file_seq": 1, "ingest_id": 1, "path": hold["copy"], "status": status}]
    )


@pytest.mark.parametrize("part", ["file", "folder"])
def test_a_file_that_became_a_link_out_of_its_landing_folder_is_not_copied(
    home: Home, tmp_path: Path, part: str
) -> None:
    """The target has the same content, so that the hash does not tell."""
    landing, outside = tmp_path / "landing" / "day", tmp_path / "outside"
    landing.mkdir(parents=True)
    outside.mkdir()
    file = offered(landing, "c.csv") | {"options": json.dumps({"folder": str(tmp_path / "landing")})}
    offered(outside, "c.csv")
    assert len(quarantine.add_entries(home, [(file, ["bad"])], 3, landing_gate._open_confined)) == 1
    (landing / "c.csv").unlink()
    if part == "file":
        (landing / "c.csv").symlink_to(outside / "c.csv")
    else:
        landing.rmdir()
        landing.symlink_to(outside)
    assert Path(file["path"]).read_text("utf-8") == "c.csv"
    assert quarantine.add_entries(home, [(file, ["bad"])], 4, landing_gate._open_confined) == []
    assert [path for path in copies(home) if "/4/" in path] == []


def test_a_held_file_is_copied_and_known(home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.csv").unlink()
    first, second = read_entries(home)
    assert (first["hold_id"], first["status"], first["reasons"]) == (1, QUARANTINED, ["a.csv is bad"])
    assert Path(home.path, second["copy"]).read_text("utf-8") == "b.csv"
    assert copies(home) == ["quarantine/1/a.csv", "quarantine/2/b.csv"]


def test_a_release_is_what_the_ledger_of_files_says(home: Home) -> None:
    first, _ = read_entries(home)
    begin(home, first, "started")
    assert [hold["status"] for hold in read_entries(home)] == [RELEASED, QUARANTINED]
    quarantine.remove_unneeded_copies(home)
    assert copies(home) == ["quarantine/1/a.csv", "quarantine/2/b.csv"], "the ingest is not done yet"
    begin(home, first, "done")
    quarantine.remove_unneeded_copies(home)
    assert copies(home) == ["quarantine/2/b.csv"]


def test_the_same_bytes_as_requests_are_another_file(home: Home) -> None:
    first, _ = read_entries(home)
    begin(home, first | {"kind": "requests"}, "done")
    assert [hold["status"] for hold in read_entries(home)] == [QUARANTINED, QUARANTINED]


def test_discarded_is_for_ever(home: Home) -> None:
    assert [row["hold_id"] for row in quarantine.discard(home, [2])] == [2]
    assert [hold["status"] for hold in read_entries(home)] == [QUARANTINED, DISCARDED]
    assert copies(home) == ["quarantine/1/a.csv"]
    assert quarantine.discard(home, [2]) == [], "again: nothing to do"
    with pytest.raises(UsageError, match="quarantined file 2 was discarded"):
        find_quarantined(home, [1, 2], RELEASED)


def test_numbers_that_are_unknown_or_released(home: Home) -> None:
    first, _ = read_entries(home)
    with pytest.raises(UsageError, match="quarantined file 3 is unknown"):
        find_quarantined(home, [1, 3], RELEASED)
    begin(home, first, "done")
    assert [hold["hold_id"] for hold in find_quarantined(home, [2, 1, 2], RELEASED)] == [2]
    with pytest.raises(UsageError, match="quarantined file 1 was released"):
        quarantine.discard(home, [1])


def test_a_file_that_changed_while_it_was_read_is_not_held(home: Home, tmp_path: Path) -> None:
    file = offered(tmp_path, "c.csv")
    (tmp_path / "c.csv").write_text("more", "utf-8")
    (gone := tmp_path / "d.csv").write_text("d", "utf-8")
    missing = offered(tmp_path, "d.csv")
    gone.unlink()
    kept = quarantine.add_entries(home, [(file, ["bad"]), (missing, ["bad"]), (offered(tmp_path, "e.csv"), ["bad"])], 3)
    assert [(hold["hold_id"], Path(hold["copy"]).name) for hold in kept] == [(3, "e.csv")]
    assert len(read_entries(home)) == 3
    assert quarantine.discard(home, [3])
    quarantine.remove_unneeded_copies(home)
    assert copies(home) == ["quarantine/1/a.csv", "quarantine/2/b.csv"]


def test_a_number_is_used_again_only_by_who_never_held_it(home: Home, tmp_path: Path) -> None:
    """A process killed after the copy leaves a folder; the next entry with this number replaces it."""
    left = Path(home.path, "quarantine", "3", "old.csv")
    left.parent.mkdir()
    left.write_text("old", "utf-8")
    quarantine.add_entries(home, [(offered(tmp_path, "c.csv"), ["bad"])], 3)
    assert copies(home)[-1] == "quarantine/3/c.csv" and len(copies(home)) == 3


def judged(home: Home, hashes: Iterable[str]) -> set[str]:
    return {row["sha256"] for row in quarantine.judged_files(home, list(hashes))}
