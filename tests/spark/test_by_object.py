"""Plans that share by object give the same matches and answers, also while two workers have the same subscriptions."""

import random
from pathlib import Path

import pytest

from pststream.plans.plan import ObjectPlan, PartitionPlan
from pststream.state.home import Home as State
from pststream.state.plans import load_plan
from tests.commands import Home
from tests.spark.test_active_plans import active, ingest_and_match, repartitioned
from tests.spark.test_invariance import Schedule, assert_as_the_twin, home_for, run_in_between, written
from tests.standing_worlds import match_under_changing_plans, standing_home, write_standing_world
from tests.unbalanced_homes import assert_as_the_twin as assert_pairs
from tests.unbalanced_homes import home_for as unbalanced_home
from tests.unbalanced_homes import written as unbalanced_world

pytestmark = pytest.mark.spark

PLANNERS = ("text", "qt_tree")


def plan_of(home: Home) -> PartitionPlan:
    return load_plan(State(home.path), home.run("status")["plan"]["version"])


@pytest.mark.parametrize(
    ("planner", "cuts", "engine"),
    [
        *((planner, 7, "local") for planner in PLANNERS),
        ("text", 1, "local"),
        pytest.param("qt_tree", 3, "spark", marks=pytest.mark.slow),
    ],
)
def test_a_worker_more_and_one_fewer(tmp_path: Path, planner: str, cuts: int, engine: str) -> None:
    """Each planner has all changes of plan; one batch for all, and Spark, have one planner each."""
    world = written(tmp_path / "files", 71, files=9, objects=180, requests=160)
    replans = {1: (planner, 6), 2: (planner, 5), 3: ("hybrid", 6), 4: ("dkm_sks", 5), 5: (planner, 4)}
    schedule = Schedule(planner, 5, cuts=cuts, replans=replans, engine=engine)
    home = home_for(tmp_path, world, schedule)
    run_in_between(home, world, schedule)
    assert_as_the_twin(home, world)
    home.run("plan", "--planner", "text")
    assert isinstance(plan_of(home), ObjectPlan)
    assert home.run("check")["success"]


@pytest.mark.slow
def test_migrations_to_and_from_such_a_plan(tmp_path: Path) -> None:
    """By another planner for newer subscriptions, all back, and by that one for all; units by each method as well."""
    world = unbalanced_world(tmp_path / "files", 51)
    home = unbalanced_home(tmp_path / "home", world, "text")
    ingest_and_match(home, world, 0)
    assert isinstance(plan_of(home), ObjectPlan)
    assert home.run(*repartitioned(home))["moves"]
    assert active(home) == (2, 1)
    ingest_and_match(home, world, 1)
    home.run("balance", "undo", "--apply")
    assert active(home) == (3, None) and isinstance(plan_of(home), ObjectPlan)
    for number, method in ((2, "gr"), (3, "fg")):
        ingest_and_match(home, world, number)
        shown = home.run("balance", "local", "--method", method, "--proposal", tmp_path / "move.npz", "--dry-run")
        done = home.run("balance", "local", "--method", method, "--proposal", tmp_path / "move.npz", "--apply")
        assert shown["moves"] == done["moves"] and done["moves"]
        assert max(done["load_after"]) < max(done["load_before"])
    assert home.run("check")["success"]
    home.run("maintain")
    ingest_and_match(home, world, 4)
    assert home.run("balance", "global", "--planner", "qt_tree", "--apply")["moves"]
    ingest_and_match(home, world, 5)
    home.run("balance", "retire", "--apply")
    assert_pairs(home, world)
    for thing, _, name in random.Random(3).sample(home.exported(), 4):
        found = home.run("explain", thing, name)
        assert found["problem"] is None and found["state"] == "matched"
    home.run("plan", "--planner", "text")
    home.run("plans", "show")
    home.run("report", "--out", home.path / "page.html")
    assert "whose objects are divided by text" in (home.path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("planner", PLANNERS)
def test_answers_of_all_kinds(tmp_path: Path, planner: str) -> None:
    """Circles of `knn` shrink while the plan divides by object; `topk` has pieces of its own."""
    world = write_standing_world(tmp_path / "files", 5, 7)
    home = standing_home(tmp_path / "home", world, merge_files=3, planner=planner)
    match_under_changing_plans(home, world)
