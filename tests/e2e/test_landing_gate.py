"""Bad files of a landing folder are quarantined with their reasons, and good ones are ingested."""

from pathlib import Path
from typing import Any

import pytest

from pststream.state import quarantine
from tests import worlds
from tests.commands import Home, new_home, run_here
from tests.kill_and_rerun import table_of
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile

pytestmark = [pytest.mark.e2e]

ROWS = 20
BAD = {"lacking.csv", "damaged.parquet", "headless.csv"}


def rows_of(name: str, lacking: int = 0) -> list[dict[str, Any]]:
    row = {"lon": 1.0, "lat": 2.0, "text": "tea for two"}
    rows = [{"object_id": f"{name}-{n}", "ts": worlds.moment(n), **row} for n in range(ROWS)]
    return [row | {"lon": None} if n < lacking else row for n, row in enumerate(rows)]


def landing(folder: Path) -> Path:
    """Write two good files of objects, one of requests, three bad ones, and a broken link, which is ignored."""
    objects, requests = folder / "objects", folder / "requests"
    objects.mkdir(parents=True)
    requests.mkdir()
    asked = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 5, 5]}
    worlds.write_rows(requests / "requests.jsonl", [asked | {"created_at": worlds.moment(-1)}])
    worlds.write_rows(objects / "good.csv", rows_of("good"))
    worlds.write_rows(objects / "right.jsonl", rows_of("right", lacking=ROWS // 2))
    worlds.write_rows(objects / "lacking.csv", rows_of("lacking", lacking=ROWS // 2 + 1))
    (objects / "headless.csv").write_text("object_id,ts,text\na,b,c\n", "utf-8")
    (objects / "damaged.parquet").write_bytes(b"PAR1 and no more")
    (objects / "later.csv").symlink_to("not-there-yet.csv")
    return folder


def home_at(path: Path) -> Home:
    return new_home(path, planner="grid", workers=2, gate_min_rows=ROWS)


def named(holds: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {Path(hold["path"]).name: hold for hold in holds}


def listed(home: Home, *options: str) -> dict[str, dict[str, Any]]:
    return named(home.run("quarantine", "list", *options)["quarantine"])


def expected(folder: Path, *names: str) -> set[Any]:
    log = [LogFile("objects", folder / "objects" / name) for name in names]
    return twin.outcome_of([LogFile("requests", folder / "requests" / "requests.jsonl"), *log], 86_400).matches


def test_bad_files_are_quarantined_and_good_ones_ingested(tmp_path: Path) -> None:
    folder, home = landing(tmp_path / "landing"), home_at(tmp_path / "home")
    result = home.run("run", folder, "--strict", code=3)
    objects = result["ingest"]["objects"]
    assert (objects["files"], objects["accepted"], objects["rejected"]) == (2, ROWS + ROWS // 2, ROWS // 2)
    assert set(named(objects["quarantined"])) == BAD
    assert result["ingest"]["requests"]["quarantined"] == []
    quarantined = listed(home)
    assert quarantined["lacking.csv"]["reasons"] == ["0.55 of the rows have no lon; at most 0.5 may"]
    assert "no column lon" in quarantined["headless.csv"]["reasons"][0]
    assert "not readable as Parquet" in quarantined["damaged.parquet"]["reasons"][0]
    assert set(home.exported()) == expected(folder, "good.csv", "right.jsonl")
    results = table_of(home, "quality_results").to_pyarrow_table().to_pylist()
    assert {Path(row["subject"]).name: row["success"] for row in results} == {
        "good.csv": True, "right.jsonl": True, **dict.fromkeys(BAD, False),
    }  # fmt: skip
    (judged,) = [row for row in results if row["subject"].endswith("lacking.csv")]
    figures = {one["name"]: one for one in judged["results"]}
    assert figures["missing_lon"] == {"name": "missing_lon", "value": 0.55, "success": False}
    again = home.run("run", folder)
    assert (again["ingest"]["objects"]["files"], again["ingest"]["objects"]["quarantined"]) == (0, [])

    # A release ingests the copy, even if the original has changed.
    (folder / "objects" / "lacking.csv").unlink()
    number = quarantined["lacking.csv"]["hold_id"]
    taken = home.run("quarantine", "release", str(number))
    assert (taken["accepted"], taken["rejects_by_reason"]) == (9, {"missing": 11})
    home.match()
    worlds.write_rows(folder / "objects" / "lacking.csv", rows_of("lacking", lacking=ROWS // 2 + 1))
    assert set(home.exported()) == expected(folder, "good.csv", "right.jsonl", "lacking.csv")
    assert home.run("quarantine", "release", str(number))["files"] == 0
    home.run("quarantine", "discard", str(number), code=2)

    # Discarded, and what cannot be released.
    home.run("quarantine", "release", str(quarantined["headless.csv"]["hold_id"]), code=2)
    gone = str(quarantined["damaged.parquet"]["hold_id"])
    assert len(home.run("quarantine", "discard", gone)["discarded"]) == 1
    home.run("quarantine", "release", gone, code=2)
    assert set(listed(home)) == {"headless.csv"}
    states = {name: hold["status"] for name, hold in listed(home, "--all").items()}
    assert states == {"headless.csv": "held", "lacking.csv": "released", "damaged.parquet": "discarded"}
    copies = [path.name for path in (home.path / "quarantine").glob("*/*")]
    assert copies == ["headless.csv"]
    assert home.run("run", folder)["ingest"]["objects"]["files"] == 0


def test_ingest_by_hand_refuses_what_cannot_be_read_and_holds_the_rest(tmp_path: Path) -> None:
    folder, home = landing(tmp_path / "landing") / "objects", home_at(tmp_path / "home")
    home.run("ingest", "objects", folder / "good.csv", folder / "headless.csv", code=2)
    assert home.run("rejects")["rejects"] == [] and listed(home, "--all") == {}
    result = home.run("ingest", "objects", folder / "good.csv", folder / "lacking.csv")
    assert (result["files"], len(result["quarantined"])) == (1, 1)
    text = run_here("quarantine", "list", "--home", home.path).out
    assert "lacking.csv" in text and "rows have no lon" in text
    home.run("quarantine", "release", code=2)
    home.run("quarantine", "release", "9", code=2)


def test_a_file_is_compared_with_those_before_it(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.set(gate_history=3, gate_volume_factor=2.0)
    files = [worlds.write_rows(tmp_path / f"{n}.csv", rows_of(str(n))) for n in range(3)]
    big = [row | {"object_id": f"{n}-{row['object_id']}"} for n in range(3) for row in rows_of("big")]
    large = worlds.write_rows(tmp_path / "large.csv", big)
    future = [row | {"ts": f"2190-01-01T00:00:{n:02}Z"} for n, row in enumerate(rows_of("future"))]
    ahead = worlds.write_rows(tmp_path / "ahead.csv", future)
    assert home.ingest("objects", files)["files"] == 3
    result = home.ingest("objects", [large, ahead])
    assert result["files"] == 0
    reasons = {name: hold["reasons"][0] for name, hold in named(result["quarantined"]).items()}
    assert reasons["large.csv"].startswith("it has 3 times the usual number of rows")
    assert "have an invalid ts" in reasons["ahead.csv"]


def test_a_file_that_is_still_being_written_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, home = landing(tmp_path / "landing"), home_at(tmp_path / "home")
    lacking, add_entries = folder / "objects" / "lacking.csv", quarantine.add_entries

    def written_meanwhile(*arguments: Any) -> Any:
        worlds.write_rows(lacking, rows_of("lacking"))
        return add_entries(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "add_entries", written_meanwhile)
        result = home.run("run", folder)["ingest"]["objects"]
    assert (result["files"], set(named(result["quarantined"]))) == (2, BAD - {"lacking.csv"})
    assert home.run("run", folder)["ingest"]["objects"]["accepted"] == ROWS
    assert set(home.exported()) == expected(folder, "good.csv", "right.jsonl", "lacking.csv")
