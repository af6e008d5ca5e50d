"""`keep` removes old rows of the tables that it names; `maintain` removes old outcomes and names its snapshot."""

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.cli.result_texts import describe_maintenance
from pststream.pipeline.ingest import ingest_transaction
from pststream.pipeline.upkeep import old_rows
from pststream.pipeline.upkeep.maintain import delete_old_outcomes, maintain
from pststream.settings import load_settings
from pststream.state.data_files import list_data_files
from pststream.state.delta_log import APPEND_ONLY
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, new_home
from tests.erased_homes import finish_world, marked_home, refuse_messages, set_clock, twin_of
from tests.fuzz.cases import seeds
from tests.worlds import moment, write_rows

ALL = ("--keep", "objects=1d", "--keep", "matches=1d,rejects=1d", "--keep", "dead_letters=1d")


def object_times(home: Home) -> dict[str, int]:
    """Return the least time (microseconds) in the tables of objects and of matches."""
    rows = {
        name: DeltaTable(home.path / "tables" / name).to_pyarrow_table(columns=["ts"])
        for name in ("objects", "matches")
    }
    return {name: min(table.column("ts").cast("int64").to_pylist()) for name, table in rows.items()}


@pytest.mark.slow
@seeds(1)
def test_old_rows_go_and_the_others_match_as_before(tmp_path: Path, seed: int) -> None:
    world = worlds.random_world(200 + seed, objects=240, requests=160, files=6)
    (tmp_path / "files").mkdir()
    written = worlds.write_world(tmp_path / "files", world, seed)
    home = marked_home(tmp_path / "home", written)
    twin = twin_of(home)
    refuse_messages(home)
    before = home.exported()
    expired = home.run("maintain", *ALL)["rows_expired"]
    assert expired["objects"] > 20 and expired["matches"] > 5
    assert home.run("check", "--all")["success"]
    first = object_times(home)
    assert home.exported() == [pair for pair in before if pair[1] >= first["matches"]]
    assert home.run("maintain", *ALL)["rows_expired"] == {}  # the stream has not gone on
    finish_world(home, written)
    finish_world(twin, written)
    assert home.rejects() == twin.rejects()  # late rows and duplicates
    known = {(row["object_id"], row["ts"]) for row in rows_of(home, "objects")}
    stored = [pair for pair in twin.exported() if (pair[0], pair[1]) in known]
    assert [pair for pair in home.exported() if (pair[0], pair[1]) in known] == stored
    assert home.run("check", "--all")["success"]
    home.run("maintain", *ALL)
    assert home.run("check", "--all")["success"]
    properties = DeltaTable(home.path / "tables" / "matches").metadata().configuration
    assert properties[APPEND_ONLY] == "true"


