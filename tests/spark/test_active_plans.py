"""Two active plans give the same matches: one serves older subscriptions, the other newer ones."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.commands import KILLED, Home
from tests.kill_and_rerun import table_of
from tests.unbalanced_homes import assert_as_the_twin, home_for, written
from tests.worlds import WrittenWorld

Plans = tuple[int, int | None]


def ingest_and_match(home: Home, world: WrittenWorld, *numbers: int) -> None:
    """Ingest some files of the world, and match them as one batch."""
    home.ingest("objects", [world.objects[number] for number in numbers])
    home.ingest("requests", [world.requests[number] for number in numbers])
    home.match()


def repartitioned(home: Home) -> tuple[str, ...]:
    """The command that makes a new plan for the subscriptions to come, by the first planner whose plan is better."""
    for planner in ("hybrid", "kd_tree", "frequency", "grid", "r_tree"):
        command = ("balance", "global", "--planner", planner, "--apply")
        if home.run(*command[:-1])["moves"]:
            return command
    raise AssertionError("no planner has a better plan")


def active(home: Home) -> Plans:
    """The plan in force, and the one that it retires."""
    plan = home.run("status")["plan"]
    return plan["version"], plan["retiring"] and plan["retiring"]["version"]


def loads_of(home: Home, batch: int) -> list[dict[str, Any]]:
    rows = table_of(home, "unit_loads").to_pyarrow_table().to_pylist()
    return [row for row in rows if row["batch_id"] == batch]


def assert_loads_add_up(home: Home, batch: int, plans: set[int]) -> None:
    """What the units of each plan did is what the workers did, and what the batch counts."""
    rows = loads_of(home, batch)
    assert {row["plan_version"] for row in rows if row["unit"] >= 0} == plans
    for name in ("candidates", "matches"):
        whole, units = Counter(), Counter()
        for row in rows:
            (units if row["unit"] >= 0 else whole)[row["worker"]] += row[name]
        assert +whole == +units
    found = sum(row["matches"] for row in rows if row["unit"] == -1)
    (batch_row,) = [b for b in home.run("status")["batches"] if b["batch_id"] == batch]
    assert batch_row["matches"] == found > 0


def assert_explained(home: Home, after: int) -> None:
    """`explain` gives subscriptions up to a key to plan 1, later ones to plan 2, with the worker that matched them."""
    pairs = [(thing, name) for thing, _, name in home.exported() if thing >= "o200"]
    older = [pair for pair in pairs if int(pair[1][1:]) < after]
    newer = [pair for pair in pairs if int(pair[1][1:]) >= after]
    for version, some in ((1, older[:4]), (2, newer[:4])):
        assert some
        for pair in some:
            found = home.run("explain", *pair)
            assert found["problem"] is None and found["state"] == "matched"
            assert found["pairs"][0]["posting"]["plan_version"] == version
    assert [plan["plan_version"] for plan in home.run("plans", "list")["plans"] if plan["retiring"]] == [1]
    page = home.path / "page.html"
    home.run("report", "--out", page)
    assert "Plan 1 is being retired" in page.read_text()


def assert_all_that_comes_late(home: Home, after: int) -> None:
    """Requests since the new plan end subscriptions of the old one; some objects and subscriptions since are of times
    before it.
    """
    border = home.run("status")["plan"]["retiring"]["subscriptions_to"]
    columns = ["request_key", "subscription_key", "op", "effective_at"]
    asked = table_of(home, "requests").to_pyarrow_table(columns=columns)
    new = [row for row in asked.to_pylist() if row["request_key"] > border]
    things = table_of(home, "objects").to_pyarrow_table(columns=["object_key", "ts"]).to_pylist()
    newest = max(row["ts"] for row in things if row["object_key"] >> 32 <= after)
    assert any(row["op"] == "delete" and row["subscription_key"] <= border for row in new)
    assert any(row["op"] == "insert" and row["effective_at"] < newest for row in new)
    assert any(row["object_key"] >> 32 > after and row["ts"] < newest for row in things)


@pytest.mark.slow
def test_adjust_retire_and_undo_with_two_active_plans(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 51)
    home = home_for(tmp_path / "home", world, "grid")
    ingest_and_match(home, world, 0)
    ingest_and_match(home, world, 1)
    assert active(home) == (1, None)
    shown = home.run("balance", "global", "--planner", "hybrid")
    done = home.run("balance", "global", "--planner", "hybrid", "--apply")
    assert shown["load_after"] == done["load_after"] and done["moves"] and done["moved_subscriptions"] == 0
    assert active(home) == (2, 1)
    ingest_and_match(home, world, 2)
    assert_all_that_comes_late(home, after=4)
    assert_loads_add_up(home, 3, {1, 2})
    assert_explained(home, 160)
    home.set(merge_files=1)
    home.run("balance", "local", "--apply")
    ingest_and_match(home, world, 3)
    home.run("maintain")
    newest, old = active(home)
    assert old == 1
    assert_loads_add_up(home, 4, {1, newest})
    assert home.run("check")["success"]
    waits = home.run("balance", "global", "--apply")
    assert waits["moves"] == [] and "are left under plan 1" in waits["reason"] and active(home) == (newest, 1)
    home.set(retire_share=1.0)
    shown = home.run("balance", "global")
    done = home.run("balance", "global", "--apply")
    assert shown["moved_subscriptions"] == done["moved_subscriptions"] > 0
    assert active(home) == (newest + 1, None)
    assert home.run("status")["index"]["leftovers"]
    ingest_and_match(home, world, 4)
    home.run("maintain")
    assert not home.run("status")["index"]["leftovers"]
    home.run("balance", "undo", "--apply")
    assert active(home) == (newest + 2, None)
    ingest_and_match(home, world, 5)
    assert_as_the_twin(home, world)


@pytest.mark.deep
def test_undo_with_two_active_plans_and_repartition_again(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 53)
    home = home_for(tmp_path / "home", world, "frequency")
    ingest_and_match(home, world, 0)
    assert "retires no older plan" in home.run("balance", "retire", "--apply", code=2)["error"]
    home.run(*repartitioned(home))
    ingest_and_match(home, world, 1)
    home.run("balance", "undo", "--apply")
    assert active(home) == (3, None)
    ingest_and_match(home, world, 2)
    home.run(*repartitioned(home))
    assert active(home) == (4, 3)
    ingest_and_match(home, world, 3)
    home.run("plan", "--planner", "frequency", "--workers", "3")
    assert active(home) == (5, None)
    home.run(*repartitioned(home))
    home.run("balance", "retire", "--apply")
    ingest_and_match(home, world, 4, 5)
    assert_as_the_twin(home, world)


@pytest.mark.parametrize(("planner", "workers"), [("grid", (8, 3, 9)), ("dkm_sks", (3, 8, 4))])
def test_plans_of_different_numbers_of_workers(tmp_path: Path, planner: str, workers: tuple[int, int, int]) -> None:
    """Both are active for two batches; then one number follows another, with kills and an undo in between."""
    world = written(tmp_path / "files", 55)
    home = home_for(tmp_path / "home", world, planner)
    home.set(workers=workers[0])
    ingest_and_match(home, world, 0)
    home.set(workers=workers[1], merge_files=1)
    assert home.run("balance", "global", "--planner", "kd_tree", "--apply")["moves"]
    assert active(home) == (2, 1)
    ingest_and_match(home, world, 1)
    home.run("maintain")
    home.run("balance", "local", "--apply")
    ingest_and_match(home, world, 2)
    newest, _ = active(home)
    assert_loads_add_up(home, 3, {1, newest})
    assert home.run("check")["success"]
    another = ("plan", "--planner", "kd_tree", "--workers", str(workers[2]))
    for step in ("balance.indexed", "balance.units_written"):
        assert home.crash(step, *another).code == KILLED
    ingest_and_match(home, world, 3)
    assert home.crash("balance.done", *another).code == KILLED
    assert active(home) == (newest + 1, None) and home.run("plans", "show")["workers"] == workers[2]
    ingest_and_match(home, world, 4)
    home.run("balance", "undo", "--apply")
    assert home.run("plans", "show")["workers"] == workers[1]
    ingest_and_match(home, world, 5)
    home.run("maintain")
    assert home.run("check")["success"]
    assert_as_the_twin(home, world)


@pytest.mark.slow
@pytest.mark.deep
def test_batches_between_a_kill_and_the_second_run(tmp_path: Path) -> None:
    """After each kill a batch runs under what is then in force, with all that the killed one has left lying about."""
    world = written(tmp_path / "files", 54)
    home = home_for(tmp_path / "home", world, "grid")
    ingest_and_match(home, world, 0)
    repartition = repartitioned(home)
    steps: list[tuple[str, tuple[str, ...], Plans, Plans]] = [
        ("units_written", repartition, (1, None), (2, 1)),
        ("indexed", ("balance", "undo", "--apply"), (2, 1), (3, None)),
        ("indexed", repartition, (3, None), (4, 3)),
        ("indexed", ("balance", "retire", "--apply"), (4, 3), (5, None)),
        ("units_written", ("balance", "undo", "--apply"), (5, None), (6, None)),
    ]
    for number, (step, command, between, after) in enumerate(steps, 1):
        killed = home.crash(f"balance.{step}", *command)
        assert killed.code == KILLED, killed.err[-2000:]
        assert active(home) == between
        home.ingest("objects", [world.objects[number]])
        home.ingest("requests", [world.requests[number]])
        if number == 4:
            assert home.crash("match.matched", "match").code == KILLED
        home.match()
        home.run(*command)
        assert active(home) == after
    assert_as_the_twin(home, world)
