"""Copies of a bucket's files: where they lie, when they are made, and which of them go."""

import datetime as dt
import errno
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from pststream.base import names
from pststream.base.errors import PassingError
from pststream.base.utc_times import utc_now
from pststream.state import fetched_files, ledger_tables
from pststream.state.home import Home
from pststream.storage.contract import StoredObject

ADDRESS = "s3://bucket/in/objects/a.csv"
CONTENT = b"id,ts\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = {"path": ADDRESS, "sha256": SHA256, "bytes": len(CONTENT)}


class Store:
    """A bucket with one object, which counts how often it is read."""

    prefix = "in/objects/a.csv"

    def __init__(self) -> None:
        self.content, self.reads = CONTENT, 0

    def address(self, key: str) -> str:
        return f"s3://bucket/{key}"

    def find_object(self, key: str) -> StoredObject:
        return StoredObject(key, "etag", len(self.content), dt.datetime(2026, 3, 1, tzinfo=dt.UTC))

    def copy_object(self, stored: StoredObject, file: IO[bytes]) -> str:
        self.reads += 1
        file.write(self.content)
        return hashlib.sha256(self.content).hexdigest()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    place = SimpleNamespace(objects=lambda _: store, local_path=lambda _: None)
    monkeypatch.setattr(fetched_files, "storage_of", lambda path: place)
    return store


def a_copy(home: Home, sha256: str, size: int = 4) -> Path:
    """A whole copy."""
    path = Path(fetched_files.readable_path(home, {"path": ADDRESS, "sha256": sha256}))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size)
    return path


def ledger_row(path: str, sha256: str, status: str) -> dict[str, object]:
    place = {"file_seq": 1, "ingest_id": 1, "kind": "objects", "bytes": 4, "options": "{}", "started_at": utc_now()}
    return place | {"path": path, "sha256": sha256, "status": status}


def test_a_local_file_needs_no_copy(hand_home: Home) -> None:
    assert fetched_files.fetch(hand_home, {"path": "/data/a.csv", "sha256": "f00"}) == "/data/a.csv"


def test_a_node_copies_an_object_once(hand_home: Home, store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: fetched_files.fetch(hand_home, FILE), range(8)))
    assert paths == {f"{hand_home.path}/spool/{SHA256}/a.csv"} and store.reads == 1
    assert Path(*paths).read_bytes() == CONTENT
    assert (hand_home.work_folder / "spool").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"more"])
def test_an_object_that_is_another_by_now_is_not_read(hand_home: Home, store: Store, content: bytes) -> None:
    store.content = content
    with pytest.raises(PassingError) as raised:
        fetched_files.fetch(hand_home, FILE)
    assert raised.value.number == errno.ESTALE and store.reads == (len(content) == len(CONTENT))


def test_the_copies_of_a_node_are_bounded(hand_home: Home, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_files, "MAX_BYTES", 20)
    oldest, used = a_copy(hand_home, "f00", 10), a_copy(hand_home, "bad", 10)
    os.utime(oldest, (1, 1))
    os.utime(used, (2, 2))
    fetched_files.fetch(hand_home, FILE)
    assert not oldest.exists() and used.exists()


def test_copies_go_unless_an_unfinished_ingest_needs_them(hand_home: Home) -> None:
    fetched_files.remove_unneeded_copies(hand_home)
    needed, left = a_copy(hand_home, "f00"), a_copy(hand_home, "bad")
    (hand_home.work_folder / "spool" / "1.part").write_text("half of")
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
