"""A home with answers, for tests that read it or break copies of it."""

import json
import random

import pytest

from tests.commands import Home
from tests.standing_worlds import standing_home, write_standing_world
from tests.unit.pipeline.term_reports.test_reports import some_requests

FILES = 4


@pytest.fixture(scope="session")
def home_with_answers(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with all kinds, term statistics, two snapshots and a batch after the last one; not to be changed."""
    folder = tmp_path_factory.mktemp("answers")
    world = write_standing_world(folder / "files", 31, FILES, objects=80, subscriptions=30)
    regions = folder / "regions.jsonl"
    regions.write_text("".join(json.dumps(row) + "\n" for row in some_requests(random.Random(31), 8)))
    home = standing_home(folder / "home", world)
    home.ingest("requests", [regions])
    for number, (requests, objects) in enumerate(zip(world.requests, world.objects, strict=True)):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        if number in (1, 3):
            home.run("term-statistics")
        home.match("--max-objects", "12")
        if number in (1, 2):
            home.run("maintain")
    return home
