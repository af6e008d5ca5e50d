"""Hostile files of each kind land beside good ones: each gets its verdict, and every good row gets through."""

import json
from pathlib import Path

import pytest

from benchmarks.support.hostile_files import CATALOGUE, QUARANTINED, SKIPPED, HostileFile, Rows, find_wrong_verdicts
from pststream.input import input_files
from pststream.state.home import Home as State
from tests.commands import Home, new_home, run_here
from tests.fuzz.cases import cases, trying

TIME = "2026-03-01T12:00:00Z"
GOOD_ROWS = 5


@pytest.fixture(autouse=True)
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "ALWAYS_ALLOWED_BYTES", 1 << 22)


def landing_folder(folder: Path) -> Path:
    """Make a landing folder with a subscription to the words of the good files."""
    for kind in ("objects", "requests"):
        (folder / kind).mkdir(parents=True)
    region = {"keywords": "good", "bbox": [0, 0, 9, 9], "created_at": "2026-01-01T00:00:00Z"}
    (folder / "requests" / "0.jsonl").write_text(json.dumps({"op": "insert", "subscription_id": "s"} | region) + "\n")
    return folder


def land_good_file(landing: Path, name: str) -> set[str]:
    """Write a file of good objects; return their ids."""
    ids = [f"{name}-{number}" for number in range(GOOD_ROWS)]
    rows = "".join(f"{one},{TIME},1,2,good\n" for one in ids)
    (landing / "objects" / f"{name}.csv").write_text(f"object_id,ts,lon,lat,text\n{rows}")
    return set(ids)


def home_at(path: Path) -> Home:
    return new_home(path, engine="local", workers=2, settle_seconds=0)


def matched(home: Home) -> list[str]:
    """The matched objects, with repeats."""
    return sorted(object_id for object_id, _, _ in home.exported())


def test_each_hostile_file_gets_its_verdict(tmp_path: Path) -> None:
    for case, rnd in cases("hostile files", 1):
        folder = tmp_path / str(case)
        landing, home = (
            landing_folder(folder / "landing"),
            new_home(folder / "home", engine="local", workers=2, settle_seconds=0),
        )
        good = land_good_file(landing, "first")
        home.run("run", landing)  # the watermark of the log, which an ancient row is behind
        landed: dict[str, HostileFile] = {}
        for number, file in enumerate(rnd.sample(CATALOGUE, len(CATALOGUE))):
            name = f"{number:03}-{file.name}"
            file.write(landing / file.kind / name, Rows(number, TIME))
            landed[name] = file
        good |= land_good_file(landing, "050-good") | land_good_file(landing, "zz-good")
        with trying(case):
            done = home.run("run", landing)
            assert find_wrong_verdicts(State(home.path), landed) == []
            assert matched(home) == sorted(good), "every good row gets through, once"
        skipped = {name for name, file in landed.items() if file.verdict == SKIPPED}
        assert {Path(path).name for path in done["ingest"]["objects"]["passed_over"]} == skipped
        for sort in home.run("quarantine", "list")["quarantine"], home.run("rejects", "--limit", "100")["rejects"]:
            assert sort
        again = home.run("run", landing)["ingest"]
        assert [again[kind]["files"] + len(again[kind]["quarantined"]) for kind in again] == [0, 0]


def test_what_people_see_of_hostile_names_and_texts_has_no_control_characters(tmp_path: Path) -> None:
    landing, home = (
        landing_folder(tmp_path / "landing"),
        new_home(tmp_path / "home", engine="local", workers=2, settle_seconds=0),
    )
    odd = [file for file in CATALOGUE if not file.name.isprintable() or file.name.startswith("controls")]
    for number, file in enumerate(odd):
        file.write(landing / file.kind / file.name, Rows(number, TIME))
    shown = run_here("run", landing, "--home", home.path)
    assert shown.code == 0 and len(odd) > 3
    for command in (("rejects",), ("status",), ("quarantine", "list"), ("report", "--out", tmp_path / "page.html")):
        one = run_here(*command, "--home", home.path)
        assert one.code == 0
        assert all(line.isprintable() for line in (one.out + one.err + shown.out + shown.err).splitlines())


def test_a_verdict_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local")
    landed = {file.name + str(place): file for place, file in enumerate(CATALOGUE)}
    wrong = find_wrong_verdicts(State(home.path), landed)
    assert len(wrong) == sum(file.verdict != SKIPPED for file in CATALOGUE)
    path = tmp_path / "x.csv"
    path.write_text(Rows(1, TIME).csv({"lon": 999}))
    home.ingest("objects", [path])
    by_reason = {file.reason: file for file in CATALOGUE if file.verdict != QUARANTINED}
    assert find_wrong_verdicts(State(home.path), {"x.csv": by_reason["future"]})
