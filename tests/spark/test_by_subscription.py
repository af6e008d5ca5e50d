"""Plans that share by subscription give the same matches and answers, also while two workers have a subscription."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pststream.pipeline.index.place_pieces import THRESHOLDS, read_state
from pststream.plans.pieces import recorded_units
from pststream.plans.plan import SubscriptionPlan
from pststream.state.home import Home as State
from pststream.state.plans import load_plan
from pststream.tables.delta_tables import read_table
from tests.commands import Home
from tests.spark.test_active_plans import active, ingest_and_match, repartitioned
from tests.spark.test_invariance import Schedule, assert_as_the_twin, home_for, run_in_between, written
from tests.standing_worlds import match_under_changing_plans, standing_home, write_standing_world
from tests.unbalanced_homes import assert_as_the_twin as assert_pairs
from tests.unbalanced_homes import home_for as unbalanced_home
from tests.unbalanced_homes import written as unbalanced_world

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def pieces_of(home: Home) -> list[dict]:
    return [row for row in read_table(State(home.path).table("worker_index")).to_pylist() if row["worker"] >= 0]


def assert_owners(home: Home) -> None:
    """Each subscription is at one worker, its owner, and the loads by which the next ones are placed count it."""
    rows = pieces_of(home)
    workers: dict[int, set[int]] = {}
    for row in rows:
        workers.setdefault(row["subscription_key"], set()).add(row["worker"])
    assert rows and all(len(some) == 1 for some in workers.values())
    version = home.run("status")["plan"]["version"]
    plan = load_plan(State(home.path), version)
    keys = np.array([row["subscription_key"] for row in rows])
    units = recorded_units(pa.array([row["unit"] for row in rows], pa.int64()))
    assert (units >= 0).mean() > 0.9
    assert isinstance(plan, SubscriptionPlan)
    assert plan.owner_workers(keys, units).tolist() == [row["worker"] for row in rows]
    state = read_state(State(home.path), version, 1_000, THRESHOLDS)
    assert state.loads.sum() >= len(workers) and np.ptp(state.loads) < state.loads.sum() / 2


@pytest.mark.parametrize(("planner", "cuts", "engine"), [("keyword_oriented", 7, "local"), ("dkm_sks", 3, "spark")])
def test_a_worker_more_and_one_fewer(tmp_path: Path, planner: str, cuts: int, engine: str) -> None:
    world = written(tmp_path / "files", 71, files=9, objects=180, requests=160)
    replans = {1: (planner, 6), 2: (planner, 5), 3: ("hybrid", 6), 4: ("keyword_oriented", 5), 5: (planner, 4)}
    schedule = Schedule(planner, 5, cuts=cuts, replans=replans, engine=engine)
    home = home_for(tmp_path, world, schedule)
    run_in_between(home, world, schedule)
    assert_as_the_twin(home, world)
    assert home.run("check")["success"]
    assert_owners(home)


def test_migrations_to_and_from_such_a_plan(tmp_path: Path) -> None:
    """By space for newer subscriptions, all back, by space for all, all back: two workers have many subscriptions."""
    world = unbalanced_world(tmp_path / "files", 52)
    home = unbalanced_home(tmp_path / "home", world, "dkm_sks")
    ingest_and_match(home, world, 0)
    refused = home.run("balance", "local", "--apply")
    assert refused["moves"] == [] and "shares by subscription" in refused["reason"]
    refused = home.run("balance", "global", "--planner", "keyword_oriented", "--apply")
    assert refused["moves"] == [] and "pststream plan" in refused["reason"]
    assert home.run(*repartitioned(home))["moves"]
    assert active(home) == (2, 1)
    ingest_and_match(home, world, 1)
    home.run("balance", "undo", "--apply")
    assert active(home) == (3, None)
    ingest_and_match(home, world, 2)
    assert home.run("check")["success"]
    doubled = len(pieces_of(home))
    home.run("maintain")
    assert len(pieces_of(home)) < doubled
    pairs = home.exported()
    assert home.run(*repartitioned(home))["moves"]
    ingest_and_match(home, world, 3)
    home.run("balance", "retire", "--apply")
    ingest_and_match(home, world, 4)
    home.run("balance", "undo", "--apply")
    ingest_and_match(home, world, 5)
    assert_pairs(home, world)
    for thing, _, name in random.Random(3).sample(pairs, 4):
        found = home.run("explain", thing, name)
        assert found["problem"] is None and found["state"] == "matched"
    home.run("plans", "show", "3")
    home.run("report", "--out", home.path / "page.html")
    assert "shared by subscription" in (home.path / "page.html").read_text()


def test_answers_of_knn(tmp_path: Path) -> None:
    """Renewed circles go to the owner of their subscription; a migration leaves older ones at another worker."""
    world = write_standing_world(tmp_path / "files", 5, 7)
    home = standing_home(tmp_path / "home", world, merge_files=3, planner="dkm_sks")
    match_under_changing_plans(home, world)
    assert_owners(home)
