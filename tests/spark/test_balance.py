"""Load adjustment changes no answer: moves, moves taken back, by every method, with what comes late in between."""

import random
from pathlib import Path

import pytest

from tests import worlds
from tests.commands import KILLED, Home, new_home
from tests.oracles import twin
from tests.worlds import WrittenWorld

pytestmark = pytest.mark.spark

RESTLESS = {"sigma": 1.0001, "balance_batches": 1, "repartition_gain": 0.0}
"""Any load is then out of balance, and any new partitioning welcome, so that small worlds are adjusted too."""


FILES = 6
WORDS = ("coffee", "tea", "free", "cheap", "jazz", "park", "snow", "taxi")


def written(folder: Path, seed: int) -> WrittenWorld:
    """Small regions and points that crowd in the west, with late ones, deletions and insertions again in between."""
    rnd = random.Random(seed)
    object_files: list[worlds.Rows] = [[] for _ in range(FILES)]
    request_files: list[worlds.Rows] = [[] for _ in range(FILES)]
    for number in range(600):
        file = number * FILES // 600
        step = max(0, 40 * file + rnd.randrange(40) - rnd.choice((0, 0, 0, 50)))
        point = {"lon": 40 * rnd.random() ** 3, "lat": 20 * rnd.random()}
        text = " ".join(rnd.choices(WORDS, range(8, 0, -1), k=3))
        object_files[file].append({"object_id": f"o{number}", "ts": worlds.moment(step), **point, "text": text})
    for number in range(480):
        file = number * FILES // 480
        west, south = 38 * rnd.random() ** 2, 18 * rnd.random()
        step = max(0, 40 * file + rnd.randrange(40) - rnd.choice((0, 60)))
        words = rnd.sample(WORDS, 3)
        keywords = rnd.choice(("{}", "{} AND {}", "{} AND ({} OR {})", "{} OR {}")).format(*words)
        box = [west, south, west + rnd.choice((0.5, 2.0)), south + rnd.choice((0.5, 2.0))]
        row = {"op": "insert", "subscription_id": f"s{number}", "keywords": keywords, "bbox": box}
        request_files[file].append({**row, "created_at": worlds.moment(step)})
        if rnd.random() < 0.3:
            gone = {"op": "delete", "subscription_id": f"s{rnd.randrange(number + 1)}"}
            request_files[file].append({**gone, "at": worlds.moment(step + rnd.randrange(30))})
    folder.mkdir()
    return worlds.write_world(folder, worlds.World(object_files, request_files, 60 * 600), seed)


def home_for(path: Path, world: WrittenWorld, planner: str) -> Home:
    return new_home(path, planner=planner, workers=4, lateness_seconds=world.lateness_seconds, **RESTLESS)


def assert_as_the_twin(home: Home, world: WrittenWorld) -> None:
    exported = home.exported()
    assert len(exported) == len(set(exported)), "a pair was delivered twice"
    assert set(exported) == twin.outcome_of(world.log, world.lateness_seconds).matches


@pytest.mark.parametrize(("planner", "seed"), [("grid", 41), ("hybrid", 42), ("frequency", 43)])
def test_adjusted_between_batches_and_taken_back(tmp_path: Path, planner: str, seed: int) -> None:
    world = written(tmp_path / "files", seed)
    home = home_for(tmp_path / "home", world, planner)
    moved = 0
    for number, (things, asked) in enumerate(zip(world.objects, world.requests)):
        home.ingest("objects", [things])
        home.ingest("requests", [asked])
        home.match()
        if number == 3:
            home.run("plan", "--planner", "kd_tree", "--workers", "3")
            continue
        if number == 4:
            assert home.run("balance", "undo", "--apply", code=2)["kind"] == "UsageError"
        method = ("gr", "dp", "si", "ra")[number % 4]
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


def test_what_is_balanced_is_left_alone(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 44)
    home = home_for(tmp_path / "home", world, "grid")
    assert home.run("balance", "local", code=2)["kind"] == "UsageError"
    home.ingest("objects", world.objects)
    home.ingest("requests", world.requests)
    home.run("plan")
    unmeasured = home.run("balance", "local", "--apply")
    assert unmeasured["moves"] == [] and "over 0 batches" in unmeasured["reason"]
    home.match()
    home.set(sigma=100_000.0)
    quiet = home.run("balance", "local", "--apply")
    assert quiet["plan_version_after"] == quiet["plan_version_before"] and "within" in quiet["reason"]


@pytest.mark.slow
def test_killed_at_each_step_and_run_again(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 45)
    home = home_for(tmp_path / "home", world, "grid")
    steps = ["indexed", "units_written", "done"]
    for things, asked in zip(world.objects, world.requests):
        home.ingest("objects", [things])
        home.ingest("requests", [asked])
        home.match()
        if steps and home.run("balance", "local")["moves"]:
            before = home.run("status")["plan"]["version"]
            killed = home.crash(f"balance.{steps[0]}", "balance", "local", "--apply")
            assert killed.code == KILLED, killed.err[-2000:]
            assert home.run("status")["plan"]["version"] == before + (steps[0] == "done")
            home.run("balance", "local", "--apply")
            steps = steps[1:]
    assert not steps
    assert_as_the_twin(home, world)


def test_a_plan_made_after_a_killed_adjustment_is_not_undone(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 46)
    home = home_for(tmp_path / "home", world, "grid")
    home.ingest("objects", world.objects)
    home.ingest("requests", world.requests)
    home.match()
    assert home.run("balance", "local")["moves"]
    assert home.crash("balance.units_written", "balance", "local", "--apply").code == KILLED
    home.run("plan", "--workers", "3")
    assert "not made by a migration" in home.run("balance", "undo", "--apply", code=2)["error"]
    assert_as_the_twin(home, world)
