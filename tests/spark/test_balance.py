"""Load adjustment changes no match: moves and undone moves, by every method, with late rows in between."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from pststream.matching.segments import SegmentCache
from pststream.state.home import Home as State
from pststream.state.index_files import index_files, segment_files
from pststream.state.plans import current_version
from tests.commands import KILLED, Home
from tests.kill_and_rerun import table_of
from tests.unbalanced_homes import assert_as_the_twin, home_for, written


@pytest.mark.slow
def test_adjusted_between_batches_and_undone(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 42)
    home = home_for(tmp_path / "home", world, "hybrid")
    moved, methods = 0, iter(("gr", "dp", "si", "ra", "gr"))
    for number, (things, asked) in enumerate(zip(world.objects, world.requests)):
        home.ingest("objects", [things])
        home.ingest("requests", [asked])
        home.match()
        if number == 3:
            home.run("plan", "--planner", "kd_tree")
            continue
        if number == 4:
            assert home.run("balance", "undo", "--apply", code=2)["kind"] == "UsageError"
        method = next(methods)
        shown = home.run("balance", "local", "--method", method, "--dry-run")
        done = home.run("balance", "local", "--method", method, "--apply")
        same = {"plan_version_after", "moved_subscriptions", "moved_bytes", "moves", "load_before", "load_after"}
        assert {name: shown[name] for name in same} == {name: done[name] for name in same}
        assert home.run("status")["plan"]["version"] == done["plan_version_after"]
        moved += done["moved_subscriptions"]
        if done["moves"]:
            assert max(done["load_after"]) < max(done["load_before"]) or "split" in {m["reason"] for m in done["moves"]}
        if number in (1, 4) and done["moves"]:
            home.run("balance", "undo", "--apply")
            assert "already" in home.run("balance", "undo", "--apply", code=2)["error"]
        if number == 2:
            assert home.run("balance", "global", "--planner", "hybrid", "--apply")["moves"]
            home.run("maintain")
    assert moved > 0
    home.run("maintain")
    assert_as_the_twin(home, world)


@pytest.mark.deep
@pytest.mark.parametrize(("planner", "method", "seed"), [("a_grid", "shift", 47), ("quadtree", "pm", 48)])
def test_proposed_applied_and_undone_by_the_methods_of_tornado_and_sstd(
    tmp_path: Path, planner: str, method: str, seed: int
) -> None:
    world = written(tmp_path / "files", seed)
    home = home_for(tmp_path / "home", world, planner)
    proposal, moved = tmp_path / "move.npz", 0
    for first in (0, 2, 4):
        home.ingest("objects", world.objects[first : first + 2])
        home.ingest("requests", world.requests[first : first + 2])
        home.match()
        shown = home.run("balance", "local", "--method", method, "--dry-run", "--proposal", proposal)
        if not shown["moves"]:
            continue
        done = home.run("balance", "local", "--method", method, "--apply", "--proposal", proposal)
        assert [done[name] for name in ("moves", "load_after")] == [shown[name] for name in ("moves", "load_after")]
        assert max(done["load_after"]) < max(done["load_before"])
        moved += done["moved_subscriptions"]
        if first == 2:
            home.run("balance", "undo", "--apply")
    assert moved > 0
    assert_as_the_twin(home, world)


def test_balanced_workers_are_left_alone(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 44)
    home = home_for(tmp_path / "home", world, "grid")
    assert home.run("balance", "local", code=2)["kind"] == "UsageError"
    home.ingest("objects", world.objects)
    home.ingest("requests", world.requests)
    home.run("plan")
    unmeasured = home.run("balance", "local", "--apply")
    assert unmeasured["moves"] == [] and "0 batches measured" in unmeasured["reason"]
    home.match()
    home.set(sigma=100_000.0)
    error = home.run("balance", "global", "--method", "gr", code=2)["error"]
    assert "--method does not apply to balance global" in error
    quiet = home.run("balance", "local", "--apply")
    assert quiet["plan_version_after"] == quiet["plan_version_before"] and "within" in quiet["reason"]


@pytest.mark.deep
def test_a_plan_made_after_a_killed_adjustment_is_not_undone(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 46)
    home = home_for(tmp_path / "home", world, "grid")
    home.ingest("objects", world.objects)
    home.ingest("requests", world.requests)
    home.match()
    assert home.run("balance", "local")["moves"]
    assert home.crash("balance.units_written", "balance", "local", "--apply").code == KILLED
    home.run("plan")
    assert "not made by a migration" in home.run("balance", "undo", "--apply", code=2)["error"]
    assert_as_the_twin(home, world)


def test_the_next_batch_finds_its_segments_and_needs_none(tmp_path: Path) -> None:
    """Each adjustment leaves the segments of its plan in the cache; the batches in between have another cache."""
    world = written(tmp_path / "files", 45)
    home = home_for(tmp_path / "home", world, "grid")
    for number, (adjust, options) in enumerate(
        [("local", ()), ("undo", ()), ("global", ("--planner", "hybrid")), ("retire", ())]
    ):
        home.ingest("objects", [world.objects[number]])
        home.ingest("requests", [world.requests[number]])
        home.set(cache_dir=str(tmp_path / f"cache-{number}"))
        home.match()
        before = segments_of(home)
        assert home.run("balance", adjust, *options, "--apply")["plan_version_after"] == number + 2
        after = segments_of(home)
        assert (after == before) == (adjust == "global"), "only a new partitioning moves nothing at once"
        cache = SegmentCache(str(tmp_path / f"cache-{number}"), 1 << 30)
        assert all(cache.has(paths) for paths in after)
    home.set(cache_dir=str(tmp_path / "cache-of-the-rest"))
    home.ingest("objects", world.objects[4:])
    home.ingest("requests", world.requests[4:])
    home.match()
    assert_as_the_twin(home, world)


def segments_of(home: Home) -> set[tuple[str, ...]]:
    """The files of each segment under the plan in force."""
    state = State(home.path)
    return {segment.paths for segment in segment_files(index_files(state, current_version(state)))}


def test_options_of_the_planner_are_stored_and_used_again(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 45)
    home = home_for(tmp_path / "home", world, "hybrid")
    home.ingest("objects", world.objects[:1])
    home.ingest("requests", world.requests[:1])
    given = ("--option", "objective=sum", "--option", "theta=8")
    home.run("plan", *given)
    made = home.run("plans", "show")["options"]
    assert (made["objective"], made["theta"], made["planner_options"]) == ("sum", 8, "objective=sum,theta=8")
    home.ingest("objects", world.objects[1:])
    home.ingest("requests", world.requests[1:])
    home.match()
    assert home.run("balance", "global", "--apply")["moves"], "the later files are denser"
    again = home.run("plans", "show")["options"]
    assert (again["objective"], again["theta"], again["planner_options"]) == ("sum", 8, "objective=sum,theta=8")
    refused = home.run("plan", "--planner", "grid", *given, code=2)
    assert "grid has no option 'objective'" in refused["error"]


@pytest.mark.deep
def test_an_undone_plan_has_its_own_options(tmp_path: Path) -> None:
    """The choice of `auto` does not stay behind: later subscriptions are placed by the planner of the plan."""
    world = written(tmp_path / "files", 45)
    home = home_for(tmp_path / "home", world, "dkm_sks")
    home.set(planner_options="columns=16,rows=16")
    for things, asked in zip(world.objects[:2], world.requests[:2]):
        home.ingest("objects", [things])
        home.ingest("requests", [asked])
        home.match()
    before = home.run("plans", "show")["options"]
    assert home.run("balance", "global", "--planner", "auto", "--apply")["moves"]
    shown = home.run("plans", "show")["options"]
    assert "dkm_sks" not in shown["choice"]["greatest_loads"], "balance makes no plan that shares by subscription"
    assert "subset" not in shown
    home.run("balance", "undo", "--apply")
    assert home.run("plans", "show")["options"] == before
    home.ingest("requests", world.requests[2:])
    home.ingest("objects", world.objects[2:])
    home.match()
    assert_as_the_twin(home, world)


Stored = dict[int, dict[tuple[object, ...], int]]
"""The bytes of each piece, by the number in the index of the worker that has it."""


def stored_by(home: Home) -> Stored:
    """The pieces of each worker after upkeep, which leaves only those that the plan gives it."""
    home.run("maintain")
    stored: Stored = {}
    for row in table_of(home, "worker_index").to_pyarrow_table().to_pylist():
        if row["worker"] >= 0:
            piece = row["subscription_key"], row["west"], row["south"]
            stored.setdefault(row["worker"], {})[piece] = len(repr(row))
    return stored


def bytes_to_move(before: Stored, after: Stored) -> tuple[int, int]:
    """What changed worker from one index to another, and what the best assignment of its workers would have moved."""
    pairs = [[sum(size for p, size in new.items() if p in old) for new in after.values()] for old in before.values()]
    kept = np.array(pairs)
    needed = sum(sum(new.values()) for new in after.values())
    moved = sum(size for number, new in after.items() for p, size in new.items() if p not in before.get(number, {}))
    return moved, needed - int(kept[linear_sum_assignment(kept, maximize=True)].sum())


def test_another_number_of_workers_moves_the_least_bytes(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 49)
    home = home_for(tmp_path / "home", world, "kd_tree")
    home.set(workers=8)
    for number, (workers, made) in enumerate([(9, "plan"), (8, "global"), (4, "plan")]):
        home.ingest("objects", world.objects[2 * number : 2 * number + 2])
        home.ingest("requests", world.requests[2 * number : 2 * number + 2])
        home.match()
        before = stored_by(home)
        if made == "plan":
            shown = home.run("plan", "--workers", str(workers), "--dry-run")
            done = home.run("plan", "--workers", str(workers))
            same = ("worker_loads", "moved_subscriptions", "moved_bytes", "least_bytes", "workers")
            assert [shown[name] for name in same] == [done[name] for name in same]
            assert 0 < done["moved_bytes"] == done["least_bytes"]
        else:
            home.set(workers=workers)
            done = home.run("balance", "global", "--apply")
            assert done["moved_bytes"] == 0 < done["least_bytes"] and len(done["load_after"]) == workers
            assert home.run("balance", "retire", "--apply")["moved_bytes"] == done["least_bytes"]
        after = stored_by(home)
        assert len(after) == workers
        moved, least = bytes_to_move(before, after)
        assert moved <= 1.1 * least
    assert home.run("check")["success"]
    assert_as_the_twin(home, world)
