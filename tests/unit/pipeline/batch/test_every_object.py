"""Subscriptions without keywords: every object in the region, also one without a word, whatever the plan and order."""

import random
from pathlib import Path

import numpy as np
import pytest

from pststream.base import names
from pststream.matching.matcher import add_every_object
from tests import worlds
from tests.commands import Home, new_home
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile
from tests.worlds import WrittenWorld


def written_world(folder: Path, seed: int) -> WrittenWorld:
    """A world in which a third of the insertions have no keywords and a fifth of the objects no word."""
    world, rnd = worlds.random_world(seed), random.Random(seed)
    for row in (row for rows in world.request_files for row in rows):
        if row.get("op") == "insert" and row["keywords"] and rnd.randrange(3) == 0:
            row["keywords"] = None
    for row in (row for rows in world.object_files for row in rows):
        if rnd.randrange(5) == 0:
            row["text"] = ""
    folder.mkdir()
    return worlds.write_world(folder, world, seed)


def log_of(world: WrittenWorld) -> list[LogFile]:
    return [LogFile(kind, path) for kind in ("requests", "objects") for path in getattr(world, kind)]


@pytest.mark.parametrize(("seed", "planner"), [(1, "kd_tree"), (2, "hybrid"), (3, "frequency")])
def test_matches_are_those_of_the_twin(seed: int, planner: str, tmp_path: Path) -> None:
    world = written_world(tmp_path / "files", seed)
    home = new_home(
        tmp_path / "home", planner=planner, workers=3, engine="local", lateness_seconds=world.lateness_seconds
    )
    for kind in ("objects", "requests")[:: 1 if seed % 2 else -1]:
        for number, file in enumerate(getattr(world, kind)):
            home.ingest(kind, [file])
            if number == 1:
                home.run("plan")
                home.match("--max-objects", "40")
    home.match("--max-objects", "40")
    wanted = twin.outcome_of(log_of(world), world.lateness_seconds).matches
    exported = home.exported()
    assert len(exported) == len(set(exported)) and set(exported) == wanted
    assert home.run("check", "--all")["success"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """An object without a word in the region of a subscription for every object, which is younger than the object."""
    folder = tmp_path_factory.mktemp("every")
    made = new_home(folder / "home", planner="kd_tree", engine="local", workers=2)
    box = {"op": "insert", "created_at": worlds.moment(0), "bbox": [0.0, 0.0, 2.0, 2.0]}
    things = [{"object_id": "mute", "ts": worlds.moment(1), "lon": 1.0, "lat": 1.0, "text": "!"}]
    things.append({"object_id": "away", "ts": worlds.moment(1), "lon": 3.0, "lat": 1.0, "text": "tea"})
    made.ingest("objects", [worlds.write_rows(folder / "o.jsonl", things)])
    made.ingest("requests", [worlds.write_rows(folder / "r0.jsonl", [box | {"subscription_id": "t", "keywords": "x"}])])
    made.run("plan")
    made.match()
    made.ingest(
        "requests", [worlds.write_rows(folder / "r.jsonl", [box | {"subscription_id": "all", "keywords": "*"}])]
    )
    made.match()
    return made


def test_a_pair_is_explained(home: Home) -> None:
    explained = home.run("explain", "mute", "all")
    assert (explained["state"], explained["problem"]) == ("matched", None)
    assert explained["pairs"][0]["posting"]["word"] == "(every object)"
    assert explained["pairs"][0]["subscription"]["keywords"] is None
    assert home.run("explain", "away", "all")["condition"] == "region"
    assert home.run("explain", "mute", "t")["condition"] == "keywords"


def test_each_object_gets_the_term_once() -> None:
    every = names.EVERY_OBJECT
    offsets, terms = add_every_object(np.array([0, 2, 2, 4]), np.array([5, 7, every, 9]))
    assert offsets.tolist() == [0, 3, 4, 6] and terms.tolist() == [5, 7, every, every, 9, every]
    offsets, terms = add_every_object(np.array([0]), np.empty(0, np.int64))
    assert offsets.tolist() == [0] and len(terms) == 0
