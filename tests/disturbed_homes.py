"""A small home on which commands were killed and run again, with retractions, an adjustment and an unfinished batch."""

from pathlib import Path

from tests.commands import KILLED, Home
from tests.kill_and_rerun import home_for, killed_then_run, written
from tests.unbalanced_homes import RESTLESS


def disturbed_home(path: Path) -> Home:
    """Make the home; its deletions are read after the objects that they concern."""
    world = written(path.parent / "files", 25, 4)
    home = home_for(path, world, engine="local", max_objects=40, **RESTLESS)
    killed_then_run(home, "ingest.requests_written", "ingest", "requests", world.requests[0])
    killed_then_run(home, "ingest.objects_written", "ingest", "objects", *world.objects[:2])
    killed_then_run(home, "match.matched", "match", "--until-empty")
    killed_then_run(home, "balance.indexed", "balance", "global", "--planner", "grid", "--apply")
    home.ingest("objects", world.objects[2:3])
    home.match()
    home.run("maintain")
    home.ingest("requests", world.requests[1:])
    killed_then_run(home, "match.matched", "match", "--until-empty")
    home.run("maintain")
    home.ingest("objects", world.objects[3:])
    assert home.crash("match.matched", "match").code == KILLED
    return home
