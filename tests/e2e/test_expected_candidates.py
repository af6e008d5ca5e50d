"""A batch has about as many candidates as the setting allows, and the answers are those of any other cut."""

import json
import random
from pathlib import Path

import pytest

from pststream.state.home import Home as State
from pststream.tables.ledgers import read_batches
from tests import worlds
from tests.commands import Home
from tests.standing_worlds import StandingTwin, nearest, scored, standing_home

pytestmark = pytest.mark.e2e

OBJECTS, FIRST, MOST = 300, 10, 500


def write_cold_world(folder: Path) -> worlds.WrittenWorld:
    """Write subscriptions that lack objects at first, and the objects: a few, then the others."""
    rnd = random.Random(11)
    asked = []
    for number in range(60):
        row = rnd.choice((nearest, scored))(rnd, f"s{number}", 0) | {"k": rnd.choice((3, 20, 1000))}
        row |= {"expires_at": None, "created_at": worlds.moment(0)}
        asked.append(row | ({"window": "100d"} if row["kind"] == "topk" else {}))
    things = [
        {
            "object_id": f"o{number}",
            "ts": worlds.moment(number // 10),
            **dict(zip(("lon", "lat"), worlds.some_point(rnd))),
            "text": " ".join(rnd.sample(worlds.WORDS, 4)),
        }
        for number in range(OBJECTS)
    ]
    files = {"requests": asked, "first": things[:FIRST], "others": things[FIRST:]}
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return worlds.WrittenWorld([folder / "first.jsonl", folder / "others.jsonl"], [folder / "requests.jsonl"], 0)


def matched_home(path: Path, world: worlds.WrittenWorld, **settings: int) -> Home:
    """Match the first objects, then the others."""
    home = standing_home(path, world, **settings)
    home.ingest("requests", world.requests)
    for objects in world.objects:
        home.ingest("objects", [objects])
        home.match()
    return home


def test_a_cold_home_is_matched_in_batches_of_about_as_many_candidates(tmp_path: Path) -> None:
    world = write_cold_world(tmp_path)
    whole, cut = matched_home(tmp_path / "whole", world), matched_home(tmp_path / "cut", world, max_candidates=MOST)
    assert [batch["objects"] for batch in read_batches(State(whole.path))] == [FIRST, OBJECTS - FIRST]
    batches = read_batches(State(cut.path))
    counted = [sum(dict(batch["candidates"]).values()) for batch in batches]
    assert len(batches) > 5 and max(counted) <= 2 * MOST
    assert max(counted[1:-1]) >= MOST / 2, "batches are not much smaller than they need be"
    for home in (whole, cut):
        StandingTwin(home).assert_answers_after_each_batch()


def test_a_home_whose_objects_have_few_candidates_is_not_cut(tmp_path: Path) -> None:
    home = matched_home(tmp_path / "home", write_cold_world(tmp_path), max_candidates=OBJECTS * 60)
    assert len(read_batches(State(home.path))) == 2