def rows_of(home: Home, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, their times in microseconds."""
    table = DeltaTable(home.path / "tables" / name).to_pyarrow_table(columns=["object_id", "ts"])
    return table.set_column(1, "ts", table.column("ts").cast("int64")).to_pylist()


def test_rejects_and_dead_letters_stay_as_long_as_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = worlds.write_world(*world_in(tmp_path / "files"), 3)
    home = marked_home(tmp_path / "home", written)
    letters = refuse_messages(home)
    rejects = sum(home.rejects().values())
    home.run("maintain", "--keep", "rejects=1d", "--keep", "dead_letters=1d")
    assert sum(home.rejects().values()) == rejects > 0 and letters > 0
    assert DeltaTable(home.path / "tables" / "dead_letters").to_pyarrow_table().num_rows == letters
    set_clock(monkeypatch, utc_now() + dt.timedelta(days=2))
    expired = home.run("maintain", "--keep", "rejects=1d", "--keep", "dead_letters=1d")["rows_expired"]
    assert expired == {"rejects": rejects, "dead_letters": letters}
    assert not home.rejects() and home.run("check", "--all")["success"]


TWO_DAYS, YEARS = dt.timedelta(days=2), dt.timedelta(days=4_000)


@pytest.mark.promise
def test_a_clock_that_jumps_once_removes_nothing_too_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, now = marked_home(tmp_path / "home", worlds.write_world(*world_in(tmp_path / "files"), 3)), utc_now()
    keep = ("--keep", "objects=1000d,matches=1000d,rejects=1d")
    rejects = sum(home.rejects().values())

    def expired_at(clock: dt.datetime) -> dict[str, int]:
        monkeypatch.setattr(old_rows, "utc_now", lambda: clock)
        expired: dict[str, int] = home.run("maintain", *keep)["rows_expired"]
        return expired

    for jump in (YEARS, -YEARS, YEARS):  # the first time, no `maintain` has left its time
        assert expired_at(now + jump) == {}
        assert expired_at(now) == {}
    assert expired_at(now + TWO_DAYS) == {}, "as of the time before"
    assert expired_at(now + TWO_DAYS) == {"rejects": rejects}
    assert expired_at(now + YEARS) == {}
    assert set(expired_at(now + YEARS)) >= {"objects", "matches"}, "no jump"
    assert home.run("check", "--all")["success"]


@pytest.mark.parametrize("jump", [YEARS, -YEARS])
def test_an_ingest_with_a_wrong_time_is_as_old_as_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: dt.timedelta
) -> None:
    home, begin = new_home(tmp_path / "home", engine="local"), utc_now()
    for number, after in enumerate((dt.timedelta(0), jump, TWO_DAYS)):
        monkeypatch.setattr(ingest_transaction, "utc_now", lambda: begin + after)  # noqa: B023
        home.ingest("objects", [write_rows(tmp_path / f"{number}.jsonl", [{"object_id": str(number)}])])
    left = []
    for hours in (47, 71, 73):
        set_clock(monkeypatch, begin + dt.timedelta(hours=hours))
        home.run("maintain", "--keep", "rejects=1d")
        left.append(sum(home.rejects().values()))
    assert left == [2, 2, 0]


def world_in(folder: Path) -> tuple[Path, worlds.World]:
    """Return a folder that exists and a world to write there."""
    folder.mkdir()
    return folder, worlds.random_world(3, objects=120, requests=90, files=6)


def test_settings_that_break_a_promise_are_refused(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", lateness_seconds=3 * 86_400)
    for keep in (
        "objects=400d",
        "objects=30d,matches=60d",
        "matches=2d",
        "requests=9d",
        "objects=4",
        "matches=9d,matches=9d",
    ):
        assert home.run("maintain", "--keep", keep, code=2) is not None
    home.set(keep="objects=2d,matches=2d")
    assert "lateness" in home.run("status", code=2)["error"]
    home.set(keep="objects=30d,matches=30d")
    assert home.run("maintain")["rows_expired"] == {}


def test_the_snapshot_is_counted_and_shown(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=1, planner="grid")
    request = {"op": "insert", "subscription_id": "s", "kind": "knn", "k": 3, "keywords": "*"}
    things = [{"object_id": f"o{n}", "ts": moment(n), "lon": n, "lat": 0, "text": "tea"} for n in range(2)]
    home.ingest(
        "requests",
        [write_rows(tmp_path / "r.jsonl", [request | {"point": {"lon": 0, "lat": 0}, "created_at": moment(0)}])],
    )
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    messages: list[str] = []
    document = maintain(State(home.path), load_settings(home.path), messages.append)
    (file,) = list_data_files(State(home.path), names.ANSWERS)
    assert document["answer_snapshot"] == {"batch_id": 1, "rows": 2, "bytes": file.bytes}
    buckets = State(home.path).answer_buckets
    assert f"writing the snapshot of answers: 0 of {buckets} buckets" in messages
    assert describe_maintenance(document).endswith("; wrote the snapshot of answers after batch 1, 2 rows")
    again = home.run("maintain")
    assert again["answer_snapshot"] is None and "snapshot" not in describe_maintenance(again)


DAY = 86_400


def test_old_outcomes_are_deleted_with_the_folders_of_their_runs(tmp_path: Path) -> None:
    home = State(tmp_path)
    assert delete_old_outcomes(home, 7) == 0
    for run, days in (("old", 8), ("recent", 6)):
        home.files.write(f"{names.OUTCOMES}/dag/{run}/match-1.json", b"{}")
        past = time.time() - days * DAY
        os.utime(tmp_path / names.OUTCOMES / "dag" / run / "match-1.json", (past, past))
    assert delete_old_outcomes(home, 7) == 1
    assert [path.name for path in (tmp_path / names.OUTCOMES / "dag").iterdir()] == ["recent"]
    assert home.files.exists(f"{names.OUTCOMES}/dag/recent/match-1.json")
