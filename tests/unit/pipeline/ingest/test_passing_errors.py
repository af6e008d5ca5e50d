"""Errors of the machine that may pass quarantine no file: it is read again, and the others go on."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pststream.base.errors import PASSING, PassingError, RetryableError
from pststream.input import input_files
from pststream.input.input_files import ByteStream, sha256_of
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest, stored_options
from pststream.pipeline.ingest.staged_rows import StagedWriter
from pststream.settings import Settings
from pststream.state import quarantine
from pststream.state.home import Home

ROWS = "object_id,ts,lon,lat,text\n"


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    for name in "ab":
        rows = "".join(f"{name}{n},2026-03-01T00:00:{n:02}Z,1,2,tea\n" for n in range(40))
        (tmp_path / "landing" / f"{name}.csv").write_text(ROWS + rows)
    return tmp_path / "landing"


def ingest_landing(home: Home, landing: Path) -> dict[str, Any]:
    return ingest(home, Settings(), "objects", [str(landing)], ReaderOptions(), quarantine_unreadable=True)


@contextmanager
def failing_reads(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each read of files with this ending fail with this system error."""

    class FailingFile:
        def __init__(self, path: str) -> None:
            self._file = really_open(path)
            self._fails = path.endswith(name)

        def read(self, size: int) -> bytes:
            if self._fails:
                raise OSError(number, os.strerror(number))
            return bytes(self._file.read(size))

        def seek(self, place: int) -> None:
            self._file.seek(place)

        def close(self) -> None:
            self._file.close()

    really_open = input_files.pa.OSFile
    with monkeypatch.context() as patch:
        patch.setattr(input_files.pa, "OSFile", FailingFile)
        yield


@pytest.mark.parametrize("number", sorted(PASSING), ids=lambda number: errno.errorcode[number])
def test_a_file_that_cannot_be_read_now_waits(
    hand_home: Home, landing: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_reads("b.csv", number, monkeypatch):
        done = ingest_landing(hand_home, landing)
        assert (done["files"], done["quarantined"]) == (1, []) and done["passed_over"] == [str(landing / "b.csv")]
        with pytest.raises(RetryableError, match=os.strerror(number)):
            ingest_landing(hand_home, landing)  # no other file is new
        with pytest.raises(RetryableError, match=os.strerror(number)):
            ingest(hand_home, Settings(), "objects", [str(landing / "b.csv")], ReaderOptions())
    assert quarantine.read_entries(hand_home) == []
    assert ingest_landing(hand_home, landing)["accepted"] == 40


def test_a_damaged_file_is_quarantined_as_before(
    hand_home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_reads("b.csv", errno.EINVAL, monkeypatch):
        assert [hold["path"] for hold in ingest_landing(hand_home, landing)["quarantined"]] == [str(landing / "b.csv")]


@contextmanager
def limited(kind: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def test_rows_that_cannot_be_written_quarantine_nothing(hand_home: Home, landing: Path) -> None:
    with limited(resource.RLIMIT_FSIZE, 1_500), pytest.raises(RetryableError, match=os.strerror(errno.EFBIG)):
        ingest_landing(hand_home, landing)
    assert quarantine.read_entries(hand_home) == []
    assert ingest_landing(hand_home, landing)["accepted"] == 80


def test_a_full_disk_at_the_end_of_a_damaged_file_quarantines_nothing(
    hand_home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(writer: StagedWriter) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for path in landing.iterdir():
        path.write_bytes(b"PAR1\n")
    with monkeypatch.context() as patch, pytest.raises(RetryableError, match="No space"):
        patch.setattr(StagedWriter, "close", close)
        ingest_landing(hand_home, landing)
    assert quarantine.read_entries(hand_home) == [] and len(ingest_landing(hand_home, landing)["quarantined"]) == 1


def test_too_many_open_files_say_nothing_about_a_file(landing: Path) -> None:
    path = str(landing / "a.csv")
    taken = [os.open(path, os.O_RDONLY) for _ in range(3)]
    with limited(resource.RLIMIT_NOFILE, max(taken) + 1):
        with suppress(OSError):
            while True:  # numbers below may be free
                taken.append(os.dup(taken[0]))
        for read in (sha256_of, ByteStream):
            with pytest.raises(PassingError, match=os.strerror(errno.EMFILE)):
                read(path)
    for one in taken:
        os.close(one)


def test_a_quarantined_file_whose_reasons_were_erased_stays(hand_home: Home, landing: Path) -> None:
    path = landing / "b.csv"
    file = {"kind": "objects", "path": str(path), "sha256": sha256_of(str(path)), "bytes": 1}
    options = stored_options(ReaderOptions(), Settings(), landed=True, owner="")
    quarantine.add_entries(hand_home, [(file | {"options": options}, [])], 1)
    assert ingest_landing(hand_home, landing)["files"] == 1


def test_a_pipe_in_the_place_of_a_file_is_not_copied(hand_home: Home, landing: Path) -> None:
    os.mkfifo(landing / "pipe")
    file = {"kind": "objects", "path": str(landing / "pipe"), "sha256": "", "bytes": 1, "options": "{}"}
    assert quarantine.add_entries(hand_home, [(file, ["it has no rows"])], 1) == []
