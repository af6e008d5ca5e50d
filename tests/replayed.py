"""Make homes to replay, and snapshots that show whether a command changed a home."""

import hashlib
from pathlib import Path
from typing import Any

from tests.commands import Home
from tests.unbalanced_homes import UnbalancedHome, home_for, written
from tests.worlds import WrittenWorld


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return the time of the last change, the size and the digest of each file; of a folder only the time."""
    state = {}
    for path in sorted(folder.rglob("*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        state[str(path)] = (path.stat().st_mtime_ns, path.stat().st_size if digest else 0, digest)
    return state


def replayed(home: Home, *arguments: str | Path, code: int = 0) -> Any:
    """Replay, check that the home did not change, and return the document."""
    before = snapshot(home.path)
    document = home.run("replay", *arguments, code=code)
    assert snapshot(home.path) == before
    return document


def ingest_and_match(home: Home, world: WrittenWorld, number: int) -> None:
    """Ingest a file of each kind, and match them as one batch."""
    home.ingest("objects", [world.objects[number]])
    home.ingest("requests", [world.requests[number]])
    home.match()


def changing_home(folder: Path) -> tuple[UnbalancedHome, WrittenWorld]:
    """Make a home with six batches, late rows, deletions and retractions, under six plans.

    After batch 2 two plans are active, after batch 3 cells migrate, after batch 4 the older plan is retired, and after
    batch 5 the subscriptions migrate to a plan with another number of workers. The tables are compacted after batch 4.
    """
    world = written(folder / "files", 51)
    home = home_for(folder / "home", world, "grid")
    for number in range(6):
        ingest_and_match(home, world, number)
        if number == 1:
            assert home.run("balance", "global", "--planner", "hybrid", "--apply")["moves"]
        if number == 2:
            home.run("balance", "local", "--apply")
        if number == 3:
            assert home.run("balance", "retire", "--apply")["moves"]
            home.run("maintain")
        if number == 4:
            home.run("plan", "--planner", "frequency", "--workers", "3")
    return home, world
