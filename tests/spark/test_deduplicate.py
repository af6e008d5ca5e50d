"""Deduplication gives the same verdicts in one part and in many, by full reads, by id lookups and by id indexes."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from pststream.pipeline.ingest import deduplicate
from tests import worlds
from tests.commands import new_home
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile
from tests.spark.test_invariance import by_rule


@pytest.mark.parametrize(
    ("max_lookup_rows", "min_indexed_rows"),
    [(0, 1), (deduplicate.MAX_LOOKUP_ROWS, 1), (deduplicate.MAX_LOOKUP_ROWS, deduplicate.MIN_INDEXED_ROWS)],
    ids=["full read", "id index", "id lookup"],
)
def test_parts_and_lookups_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_lookup_rows: int, min_indexed_rows: int
) -> None:
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    monkeypatch.setattr(deduplicate, "MAX_LOOKUP_ROWS", max_lookup_rows)
    monkeypatch.setattr(deduplicate, "MIN_INDEXED_ROWS", min_indexed_rows)
    world = worlds.write_world(tmp_path, worlds.random_world(41, objects=150, requests=150, files=3), 41)
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=world.lateness_seconds)
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        for file in files:
            home.ingest(kind, [file])
    wanted = dict(twin.outcome_of(world.log, world.lateness_seconds).rejected)
    assert {reason for _, reason in wanted} >= {"duplicate", "already_live"}
    assert by_rule(home) == wanted


@pytest.mark.parametrize("together", [False, True], ids=["file by file", "at once"])
def test_the_ids_of_an_owner_are_his_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """The rules hold within an owner, as if he had the request log for himself; ids are equal across owners."""
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    monkeypatch.setattr(deduplicate, "MIN_INDEXED_ROWS", 1)
    world = worlds.write_world(tmp_path, worlds.random_world(43, objects=10, requests=240, files=8), 43)
    owners = ("", "s", "s1")
    home, landing = new_home(tmp_path / "home"), tmp_path / "landing" / "requests"
    for place, path in enumerate(world.requests):
        owner = owners[place % 3]
        (landing / owner).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, landing / owner)
        if not together:
            home.ingest("requests", [path], "--owner", owner)
    if together:
        assert home.run("run", landing.parent)["ingest"]["requests"]["files"] == len(world.requests)
    logs = [[LogFile("requests", path) for path in world.requests[place::3]] for place in range(3)]
    wanted = sum((twin.outcome_of(log).rejected for log in logs), Counter[tuple[str, str]]())
    assert {reason for _, reason in wanted} >= {"already_live", "unknown_subscription"}
    assert by_rule(home) == wanted
    alone = twin.outcome_of([LogFile("requests", path) for path in world.requests]).rejected
    assert alone != wanted, "requests of one owner would have other rejects"
