"""Objects with a time ahead of the clock: rejected from the first file on; the watermark stays near the clock."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests.commands import Home, new_home

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def file_of(path: Path, times: dict[str, dt.datetime], **fields: Any) -> Path:
    """Write a file of objects with these ids and times."""
    rows = [
        {"object_id": name, "ts": ts.isoformat(), "lon": 1.0, "lat": 2.0, "text": "coffee"} | fields
        for name, ts in times.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def home_at(folder: Path, **settings: Any) -> Home:
    return new_home(folder / "home", engine="local", workers=2, **settings)


def test_a_row_ahead_of_the_clock_makes_no_other_row_late(tmp_path: Path) -> None:
    """In 21 rows of a first file one is six days ahead; the rows of the next file are not late."""
    home = home_at(tmp_path, lateness_seconds=3600)
    first = file_of(tmp_path / "1.jsonl", {f"a{n}": NOW for n in range(20)} | {"ahead": NOW + 6 * DAY})
    result = home.ingest("objects", [first])
    assert (result["accepted"], result["rejects_by_reason"]) == (20, {"future": 1})
    assert home.ingest("objects", [file_of(tmp_path / "2.jsonl", {f"b{n}": NOW for n in range(20)})])["accepted"] == 20
    (reject,) = home.run("rejects")["rejects"]
    assert (reject["row"], reject["field"], reject["reason"]) == (21, "ts", "future")
    assert home.run("status")["watermark"] == NOW.isoformat().replace("+00:00", "Z")
    (stored,) = read_rejects(home)
    assert stored["record"]["object_id"] == "ahead" and stored["record"]["ts"] == NOW + 6 * DAY


def read_rejects(home: Home) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(State(home.path).table("rejects")).to_pylist()
    return rows


def test_the_setting_moves_the_bound_and_file_after_file_cannot(tmp_path: Path) -> None:
    home = home_at(tmp_path, max_ahead_seconds=86_400 * 2)
    times = [NOW + n * DAY for n in range(1, 6)]
    files = [file_of(tmp_path / f"{n}.jsonl", {f"o{n}": ts}) for n, ts in enumerate(times)]
    accepted = [home.ingest("objects", [file])["accepted"] for file in files]
    assert accepted == [1, 1, 0, 0, 0]
    home.set(max_ahead_seconds=0)
    far = file_of(tmp_path / "far.jsonl", {"far": NOW + 900 * DAY})
    assert home.ingest("objects", [far])["accepted"] == 1


def test_an_interrupted_ingest_is_judged_by_the_clock_and_the_setting_of_its_beginning(tmp_path: Path) -> None:
    home = home_at(tmp_path)
    file = file_of(tmp_path / "1.jsonl", {"now": NOW, "ahead": NOW + 6 * DAY})
    home.crash("ingest.started", "ingest", "objects", file)
    home.set(max_ahead_seconds=0)
    assert home.run("ingest", "objects", file)["files_skipped"] == 1
    assert home.rejects() == {("objects", "future"): 1}


def test_status_and_check_report_a_watermark_that_is_ahead(tmp_path: Path) -> None:
    home = home_at(tmp_path, max_ahead_seconds=0)
    home.ingest("objects", [file_of(tmp_path / "1.jsonl", {"ahead": NOW + 6 * DAY})])
    home.match()
    assert home.run("status")["watermark_ahead_seconds"] == 0 and home.run("check")["success"]
    home.set(max_ahead_seconds=3600)
    ahead = 6 * 86_400 - 3600
    # The tests were collected up to an hour ago, and NOW with them.
    assert ahead - 3600 < home.run("status")["watermark_ahead_seconds"] <= ahead
    ledger = next(one for one in home.run("check", code=1)["checks"] if one["check"] == "ledger")
    assert ledger["figures"]["watermark_ahead"] > 0 and "withdraw" in ledger["failed"][0]


def test_large_files_of_a_wrong_clock_are_quarantined(tmp_path: Path) -> None:
    home = home_at(tmp_path, gate_min_rows=10)
    wrong = file_of(tmp_path / "1.jsonl", {f"o{n}": NOW + 5 * HOUR for n in range(20)})
    (hold,) = home.ingest("objects", [wrong])["quarantined"]
    assert hold["reasons"] == ["1 of the rows have an invalid ts; at most 0.5 may"]
    home.set(max_ahead_seconds=86_400)
    assert home.run("quarantine", "release", str(hold["hold_id"]))["accepted"] == 20
