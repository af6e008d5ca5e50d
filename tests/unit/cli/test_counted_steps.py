"""Each command with long steps counts them: with no step too short to be logged, their counts are in the log."""

import re
from pathlib import Path

import pytest

from pststream.base.progress import Steps
from tests.commands import Home, run_here
from tests.unbalanced_homes import UnbalancedHome, home_for, written


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> UnbalancedHome:
    """Make a home with a batch under a plan that is retiring, and rows that wait for the next batch."""
    folder = tmp_path_factory.mktemp("counted")
    world = written(folder / "files", 51)
    home = home_for(folder / "home", world, "grid")
    for number in range(2):
        home.ingest("objects", [world.objects[number]])
        home.ingest("requests", [world.requests[number]])
        home.match()
    assert home.run("balance", "global", "--planner", "hybrid", "--apply")["moves"]
    home.ingest("objects", world.objects[2:])
    home.ingest("requests", world.requests[2:4])
    return home


COMMANDS: dict[str, tuple[str, ...]] = {
    "match": ("matching: 0 of # objects", "indexing requests: 0 of # requests", "writing the index: 0 of 4 workers"),
    "balance retire --apply": (
        "sampling objects: 0 of # objects",
        "selecting pieces to move: 0 of # pieces",
        "writing moved pieces: 0 of 4 workers",
    ),
    "plan --planner kd_tree": (
        "sampling objects: 0 of # objects",
        "sampling subscriptions: 0 of # pieces",
        "reading the index: 0 of # pieces",
        "writing the index: 0 of 4 workers",
    ),
    "check --all": ("placement: 0 of # rows", "matches: 0 of # rows"),
    "replay --last 2": (
        "indexing requests: 0 of # requests",
        "replaying: 0 of 2 batches",
        "comparing the matches: 0 of # rows",
    ),
    "export matches --out OUT": ("exporting: 0 of # matches",),
    "backup --out OUT": ("copying the data: 0 of # files",),
    "maintain": ("deleting unused files: 0 of # tables",),
}  # fmt: skip
"""By command, in the order in which they run on the home: what they count; #: any number."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_counts_its_steps(home: Home, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pststream.base.stderr_log.COUNT_SECONDS", 0.0)
    arguments = command.replace("OUT", str(tmp_path / "out.csv")).split()
    done = run_here(*arguments, "--home", home.path)
    assert done.code == 0, done.err
    for expected in COMMANDS[command]:
        pattern = re.escape(expected).replace(r"\#", r"[\d,]+")
        assert any(re.fullmatch(pattern, line) for line in done.err.splitlines()), done.err


def test_nothing_is_counted_under_quiet(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pststream.base.stderr_log.COUNT_SECONDS", 0.0)
    done = run_here("check", "--all", "--quiet", "--home", home.path)
    assert (done.code, done.err) == (0, "")


def test_steps_of_a_benchmark_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 2.0, 3.0, 10.0))
    monkeypatch.setattr("pststream.base.progress.time.monotonic", lambda: next(clock))
    lines: list[str] = []
    steps = Steps(lines.append, 3, alike=True)
    for text in ("a", "b", "c"):
        steps.end(text)
    Steps(lines.append, 2).end("d")
    assert lines == ["step 1 of 3: a; 4.0 s left", "step 2 of 3: b; 1.5 s left", "step 3 of 3: c", "step 1 of 2: d"]
