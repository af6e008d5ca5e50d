"""Answers are the same under every plan of `topk`, while plans change and states are lost, and after kills.

A file is one batch; where states are lost, it is two, so that one goes on with what the other has built.

The twin judges every batch of a run, as in test_standing_answers.py, which also says what happens to a home in between.
"""

import random
import shutil
from pathlib import Path

import pytest

from pststream.base import names
from pststream.pipeline.answers import answer_context
from pststream.state.home import Home as State
from pststream.state.plans import read_plan_rows
from pststream.tables.delta_tables import read_table
from tests.commands import Home
from tests.e2e.test_standing_answers import BETWEEN, disturb
from tests.standing_worlds import StandingTwin, standing_home, write_standing_world
from tests.unbalanced_homes import RESTLESS
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

STARTED = 2
"""Files that a home has matched before its first plan of `topk`."""


def units_of(home: Home, cache_dir: str = "") -> list[Path]:
    """Return the folders of the indexes of units, on the node with this cache."""
    states = answer_context.states_folder(cache_dir) / answer_context.states_of_home(State(home.path))
    return sorted(path.parent for path in states.glob("units-*/*/segments.json"))


def candidates_of(home: Home) -> list[int]:
    """Return the candidates of `topk` that each batch counts."""
    rows = read_table(State(home.path).table("batches")).to_pylist()
    done = sorted((row for row in rows if row["status"] == "done"), key=lambda row: row["batch_id"])
    return [dict(row["candidates"] or []).get("topk", 0) for row in done]


def ingest(home: Home, requests: Path, objects: Path) -> None:
    home.ingest("requests", [requests])
    home.ingest("objects", [objects])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    return write_standing_world(tmp_path_factory.mktemp("world") / "files", 31, 6)


