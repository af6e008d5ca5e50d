"""Homes of older formats: refused with the remedy, brought up step by step, and then as good as new ones."""

import json
import shutil
from pathlib import Path

import pytest

from pststream.state.home import FORMAT, OLDEST
from tests.commands import KILLED, Home, run_here
from tests.killing import assert_as_the_twin
from tests.old_homes import unpacked
from tests.oracles.twin import LogFile

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


def test_killed_between_step_and_mark(tmp_path: Path) -> None:
    home = unpacked(OLDEST, tmp_path)
    assert home.crash("upgrade.stepped", "upgrade").code == KILLED
    assert format_of(home) == OLDEST
    home.run("upgrade")
    assert home.run("status")["totals"]["objects"] > 0


def test_what_cannot_be_upgraded_is_told(tmp_path: Path) -> None:
    home = unpacked(OLDEST, tmp_path)
    mark = home.path / "home.json"
    content = json.loads(mark.read_text("utf-8"))
    for changed, said in (({"format": 1}, "into a new home"), ({"format": FORMAT + 1}, "newer version")):
        mark.write_text(json.dumps(content | changed), "utf-8")
        told = run_here("upgrade", "--home", home.path)
        assert told.code == 2 and said in told.err
    shutil.rmtree(home.path)
    assert run_here("upgrade", "--home", home.path).code == 2
