"""Make worlds and homes whose workers are always out of balance, for tests of load adjustment."""

import random
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, new_home
from tests.damage import allow_changes
from tests.oracles import twin
from tests.worlds import WrittenWorld

RESTLESS = {"sigma": 1.0001, "balance_batches": 1, "repartition_gain": 0.0}
"""Settings under which any load is out of balance and any new partitioning pays, so that small worlds are adjusted."""


FILES = 6
WORDS = ("coffee", "tea", "free", "cheap", "jazz", "park", "snow", "taxi")


def written(folder: Path, seed: int) -> WrittenWorld:
    """Write small regions and points concentrated in the west, with late ones, deletions and repeated insertions."""
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


class UnbalancedHome(Home):
    """A home whose recorded worker seconds grow with the square of the objects, because measured ones are noise."""

    def match(self, *options: str) -> Any:
        result = super().match(*options)
        write_uneven_loads(self)
        return result


def write_uneven_loads(home: Home) -> None:
    """Write seconds into the ledger that grow with the square of the worker's objects."""
    loads = allow_changes(State(home.path).table(names.UNIT_LOADS))
    loads.update({"cpu_seconds": "0.0001 + 0.000001 * objects * objects"}, predicate="unit = -1")


def home_for(path: Path, world: WrittenWorld, planner: str) -> UnbalancedHome:
    new_home(path, planner=planner, workers=4, lateness_seconds=world.lateness_seconds, **RESTLESS)
    return UnbalancedHome(path)


def assert_as_the_twin(home: Home, world: WrittenWorld) -> None:
    exported = home.exported()
    assert len(exported) == len(set(exported)), "a pair was delivered twice"
    assert set(exported) == twin.outcome_of(world.log, world.lateness_seconds).matches
