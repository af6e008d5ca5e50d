"""A power cut at any flush of init, a plan after a killed one, maintain or backup is cured by a second run.

The model of the disk is that of test_power_cut.py. PSTSTREAM_FUZZ_TIMES: as many cuts.
"""

import json
import shutil
from pathlib import Path

import pytest

from pststream.base import names
from pststream.state.home import Home as State
from pststream.state.tables import TABLES
from tests.commands import KILLED, Home, run_here
from tests.flushed_disk import assert_cured
from tests.kill_and_rerun import assert_same_tables, home_for, table_of, written
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.deep]

CUTS = 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    return written(tmp_path_factory.mktemp("power") / "files", 25, 2)


@pytest.fixture(scope="module")
def made(world: WrittenWorld, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with two batches; a test copies it."""
    home = home_for(tmp_path_factory.mktemp("power") / "home", world, engine="local", retention_days=3)
    for place in range(2):
        home.ingest("requests", world.requests[place : place + 1])
        home.ingest("objects", world.objects[place : place + 1])
        home.match()
    return home


@pytest.fixture
def home(made: Home, tmp_path: Path) -> Home:
    shutil.copytree(made.path, tmp_path / "home")
    return Home(tmp_path / "home")


def versions_in(home: Home, table: str, column: str) -> dict[int, int]:
    """The number of rows of each version."""
    values = table_of(home, table).to_pyarrow_table(columns=[column]).column(column).to_pylist()
    return {value: values.count(value) for value in sorted(set(values))}


def test_init(tmp_path: Path, world: WrittenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    home = Home(tmp_path / "disk" / "home")

    def judge() -> None:
        State(home.path).check()
        assert home.ingest("objects", world.objects[:1])["accepted"] > 0

    assert_cured(tmp_path / "disk", CUTS, lambda: home.run("init"), judge, monkeypatch)


def test_a_plan_after_a_killed_one(made: Home, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ("plan", "--planner", "grid")
    assert home.crash("plan.indexed", *plan).code == KILLED
    before = versions_in(home, names.PLAN_UNITS, "plan_version")

    def judge() -> None:
        now = versions_in(home, names.PLAN_UNITS, "plan_version")
        newest = max(now)
        assert newest in (max(before), max(before) + 1), "a plan that was put in force is followed by another"
        assert home.run("plans", "show")["plan_version"] == newest
        assert set(versions_in(home, names.WORKER_INDEX, "index_version")) == {newest}
        assert home.run("check")["success"] and home.exported() == made.exported()

    assert_cured(home.path, CUTS, lambda: home.run(*plan), judge, monkeypatch)


def test_maintain(made: Home, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge() -> None:
        assert home.run("check")["success"]
        assert_same_tables(home, made)
        for name in TABLES:
            properties = table_of(home, name).metadata().configuration
            assert properties["delta.deletedFileRetentionDuration"] == "interval 3 days", name

    assert_cured(home.path, CUTS, lambda: home.run("maintain"), judge, monkeypatch)


def test_withdraw_and_retry(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry that a cut leaves unfinished is finished by the next command, which then has nothing to retry."""
    newest = home.run("status")["watermark"]
    withdrawn = home.run("withdraw", "--from", newest, "--dry-run")["objects"]
    ahead, late = tmp_path / "ahead.jsonl", tmp_path / "late.jsonl"
    place = {"lon": 1.0, "lat": 1.0, "text": "coffee"}
    ahead.write_text(json.dumps(place | {"object_id": "ahead", "ts": "2026-05-01T00:00:00Z"}))
    late.write_text("".join(json.dumps(place | {"object_id": f"late-{n}", "ts": newest}) + "\n" for n in range(3)))
    home.ingest("objects", [ahead])
    assert home.ingest("objects", [late])["rejects_by_reason"] == {"late": 3}
    before = home.run("status")["totals"]["objects"]

    def work() -> None:
        home.run("withdraw", "--object-id", "ahead")
        home.run("ingest", "objects", "--retry-rejects", "late")

    def judge() -> None:
        status = home.run("status")
        assert (status["totals"]["objects"], status["watermark"]) == (before + 3, newest)
        assert home.run("withdraw", "--from", newest, "--dry-run")["objects"] == withdrawn + 3
        home.match()
        assert home.run("check", "--all")["success"]

    assert_cured(home.path, 2 * CUTS, work, judge, monkeypatch)


def test_backup(made: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cut leaves is no home, or a whole one: whoever has a copy that opens can restore it."""
    (tmp_path / "disk").mkdir()
    copy = Home(tmp_path / "disk" / "copy")

    def judge() -> None:
        assert_same_tables(copy, made)
        assert copy.run("check")["success"]

    def back_up() -> None:
        if copy.path.exists():
            if run_here("status", "--home", copy.path).code == 0:
                return judge()
            shutil.rmtree(copy.path)
        made.run("backup", "--out", copy.path)

    assert_cured(tmp_path / "disk", 2 * CUTS, back_up, judge, monkeypatch)