@pytest.fixture(scope="module")
def started(world: WrittenWorld, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home of the world that has matched its first STARTED files; not to be changed."""
    home = standing_home(tmp_path_factory.mktemp("started") / "home", world)
    for requests, objects in zip(world.requests[:STARTED], world.objects):
        ingest(home, requests, objects)
        home.match()
    return home


def copy_of(home: Home, path: Path) -> Home:
    """Copy a home; its states are not copied, so the next batch builds them."""
    shutil.copytree(home.path, path)
    return Home(path)


@pytest.fixture(scope="module")
def plain(world: WrittenWorld, started: Home, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home without a plan of `topk`, with which the others are compared; not to be changed."""
    home = copy_of(started, tmp_path_factory.mktemp("plain") / "home")
    for requests, objects in zip(world.requests[STARTED:], world.objects[STARTED:]):
        ingest(home, requests, objects)
        home.match()
    return home


@pytest.mark.parametrize("planner", ["location", "keyword_first"])
def test_units_find_the_candidates_that_buckets_find(
    tmp_path: Path, world: WrittenWorld, started: Home, plain: Home, planner: str
) -> None:
    planned = copy_of(started, tmp_path / "planned")
    made = planned.run("plan", "--planner", planner, "--workers", "5")
    assert (made["planner"], made["units"], made["kinds"]) == (planner, 5, ["topk"])
    for number, (requests, objects) in enumerate(zip(world.requests[STARTED:], world.objects[STARTED:])):
        ingest(planned, requests, objects)
        planned.match()
        if number == 1:
            planned.run("plan", "--planner", planner, "--workers", "1")
    assert candidates_of(planned) == candidates_of(plain)
    assert sum(candidates_of(plain)) > 100
    assert [path.name for path in units_of(planned)] == ["0"] and units_of(plain) == []
    loads = read_table(State(planned.path).table("unit_loads")).to_pylist()
    of_topk = [row for row in loads if row["worker"] == names.UNIT_OF_TOPK]
    assert {row["plan_version"] for row in of_topk} == {2, 3} and {row["unit"] for row in of_topk} == set(range(5))
    assert 0 < sum(row["candidates"] for row in of_topk) <= sum(candidates_of(planned))
    last = [row["cpu_seconds"] for row in of_topk if row["plan_version"] == 3]
    assert planned.run("status")["plan"]["topk_planner"] == planner
    shown = planned.run("plans", "show", "--kinds", "topk")
    assert shown["measured_batches"] == len(last) and shown["unit_seconds"] == [pytest.approx(sum(last))] and sum(last)
    assert len(list((units_of(planned)[0].parent / "changes").iterdir())) == 1
    StandingTwin(planned).assert_answers_after_each_batch()


def test_answers_while_plans_and_all_else_change(tmp_path: Path) -> None:
    rnd, planner = random.Random("prefix"), "prefix"
    world = write_standing_world(tmp_path / "files", 33, len(BETWEEN) + 2)
    home = standing_home(tmp_path / "home", world, merge_files=3, **RESTLESS)
    between = ["", "", *rnd.sample(BETWEEN, len(BETWEEN))]
    for number, (requests, objects, what) in enumerate(zip(world.requests, world.objects, between)):
        ingest(home, requests, objects)
        if number in (2, 8):
            home.run("plan", "--planner", planner, "--workers", "5" if number == 2 else "3")
        disturb(home, what, rnd, tmp_path)
        home.match("--max-objects", "9")
        node = str(tmp_path / "another-node") if "node" in between[: number + 1] else ""
        if number == 5:
            shutil.rmtree(units_of(home, node)[0].parent)
    assert units_of(home, node)
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.run("check")["success"]


def test_answers_under_one_plan_after_the_other(tmp_path: Path) -> None:
    world = write_standing_world(tmp_path / "files", 33, 9)
    home = standing_home(tmp_path / "home", world)
    planners = ["", "", "location", "kd_tree", "prefix", "keyword_first", "hash", "keyword", "spatial_first"]
    served = []
    for requests, objects, planner in zip(world.requests, world.objects, planners):
        ingest(home, requests, objects)
        if planner:
            home.run("plan", "--planner", planner, "--workers", "4")
        home.match()
        served.append(read_plan_rows(State(home.path))[-1]["topk_version"])
    assert served == [None, None, 2, 2, 4, 5, None, 7, 8]
    planners = [row["topk_planner"] for row in home.run("plans", "list")["plans"]]
    assert planners == ["hash", "location", "location", "prefix", "keyword_first", "hash", "keyword", "spatial_first"]
    assert home.run("plans", "show", "3", "--kinds", "topk")["planner"] == "location"
    assert home.run("plans", "show", "6", "--kinds", "topk")["planner"] == "hash"
    shown = home.run("plans", "show", "--kinds", "topk")
    assert (shown["way"], shown["first"], shown["second"], len(shown["unit_loads"])) == ("space_first", 2, 2, 4)
    compared = home.run("plans", "compare", "--kinds", "topk", "--workers", "3")
    assert {one["planner"] for one in compared["plans"]} == set(names.TOPK_PLANNERS)
    copies = {one["planner"]: one["copies"] for one in compared["plans"]}
    assert copies["hash"] == copies["location"] == max(copies.values()) <= 3.0  # objects without words go nowhere
    assert len({one["pairs"] for one in compared["plans"]}) == 1 and compared["plans"][0]["pairs"] > 0
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.run("check")["success"]


def test_undo_of_plans(tmp_path: Path) -> None:
    """A change of the plan of topk is undone, and that undo is not."""
    world = write_standing_world(tmp_path / "files", 36, 3)
    home = standing_home(tmp_path / "home", world)
    undo, served = ("balance", "undo", "--apply"), []
    for number, (requests, objects) in enumerate(zip(world.requests, world.objects)):
        ingest(home, requests, objects)
        if number == 1:
            home.run("plan", "--planner", "prefix")
        if number == 2:
            home.run("plan", "--planner", "hash")
            assert "has no proposal" in home.run(*undo, "--proposal", tmp_path / "p.npz", code=2)["error"]
            shown, done = home.run(*undo[:2]), home.run(*undo)
            assert shown["reason"] == done["reason"] == "topk is searched under the plan of version 2 again"
            assert (done["plan_version_before"], done["plan_version_after"]) == (3, 4)
            assert "already undoes a migration" in home.run(*undo, code=2)["error"]
        home.match()
        served.append(read_plan_rows(State(home.path))[-1]["topk_version"])
    assert served == [None, 2, 2]
    history = home.run("balance", "history")["plans"]
    assert [row["kind"] for row in history] == ["plan", "plan", "plan", "undo"]
    assert [move["reason"] for move in history[3]["moves"]] == ["undo of topk"]
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.run("check")["success"]


def test_plans_that_are_refused_or_made_again(tmp_path: Path) -> None:
    world = write_standing_world(tmp_path / "files", 35, 2)
    home = standing_home(tmp_path / "home", world)
    home.ingest("objects", world.objects)
    hashed = "plan", "--planner", "hash", "--kinds", "topk", "--option", "columns=3"
    assert "hash has no option 'columns'" in home.run(*hashed, code=2)["error"]
    first = home.run("plan", "--planner", "spatial_first", "--workers", "4", "--option", "first=2", code=2)
    assert "no topk subscription" in first["error"]  # but the first plan of the other kinds is made
    assert "no topk subscription" in home.run("plan", "--planner", "location", code=2)["error"]
    home.ingest("requests", world.requests)
    home.match()
    assert "hash has no option 'columns'" in home.run(*hashed, code=2)["error"]
    assert (
        "does not divide"
        in home.run("plan", "--planner", "spatial_first", "--workers", "4", "--option", "first=3", code=2)["error"]
    )
    tried = home.run("plan", "--planner", "keyword", "--workers", "4", "--dry-run")
    assert tried["replication"] >= 1.0 and tried["copies"] <= 4.0
    assert read_plan_rows(State(home.path))[-1]["plan_version"] == tried["plan_version"] - 1
    assert "does not apply" in home.run("plan", "--planner", "hash", "--to-version", "1", code=2)["error"]
    home.set(planner_options="delta=0.2")  # of the planner of the setting
    home.run("plan", "--planner", "spatial_first", "--workers", "4", "--option", "first=1")
    again = home.run("plan", "--kinds", "topk", "--workers", "6")
    shown = home.run("plans", "show", "--kinds", "topk")
    assert (again["planner"], again["units"], shown["first"]) == ("spatial_first", 6, 1)
    assert home.run("plan", "--planner", "keyword_first", "--workers", "6", "--dry-run")["units"] == 6
