"""A command that is killed at a crash point and run again leaves the rows and messages of one that nobody disturbed.

Each case has a copy of one home as it was before the command; combinations of crash points are drawn by tests/chaos.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pststream.base import names
from tests.command_process import ROOT
from tests.commands import KILLED
from tests.crash.killed_homes import Script, rows_of
from tests.crash.points import ELSEWHERE, STEPS
from tests.receiver import receiving
from tests.standing_worlds import StandingTwin

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CASES = [
    pytest.param(number, point, id=f"{number}-{point}", marks=[] if step.quick and not place else pytest.mark.deep)
    for number, step in enumerate(STEPS)
    for place, point in enumerate(step.points)
]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    with pytest.MonkeyPatch.context() as patch, receiving() as receiver:
        yield Script(tmp_path_factory.mktemp("script"), receiver, patch)


def declared_points() -> dict[str, str]:
    """Return the crash points of the code as patterns of their names, with a module of each."""
    found = {}
    for path in (ROOT / "pststream").rglob("*.py"):
        for literal in re.findall(r"\bcrash_point\((?!name: str)(.*)\)", path.read_text("utf-8")):
            name = re.fullmatch(r'f?"([a-z_.{}]+)"', literal)
            assert name, f"{path}: crash_point({literal}) is not called with a literal"
            found[re.sub(r"\{\w+\}", "*", name[1])] = str(path)
    return found


@pytest.mark.promise
def test_every_crash_point_has_its_case() -> None:
    declared, cases = declared_points(), {point for step in STEPS for point in step.points}
    for pattern, module in declared.items():
        is_elsewhere = any(fnmatch(pattern, one) for one in ELSEWHERE)
        assert is_elsewhere or any(fnmatch(point, pattern) for point in cases), f"{module}: {pattern}"
    assert {point for point in cases if not any(fnmatch(point, pattern) for pattern in declared)} == set()
    for pattern, module in ELSEWHERE.items():
        assert any(fnmatch(point, pattern) for point in declared)
        assert any(text in (ROOT / module).read_text("utf-8") for text in (pattern.rstrip("*"), '"crash_point"'))


@pytest.mark.promise
@pytest.mark.parametrize(("number", "point"), CASES)
def test_killed_and_run_again(script: Script, tmp_path: Path, number: int, point: str) -> None:
    step, wanted = STEPS[number], script.rows_after(number)
    home = script.copy(number, tmp_path / "killed")
    script.prepare(step)
    words = script.words(home, step.command)
    for _ in range(dict(step.kills).get(point, 1)):
        killed = home.crash(point, *words)
        assert killed.code == KILLED, f"ended with {killed.code}\n{killed.err[-3000:]}"
    if point not in step.final:
        script.run_again(home, step)
    script.finish(home, step)
    rows = rows_of(home.path.parent)
    assert rows.keys() == wanted.keys()
    for name in wanted:
        assert wanted[name] - rows[name] == {}, name
        if name != names.WORKER_INDEX or point not in step.final:  # the next plan or upkeep deletes the older index
            assert rows[name] - wanted[name] == {}, name


@pytest.mark.deep
def test_the_undisturbed_home_has_the_answers_of_the_twin(script: Script, tmp_path: Path) -> None:
    """Before rows are removed: later, the twin cannot compute them."""
    (number,) = (number for number, step in enumerate(STEPS) if step.name == "erase")
    script.rows_after(number)
    home = script.copy(number, tmp_path / "undisturbed")
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.exported() and home.run("check", "--all")["success"]
