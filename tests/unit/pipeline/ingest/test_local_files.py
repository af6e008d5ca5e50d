"""A file's hash is computed once, and again when the file may have changed; objects of a bucket are fetched again."""

import os
from pathlib import Path

import pytest

from pststream.base.errors import InputFileError
from pststream.input.input_files import files_below, find_files, sha256_of
from pststream.pipeline.ingest import local_files, retry_rejects
from pststream.state import fetched_files
from pststream.state.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are hashed from now on; few bytes are many, and a file settles at once."""
    told: list[str] = []

    def hashing(path: str) -> str:
        told.append(Path(path).name)
        return sha256_of(path)

    monkeypatch.setattr(local_files, "sha256_of", hashing)
    monkeypatch.setattr(local_files, "UNCACHED_BYTES", 0)
    monkeypatch.setattr(local_files, "SETTLED_SECONDS", -60.0)
    return told


def landed(folder: Path, **files: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return sorted(str(path) for path in folder.iterdir())


def assert_right(home: Home, paths: list[str]) -> None:
    found = local_files.hash_files(home, local_files.read_stamps(paths), tolerant=False)
    assert [(one.path, one.sha256, one.bytes) for one in found] == [
        (path, sha256_of(path), Path(path).stat().st_size) for path in paths
    ]


def wait_for_tick(file: Path, since: int) -> None:
    """Wait until a change of a file has a later time, which kernels before 6.13 count in steps of milliseconds."""
    while True:
        file.touch()
        if file.stat().st_ctime_ns > since:
            return


def test_a_file_is_read_once(home: Home, tmp_path: Path, read: list[str]) -> None:
    paths = landed(tmp_path / "in", a="tea", b="milk")
    assert_right(home, paths)
    assert sorted(read) == ["a", "b"]
    assert_right(home, paths)
    assert len(read) == 2
    paths = landed(tmp_path / "in", c="jam")
    assert_right(home, paths)
    assert read[2:] == ["c"]


def test_a_changed_file_is_read_again(home: Home, tmp_path: Path, read: list[str]) -> None:
    """Of the same size, and with its time set back; or another file under its name."""
    paths = landed(tmp_path / "in", a="tea", b="milk")
    assert_right(home, paths)
    before = os.stat(paths[0])
    wait_for_tick(tmp_path / "clock", before.st_ctime_ns)
    Path(paths[0]).write_text("pea")
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    Path(tmp_path / "other").write_text("silk")
    os.replace(tmp_path / "other", paths[1])
    assert_right(home, paths)
    assert len(read) == 4


@pytest.mark.parametrize(("bound", "value"), [("SETTLED_SECONDS", 60.0), ("UNCACHED_BYTES", 1000)])
def test_what_just_changed_and_what_is_small_is_read_each_time(
    home: Home, tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, bound: str, value: float
) -> None:
    monkeypatch.setattr(local_files, bound, value)
    paths = landed(tmp_path / "in", a="tea")
    assert_right(home, paths)
    assert_right(home, paths)
    assert read == ["a", "a"] and fetched_files.read_hash_cache(home) == {}


def test_what_is_gone_is_forgotten(home: Home, tmp_path: Path, read: list[str]) -> None:
    paths = landed(tmp_path / "in", a="tea", b="milk")
    fetched_files.write_hash_cache(home, {"s3://bucket/key": ("etag", 3, "hash")})
    assert_right(home, paths)
    Path(paths[0]).unlink()
    with pytest.raises(InputFileError):
        local_files.hash_files(home, local_files.read_stamps(paths), tolerant=False)
    assert [one.path for one in local_files.hash_files(home, local_files.read_stamps(paths), tolerant=True)] == paths[
        1:
    ]
    assert_right(home, paths[1:])
    assert set(fetched_files.read_hash_cache(home)) == {paths[1], "s3://bucket/key"}


def test_a_folder_above_a_link_is_that_of_its_target(home: Home, tmp_path: Path, read: list[str]) -> None:
    (tmp_path / "far" / "below").mkdir(parents=True)
    (tmp_path / "far" / "a").write_text("far")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "below")
    (tmp_path / "a").write_text("near")
    (found,) = local_files.hash_files(
        home, local_files.read_stamps([str(tmp_path / "link" / ".." / "a")]), tolerant=False
    )
    assert Path(found.path).read_text() == "far" and found.sha256 == sha256_of(str(tmp_path / "far" / "a"))


def test_a_name_that_is_not_utf_8_stops_no_other(tmp_path: Path) -> None:
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")
    for path in (bad, str(tmp_path / "good.csv")):
        Path(path).write_text("a")
    said: list[str] = []
    assert local_files.select_readable(files_below(tmp_path), said.append) == [str(tmp_path / "good.csv")]
    assert len(said) == 1 and "not UTF-8" in said[0] and said[0].isprintable()
    with pytest.raises(InputFileError, match="not UTF-8"):
        find_files([tmp_path])


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
