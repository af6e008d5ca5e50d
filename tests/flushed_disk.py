"""Model what a power cut leaves of a folder: the content and the names that were flushed to disk, and nothing else.

Every flush of the program goes through `atomic_files`, which is patched here. The power is cut at one of the flushes.
Two disks are modelled, the two ends of what file systems do. `names_survive=False`: a name is there after the cut only
if its folder was flushed while it had it; so a rename, a new file and a deletion that were not flushed are undone.
`names_survive=True`: all names are there, as at the last moment. On both, a file that was not flushed is empty.
"""

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pststream.base import atomic_files
from pststream.tables import open_tables

TIMES = int(os.environ.get("PSTSTREAM_FUZZ_TIMES") or 1)
NEVER = 1 << 30


class PowerCut(BaseException):
    """The machine has no power: no line of the program runs any more."""


class FlushedDisk:
    """What a power cut would leave of `root`; all that is in it now is on disk.

    flushes  how often the program has flushed a file or folder; the power is cut before flush number `cut_at`
    """

    def __init__(self, root: Path, left: Path, cut_at: int, names_survive: bool) -> None:
        self.root, self.flushes = root, 0
        self._left, self._cut_at, self._names_survive = left, cut_at, names_survive
        self._content: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._pins = left.with_name(f"{left.name}-pins")  # a link keeps the inode number from other files
        self._pins.mkdir()
        self._lock = threading.Lock()
        for folder, _, files in os.walk(root):
            self._flush_folder(folder)
            for name in files:
                self._flush_file(os.path.join(folder, name))

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Record the flushes of the block, and cut the power in it; then `left` is what is on the disk."""
        really_flush = atomic_files._flush

        def flush(path: str | os.PathLike[str]) -> None:
            with self._lock:  # tasks are threads
                if self.flushes == self._cut_at:
                    self.cut()
                if self._left.exists():
                    raise PowerCut
                self.flushes += 1
                really_flush(path)
                if Path(path).is_relative_to(self.root):
                    (self._flush_folder if os.path.isdir(path) else self._flush_file)(os.fspath(path))

        with monkeypatch.context() as patch:
            patch.setenv(atomic_files.VARIABLE, "1")
            patch.setattr(atomic_files, "_flush", flush)
            with suppress(PowerCut):
                yield

    def cut(self) -> None:
        """Cut the power now."""
        if not self._left.exists():
            self._copy(str(self.root), self._left)

    def _flush_file(self, path: str) -> None:
        self._content[self._pin(path)] = Path(path).read_bytes()

    def _flush_folder(self, path: str) -> None:
        self._names[path] = {}
        for one in os.scandir(path):
            with suppress(FileNotFoundError):  # a temporary file of another thread
                self._names[path][one.name] = self._pin(one.path)

    def _pin(self, path: str) -> int:
        number = os.stat(path).st_ino
        if not os.path.isdir(path) and not (self._pins / str(number)).exists():
            os.link(path, self._pins / str(number))
        return number

    def _copy(self, folder: str, target: Path) -> None:
        target.mkdir()
        if self._names_survive:
            names = {one.name: one.inode() for one in os.scandir(folder)}
        else:
            names = self._names.get(folder, {})
        for name, number in names.items():
            path = os.path.join(folder, name)
            if path in self._names or os.path.isdir(path):
                self._copy(path, target / name)
            else:
                (target / name).write_bytes(self._content.get(number, b""))


def places(count: int, flushes: int) -> list[int]:
    """Return numbers of flushes, `count` for each of PSTSTREAM_FUZZ_TIMES, spread over all of them."""
    rnd = random.Random(TIMES)
    return [(number * flushes + rnd.randrange(flushes)) // (count * TIMES) for number in range(count * TIMES)]


def assert_cured(
    root: Path, count: int, work: Callable[[], object], judge: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do a work on a folder, cut the power at some of its flushes, and do it again on what is left; judge the result.

    A cut after the work has ended changes nothing, and the work is not done again.
    """
    beside = root.with_name(f"{root.name}-cuts")
    shutil.copytree(root, beside / "before")
    disk = FlushedDisk(root, beside / "ended", NEVER, False)
    with disk.recording(monkeypatch):
        work()
    disk.cut()
    _replace(root, beside / "ended")
    judge()
    for number, cut_at in enumerate(places(count, disk.flushes)):
        left = beside / f"left-{number}"
        _replace(root, beside / "before")
        with FlushedDisk(root, left, cut_at, number % 2 == 0).recording(monkeypatch):
            work()
        assert left.exists(), "there was no cut"
        _replace(root, left)
        try:
            work()
            judge()
        except AssertionError as error:
            raise AssertionError(f"cut at flush {cut_at} of {disk.flushes}") from error
        shutil.rmtree(f"{left}-pins")


def _replace(folder: Path, content: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(content, folder)
    open_tables._kept.clear()
