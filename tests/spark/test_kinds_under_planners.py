"""Subscriptions of all kinds in one home have the same matches, answers and reports under planners and balancers."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

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

pytestmark = pytest.mark.spark

FILES = 4
CHEAP = ("plain_kd_tree", "a_grid", "uniform", "keyword_hash", "quadtree", "dkm_sks")
BALANCED = {"a_grid": "shift", "keyword_hash": "dp"}
"""Planners, and the method by which cells of their plans move between the files."""

Rows = tuple[list[tuple[str, int, str]], list[str]]
"""Matches, and rows of answers."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    folder = tmp_path_factory.mktemp("world") / "files"
    return write_standing_world(folder, 43, FILES, 120, 60, (nearest, scored, reported, wordless))


def run(path: Path, world: WrittenWorld, planner: str, method: str = "") -> Home:
    """Match the files by turns; from the third on under a new plan with another number of workers.

    method  of an adjustment after the second file and after the third; empty: none
    """
    home, moved = standing_home(path, world, planner=planner, merge_files=3, **RESTLESS), 0
    for number, (requests, objects) in enumerate(zip(world.requests, world.objects)):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        if number == FILES // 2:
            home.run("plan", "--workers", "5")
        home.match("--max-objects", "20")
        if method and number in (1, 2):
            write_uneven_loads(home)
            moved += len(home.run("balance", "local", "--method", method, "--apply")["moves"])
    assert moved or not method
    return home


def rows_of(home: Home) -> Rows:
    out = home.path.parent / f"{home.path.name}-answers.parquet"
    home.run("export", "answers", "--out", out)
    return home.exported(), sorted(map(str, pq.read_table(out).to_pylist()))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, world: WrittenWorld) -> Rows:
    return rows_of(run(tmp_path_factory.mktemp("expected") / "home", world, "grid"))


@pytest.mark.parametrize("planner", [*CHEAP, pytest.param("auto", marks=pytest.mark.slow)])
def test_all_kinds_are_as_under_another_planner(
    tmp_path: Path, world: WrittenWorld, expected: Rows, planner: str
) -> None:
    home = run(tmp_path / "home", world, planner, BALANCED.get(planner, ""))
    StandingTwin(home).assert_answers_after_each_batch()
    assert rows_of(home) == expected
    matches, answers = expected
    assert matches and all(any(kind in row for row in answers) for kind in ("'knn'", "'topk'", "'frequent_terms'"))
    assert home.run("check")["success"]
