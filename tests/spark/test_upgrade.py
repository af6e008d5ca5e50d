"""Homes of older formats: refused with the remedy, brought up step by step, and then as good as new ones."""

import json
import shutil
from pathlib import Path

import pytest

from pststream.state.home import FORMAT, OLDEST
from pststream.state.home import Home as State
from tests.commands import KILLED, Home, run_here
from tests.kill_and_rerun import assert_as_the_twin
from tests.old_homes import unpacked
from tests.oracles.delivery import expected_messages
from tests.oracles.twin_rows import LogFile

pytestmark = pytest.mark.spark


def format_of(home: Home) -> int:
    return int(json.loads((home.path / "home.json").read_text("utf-8"))["format"])


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_a_home_of_each_older_format_goes_on(format: int, tmp_path: Path) -> None:
    home = unpacked(format, tmp_path)
    refused = run_here("status", "--home", home.path)
    assert refused.code == 2 and "pststream upgrade" in refused.err
    assert home.run("upgrade") == {"format_before": format, "format": FORMAT}
    assert home.run("upgrade") == {"format_before": FORMAT, "format": FORMAT}
    home.match()
    log = [LogFile(path.name.split("-")[0], path) for path in sorted((tmp_path / "files").iterdir())]
    lateness = next(
        int(line.split(" = ")[1])
        for line in (home.path / "pststream.toml").read_text("utf-8").splitlines()
        if line.startswith("lateness_seconds = ")
    )
    assert_as_the_twin(home, log, lateness)
    again = home.run("ingest", "objects", *(f.path for f in log if f.kind == "objects"))
    assert (again["files"], again["quarantined"]) == (0, [])


def test_delivery_and_ingest_go_on(tmp_path: Path) -> None:
    """The sample's sink has 14 of the 27 messages of batch 1; new requests join those that have no kind."""
    home = unpacked(5, tmp_path)
    settings = home.path / "pststream.toml"
    settings.write_text(settings.read_text("utf-8").replace("/tmp/sample/sent", str(tmp_path / "sent")), "utf-8")
    home.run("upgrade")
    home.run("deliver")
    sent = [
        json.loads(line) for file in sorted((tmp_path / "sent").iterdir()) for line in file.read_text().splitlines()
    ]
    assert [m["id"] for m in sent] == [m["id"] for m in expected_messages(State(home.path))]
    assert len(sent) == 27
    request = {"op": "insert", "subscription_id": "new", "created_at": "2026-03-01T00:00:00Z", "keywords": "zzz"}
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps(request | {"bbox": [-180, -90, 180, 90]}) + "\n", "utf-8")
    assert home.ingest("requests", [more])["accepted"] == 1
    thing = {"object_id": "new", "ts": "2026-03-03T00:00:00Z", "lon": 1.0, "lat": 2.0, "text": "zzz"}
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps(thing) + "\n", "utf-8")
    home.ingest("objects", [one])
    home.match()
    assert [(o, s) for o, _, s in home.exported() if s == "new"] == [("new", "new")]
    assert home.run("check", "--all")["success"]


def test_killed_between_step_and_mark(tmp_path: Path) -> None:
    home = unpacked(OLDEST, tmp_path)
    assert home.crash("upgrade.stepped", "upgrade").code == KILLED
    assert format_of(home) == OLDEST
    home.run("upgrade")
    assert home.run("status")["totals"]["objects"] > 0


def test_a_home_that_cannot_be_upgraded_is_refused(tmp_path: Path) -> None:
    home = unpacked(OLDEST, tmp_path)
    mark = home.path / "home.json"
    content = json.loads(mark.read_text("utf-8"))
    for changed, said in (({"format": 1}, "into a new home"), ({"format": FORMAT + 1}, "newer version")):
        mark.write_text(json.dumps(content | changed), "utf-8")
        result = run_here("upgrade", "--home", home.path)
        assert result.code == 2 and said in result.err
    shutil.rmtree(home.path)
    assert run_here("upgrade", "--home", home.path).code == 2
