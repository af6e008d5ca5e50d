"""Copies of a bucket's files: where they lie, and which of them go."""

from pathlib import Path

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.state import fetched_files, ledger_tables
from pststream.state.home import Home

ADDRESS = "s3://bucket/in/objects/a.csv"


def a_copy(home: Home, sha256: str) -> Path:
    """A whole copy."""
    part = fetched_files.partial_copy_path(home, ADDRESS)
    part.write_text("text")
    path = Path(fetched_files.readable_path(home, {"path": ADDRESS, "sha256": sha256}))
    fetched_files.finish_copy(part, str(path))
    assert not part.exists()
    return path


def ledger_row(path: str, sha256: str, status: str) -> dict[str, object]:
    place = {"file_seq": 1, "ingest_id": 1, "kind": "objects", "bytes": 4, "options": "{}", "started_at": utc_now()}
    return place | {"path": path, "sha256": sha256, "status": status}


def test_a_copy_has_the_name_of_the_object_and_a_local_file_needs_none(hand_home: Home) -> None:
    assert a_copy(hand_home, "f00") == Path(hand_home.path) / "spool" / "f00" / "a.csv"
    assert fetched_files.readable_path(hand_home, {"path": "/data/a.csv", "sha256": "f00"}) == "/data/a.csv"


def test_copies_go_unless_an_unfinished_ingest_needs_them(hand_home: Home) -> None:
    fetched_files.remove_unneeded_copies(hand_home)
    needed, left = a_copy(hand_home, "f00"), a_copy(hand_home, "bad")
    fetched_files.partial_copy_path(hand_home, ADDRESS).write_text("half of")
    fetched_files.write_hash_cache(hand_home, {})
    ledger_tables.append(hand_home, names.FILES, [ledger_row(ADDRESS, "f00", "started")])
    fetched_files.remove_unneeded_copies(hand_home)
    assert needed.exists() and not left.exists()
    ledger_tables.append(hand_home, names.FILES, [ledger_row(ADDRESS, "f00", "done")])
    fetched_files.remove_unneeded_copies(hand_home)
    assert [path.name for path in Path(hand_home.path, "spool").iterdir()] == ["learnt.json"]


def test_what_was_learnt_is_kept(hand_home: Home) -> None:
    hashes = {ADDRESS: ("e", 4, "f00"), "s3://b/東\udc80": ("f", 0, "done")}
    fetched_files.write_hash_cache(hand_home, hashes)
    assert fetched_files.read_hash_cache(hand_home) == hashes
