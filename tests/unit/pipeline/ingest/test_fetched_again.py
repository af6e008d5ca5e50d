"""An interrupted ingest fetches an object of a bucket again only if it has the size that it had."""

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from pststream.pipeline.ingest import fetch_objects, retry_rejects
from pststream.pipeline.ingest.fetch_objects import fetch_again
from pststream.state.home import Home
from pststream.storage.contract import StoredObject

CONTENT = b"id,ts\n"


class Store:
    """A bucket with one object."""

    prefix = "a.csv"

    def find_object(self, key: str) -> StoredObject:
        return StoredObject(key, "etag", len(CONTENT), dt.datetime(2026, 3, 1, tzinfo=dt.UTC))

    def copy_object(self, stored: StoredObject, file: IO[bytes]) -> str:
        file.write(CONTENT)
        return "hash"


@pytest.mark.parametrize(("size", "fetched"), [(len(CONTENT), True), (len(CONTENT) - 1, False)])
def test_an_object_that_has_grown_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fetched: bool
) -> None:
    monkeypatch.setattr(fetch_objects, "storage_of", lambda _: SimpleNamespace(objects=lambda _: Store()))
    path = tmp_path / "copy.csv"
    monkeypatch.setattr(fetch_objects.fetched_files, "readable_path", lambda *_: str(path))
    fetch_again(Home(tmp_path / "home"), {"path": "s3://b/a.csv", "sha256": "hash", "bytes": size})
    assert path.exists() == fetched


def test_the_local_file_of_a_killed_retry_goes(
    hand_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home in a bucket writes the file of a retry to this node first."""
    left = tmp_path / "work" / retry_rejects.FOLDER / "part.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    monkeypatch.setattr(Home, "work_folder", tmp_path / "work")
    retry_rejects.remove_unneeded_files(hand_home)
    assert left.exists()
    monkeypatch.setattr(retry_rejects, "is_fetched", lambda _: True)
    retry_rejects.remove_unneeded_files(hand_home)
    assert not left.exists()
