"""Deduplication gives the same verdicts in one part and in many, by full reads, by id lookups and by id indexes."""

from pathlib import Path

import pytest

from pststream.pipeline.ingest import deduplicate
from tests import worlds
from tests.commands import new_home
from tests.oracles import twin
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
