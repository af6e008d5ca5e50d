"""Other commands, files and settings between a killed `ingest` or `match` and the next do not change the result."""

from pathlib import Path

import pytest

from tests import worlds
from tests.commands import KILLED, new_home, run_here
from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, written
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_another_command_after_a_killed_ingest(tmp_path: Path) -> None:
    """A file that was ingested halfway is not matched; ingested again, it is matched once."""
    world = written(tmp_path / "files", 23, 3)
    home = home_for(tmp_path / "home", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects[:2])
    home.match()
    assert home.crash("ingest.objects_written", "ingest", "objects", world.objects[2]).code == KILLED
    home.match()
    before = [LogFile("requests", p) for p in world.requests] + [LogFile("objects", p) for p in world.objects[:2]]
    assert_as_the_twin(home, before, world.lateness_seconds)
    home.ingest("objects", world.objects[2:])
    home.match()
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_other_files_first_after_a_killed_ingest(tmp_path: Path) -> None:
    """The log has the order in which files were finished, not that in which they were started."""
    world = written(tmp_path / "files", 24, 3)
    home = home_for(tmp_path / "home", world)
    first, second, third = (LogFile("objects", p) for p in world.objects)
    home.ingest("requests", world.requests)
    home.ingest("objects", [first.path])
    assert home.crash("ingest.rejects_written", "ingest", "objects", second.path).code == KILLED
    home.ingest("objects", [third.path])
    home.ingest("objects", [second.path])
    home.match()
    requests = [LogFile("requests", p) for p in world.requests]
    orders = ([first, third, second], [first, second, third])
    wanted = [twin.outcome_of(requests + order, world.lateness_seconds).matches for order in orders]
    assert set(home.exported()) in wanted


def test_upkeep_between_a_killed_match_and_the_next(tmp_path: Path) -> None:
    """`maintain` drops subscriptions that ended before any object still to come, not those of an unfinished batch."""
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=60)
    point = {"lon": 1.0, "lat": 2.0, "text": "tea"}
    early, late = ({"object_id": f"o{n}", "ts": worlds.moment(100 * n), **point} for n in (0, 1))
    insertion = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 10, 10]}
    validity = {"created_at": worlds.moment(-1), "expires_at": worlds.moment(1)}
    objects = worlds.write_rows(tmp_path / "objects.jsonl", [early, late])
    requests = worlds.write_rows(tmp_path / "requests.jsonl", [insertion | validity])
    home.ingest("objects", [objects])
    home.match()
    home.ingest("requests", [requests])
    assert home.crash("match.indexed", "match").code == KILLED
    assert run_here("maintain", "--home", home.path).code in (0, 1, 2)
    home.match()
    assert [(o, s) for o, _, s in home.exported()] == [("o0", "s")]


def test_upkeep_between_a_killed_ingest_and_the_next(tmp_path: Path) -> None:
    """`maintain` compacts files of the killed ingest with older ones; its objects are no duplicates of themselves."""
    world = written(tmp_path / "files", 25, 3)
    home, undisturbed = (home_for(tmp_path / name, world) for name in ("killed", "undisturbed"))
    for one in (home, undisturbed):
        one.ingest("requests", world.requests)
        one.ingest("objects", world.objects[:1])
        one.ingest("objects", world.objects[1:2])
    undisturbed.ingest("objects", world.objects[2:])
    assert home.crash("ingest.objects_written", "ingest", "objects", world.objects[2]).code == KILLED
    assert home.run("maintain")["files_joined"] > 0
    home.ingest("objects", world.objects[2:])
    for one in (home, undisturbed):
        one.match()
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)
    assert home.run("check", "--all")["success"]


@pytest.mark.parametrize("step", ["started", "objects_written"])
def test_a_killed_ingest_is_finished_as_it_was_begun(tmp_path: Path, step: str) -> None:
    """An ingest is finished although its file is gone and the settings have changed."""
    world = written(tmp_path / "files", 26, 3)
    home = home_for(tmp_path / "home", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects[:2])
    landed = tmp_path / f"landed{''.join(world.objects[2].suffixes)}"
    landed.write_bytes(world.objects[2].read_bytes())
    assert home.crash(f"ingest.{step}", "ingest", "objects", landed).code == KILLED
    landed.unlink()
    home.set(lateness_seconds=1)
    home.run("maintain")
    assert home.ingest("objects", world.objects[:2])["files_skipped"] == 2
    home.match()
    assert_as_the_twin(home, world.log, world.lateness_seconds)
    home.set(lateness_seconds=world.lateness_seconds)
    assert home.run("check", "--all")["success"]
