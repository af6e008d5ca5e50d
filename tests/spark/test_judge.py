"""The log judges alike in one part and in many, with or without looking the stored ids up first, read or kept."""

from pathlib import Path

import pytest

from pststream.pipeline.ingest import deduplicate
from tests import worlds
from tests.commands import new_home
from tests.oracles import twin
from tests.spark.test_invariance import by_rule

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("probe", "kept"),
    [(0, 1), (deduplicate.PROBE_ROWS, 1), (deduplicate.PROBE_ROWS, deduplicate.KEPT_ROWS)],
    ids=["all", "kept", "read"],
)
def test_parts_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: int, kept: int) -> None:
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    monkeypatch.setattr(deduplicate, "PROBE_ROWS", probe)
    monkeypatch.setattr(deduplicate, "KEPT_ROWS", kept)
    world = worlds.write_world(tmp_path, worlds.random_world(41, objects=150, requests=150, files=3), 41)
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=world.lateness_seconds)
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        for file in files:
            home.ingest(kind, [file])
    wanted = dict(twin.outcome_of(world.log, world.lateness_seconds).rejected)
    assert {reason for _, reason in wanted} >= {"duplicate", "already_live"}
    assert by_rule(home) == wanted
