"""Which planner makes the plan of a home that has none, and that of the command `plan`."""

import json
from pathlib import Path

import pytest

from pststream.base import names
from tests.commands import new_home


@pytest.mark.parametrize(("chosen", "first"), [({}, names.FIRST_PLANNER), ({"planner": "uniform"}, "uniform")])
def test_the_first_batch_does_not_wait_for_a_choice(tmp_path: Path, chosen: dict[str, str], first: str) -> None:
    home, things = new_home(tmp_path / "home", engine="local", **chosen), tmp_path / "things.jsonl"
    rows = [{"object_id": str(n), "ts": "2026-01-01", "lon": n, "lat": 0, "text": "tea"} for n in range(5)]
    things.write_text("\n".join(map(json.dumps, rows)))
    home.ingest("objects", [things])
    home.match()
    assert home.run("plans", "list")["plans"][0]["planner"] == first


@pytest.mark.slow
def test_the_command_chooses_by_default(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local")
    made = home.run("plan", "--workers", "2")
    assert made["planner"] == names.AUTO and made["choice"]["planner"] == names.FIRST_PLANNER, "all are equal"
