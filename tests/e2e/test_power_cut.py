"""A power cut at any flush of an ingest, a plan, a batch or a delivery, and a second run, do not change the result.

The steps run in this process, on a model of a disk that loses what was not flushed (tests/flushed_disk.py). After the
cut the home has what the model says, and the step runs again on the real disk. PSTSTREAM_FUZZ_TIMES: as many cuts.
"""

import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pststream.base import atomic_files
from pststream.tables import open_tables
from tests.commands import Home, run_here
from tests.flushed_disk import NEVER, TIMES, FlushedDisk, places
from tests.kill_and_rerun import assert_same_tables, home_for, written
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CUTS, FAULTS = 4, 1


class Steps:
    """A home before its steps, which has had one batch, and the same home after all of them."""

    def __init__(self, folder: Path, world: WrittenWorld) -> None:
        self.path, self.before, self.messages = folder / "home", folder / "before", folder / "messages"
        home = home_for(self.path, world, engine="local", cache_dir=str(self.path / "cache"))
        home.add_sink("folder", kind="file", target=str(self.path / "messages"))
        home.ingest("requests", world.requests[:1])
        home.ingest("objects", world.objects[:1])
        home.match()
        self.steps: list[Sequence[str | Path]] = [
            ("ingest", "requests", world.requests[1]),
            ("ingest", "objects", world.objects[1]),
            ("plan", "--planner", "grid", "--workers", "2"),
            ("match", "--until-empty"),
            ("deliver",),
        ]
        shutil.copytree(self.path, self.before)

    def start_again(self) -> Home:
        """Return the home before its steps."""
        return self.restore(self.before)

    def restore(self, folder: Path) -> Home:
        """Return the home with the content of a folder."""
        shutil.rmtree(self.path)
        shutil.copytree(folder, self.path)
        open_tables._kept.clear()
        return Home(self.path)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    folder = tmp_path_factory.mktemp("power")
    yield Steps(folder, written(folder / "files", 25, 2))


def messages(home: Home) -> dict[str, list[str]]:
    """The messages that were delivered, by their ids; each has the same content however often it was sent."""
    by_id: dict[str, set[str]] = {}
    for file in (home.path / "messages").glob("[!.]*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            by_id.setdefault(json.loads(line)["id"], set()).add(line)
    return {key: sorted(lines) for key, lines in by_id.items()}


def run_to_the_end(steps: Steps, disk: FlushedDisk, left: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Run all steps; where the power is cut, restore what is left and run the step again."""
    home = Home(steps.path)
    for arguments in steps.steps:
        if not left.exists():
            with disk.recording(monkeypatch):
                home.run(*arguments)
                continue
            home = steps.restore(left)
        home.run(*arguments)
    return home


@pytest.fixture(scope="module")
def undisturbed(steps: Steps, tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, int]:
    """A home that nobody disturbed, and how often its steps flush."""
    folder = tmp_path_factory.mktemp("undisturbed")
    steps.start_again()
    disk = FlushedDisk(steps.path, folder / "nothing", NEVER, True)
    with pytest.MonkeyPatch.context() as patch:
        run_to_the_end(steps, disk, folder / "nothing", patch)
    shutil.copytree(steps.path, folder / "home")
    assert len(messages(Home(folder / "home"))) > 5 and disk.flushes > 50
    return Home(folder / "home"), disk.flushes


def assert_same(home: Home, undisturbed: Home) -> None:
    assert_same_tables(home, undisturbed)
    assert messages(home) == messages(undisturbed)


@pytest.mark.promise
@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.deep) for number in range(1, CUTS * TIMES))]
)
def test_a_power_cut_at_any_flush_changes_nothing(
    steps: Steps, undisturbed: tuple[Home, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The first cut is in the middle of all steps."""
    expected, flushes = undisturbed
    order = places(CUTS, flushes)
    cut_at, left = order[number - len(order) // 2], tmp_path / "left"
    steps.start_again()
    home = run_to_the_end(steps, FlushedDisk(steps.path, left, cut_at, number % 2 == 0), left, monkeypatch)
    assert left.exists(), "there was no cut"
    try:
        assert_same(home, expected)
    except AssertionError as error:
        raise AssertionError(f"cut at flush {cut_at} of {flushes}") from error


@pytest.mark.deep
def test_a_full_disk_at_any_flush_changes_nothing(
    steps: Steps, undisturbed: tuple[Home, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, flushes = undisturbed
    for fault_at in places(FAULTS, flushes):
        home, numbers = steps.start_again(), itertools.count()
        with monkeypatch.context() as patch:
            patch.setenv(atomic_files.VARIABLE, "1")
            patch.setattr(atomic_files, "_flush", lambda _: fail_at(next(numbers), fault_at))  # noqa: B023
            for arguments in steps.steps:
                code = run_here(*arguments, "--home", home.path).code
                assert code in (0, 1)
                if code:
                    home.run(*arguments)
        home.run("deliver")
        assert home.run("quarantine", "list")["quarantine"] == []
        try:
            assert_same(home, expected)
        except AssertionError as error:
            raise AssertionError(f"disk full at flush {fault_at} of {flushes}") from error


def fail_at(number: int, fault_at: int) -> None:
    if number == fault_at:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
