"""Subscriptions of all kinds in one home have the same matches, answers and reports under planners and balancers."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.pipeline.replan import balance
from tests.commands import Home
from tests.standing_worlds import (
    StandingTwin,
    nearest,
    reported,
    scored,
    standing_home,
    wordless,
    write_standing_world,
)
from tests.unbalanced_homes import RESTLESS, write_uneven_loads
from tests.worlds import WrittenWorld

FILES = 4
KINDS = (nearest, scored, reported, wordless)
BALANCED = {
    "a_grid": ("shift",),
    "keyword_hash": ("gr", "dp", "si", "ra"),
    "qt_tree": ("fg", "pm", "fm", "pm_fm", "pm_fm_fg"),
}
"""Planners, and the methods by which cells of their plans move between batches, each once."""

Rows = tuple[list[tuple[str, int, str]], list[str]]
"""Matches, and rows of answers."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    folder = tmp_path_factory.mktemp("world") / "files"
    return write_standing_world(folder, 43, FILES, 120, 60, KINDS)


class Killed(BaseException):
    """Ends an adjustment between its steps."""


def run(path: Path, world: WrittenWorld, planner: str, methods: tuple[str, ...] = ()) -> Home:
    """Match the files by turns; from the third on under a new plan with another number of workers."""
    home = standing_home(path, world, planner=planner, merge_files=3, **RESTLESS)
    left, ended = list(methods), set[str]()

    def die_once(step: str) -> None:
        if not ended:
            ended.add(step)
            raise Killed

    for number, (requests, objects) in enumerate(zip(world.requests, world.objects)):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        if number == FILES // 2:
            home.run("plan", "--workers", "5")
        while home.run("match", "--one", "--max-objects", "15")["batches"]:
            if left:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(balance, "crash_point", die_once)
                    move_cells(home, left)
    assert not left and ended == ({"balance.indexed"} if methods else set())
    return home


def move_cells(home: Home, methods: list[str]) -> None:
    """Move cells by the first of the methods that finds some to move, and strike it off.

    The first adjustment of a home ends while the rows of the cells are at their old workers and at the new ones; there
    they are during the next batch.
    """
    write_uneven_loads(home)
    for method in methods:
        try:
            moves = home.run("balance", "local", "--method", method, "--apply")["moves"]
        except Killed:
            return
        if moves:
            methods.remove(method)
            return


def rows_of(home: Home) -> Rows:
    out = home.path.parent / f"{home.path.name}-answers.parquet"
    home.run("export", "answers", "--out", out)
    return home.exported(), sorted(map(str, pq.read_table(out).to_pylist()))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, world: WrittenWorld) -> Rows:
    return rows_of(run(tmp_path_factory.mktemp("expected") / "home", world, "grid"))


@pytest.mark.deep
@pytest.mark.parametrize("planner", BALANCED)
def test_all_kinds_are_as_before_when_cells_move(
    tmp_path: Path, world: WrittenWorld, expected: Rows, planner: str
) -> None:
    home = run(tmp_path / "home", world, planner, BALANCED[planner])
    StandingTwin(home).assert_answers_after_each_batch()
    assert rows_of(home) == expected and all(expected)
    assert home.run("check")["success"]


def test_all_kinds_are_as_under_another_planner(tmp_path: Path) -> None:
    """Each planner makes a plan in turn, for the next file of each kind and all subscriptions so far."""
    world = write_standing_world(tmp_path / "files", 43, len(names.PLANNERS), 160, 50, KINDS)
    unplanned, planned = (standing_home(tmp_path / name, world) for name in ("unplanned", "planned"))
    for kind in ("requests", "objects"):
        unplanned.ingest(kind, getattr(world, kind))
    unplanned.match()
    for number, (planner, requests, objects) in enumerate(zip(names.PLANNERS, world.requests, world.objects)):
        planned.ingest("requests", [requests])
        planned.ingest("objects", [objects])
        assert planned.run("plan", "--planner", planner, "--workers", str(3 + number % 3))["planner"] == planner
        planned.match()
    StandingTwin(planned).assert_answers_after_each_batch()
    matches, answers = rows_of(planned)
    assert (matches, answers) == rows_of(unplanned)
    assert matches and all(any(kind in row for row in answers) for kind in ("'knn'", "'topk'", "'frequent_terms'"))
    assert planned.run("check")["success"]
