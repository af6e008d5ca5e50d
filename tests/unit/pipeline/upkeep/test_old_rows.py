"""`keep` removes old rows of the tables that it names; matches of what remains are those of a home that keeps all."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from pststream.base.utc_times import utc_now
from pststream.pipeline.upkeep import old_rows
from pststream.state.home import APPEND_ONLY
from tests import worlds
from tests.commands import Home, new_home
from tests.erased_homes import finish_world, marked_home, refuse_messages, twin_of
from tests.fuzz.cases import FIRST, TIMES

ALL = ("--keep", "objects=1d", "--keep", "matches=1d,rejects=1d", "--keep", "dead_letters=1d")


def object_times(home: Home) -> dict[str, int]:
    """Return the least time (microseconds) in the tables of objects and of matches."""
    rows = {
        name: DeltaTable(home.path / "tables" / name).to_pyarrow_table(columns=["ts"])
        for name in ("objects", "matches")
    }
    return {name: min(table.column("ts").cast("int64").to_pylist()) for name, table in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + TIMES))
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
    monkeypatch.setattr(old_rows, "utc_now", lambda: utc_now() + dt.timedelta(days=2))
    expired = home.run("maintain", "--keep", "rejects=1d", "--keep", "dead_letters=1d")["rows_expired"]
    assert expired == {"rejects": rejects, "dead_letters": letters}
    assert not home.rejects() and home.run("check", "--all")["success"]


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
