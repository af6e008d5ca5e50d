"""A home in a bucket gives the same matches as one in a folder, with any fault of the store and a kill at any step.

The store is a server process on loopback; all commands run as on a folder.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pststream
from pststream.api import OpenedHome
from pststream.engine.spark_session import s3a_folder, stop_spark
from pststream.storage.registry import files_at
from tests import unbalanced_homes, worlds
from tests.bad_store import BUCKET, Uploader
from tests.bucket_home import BucketHome, new_bucket_home, use
from tests.commands import KILLED, Home, run_apart, run_here
from tests.faulty_store import faulty_store
from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, written
from tests.moto_process import CREDENTIALS, s3_server
from tests.watcher_process import Watching, landing_folder
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


COMPARED = ("objects", "requests", "matches", "workers")
"""Figures of a comparison of planners that do not depend on time."""

ON_SPARK = os.environ.get("PSTSTREAM_ENGINE") == "spark"


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    """Yield the store's address, with a new Spark, because Python workers get their environment when Spark starts."""
    stop_spark()
    with s3_server() as url:
        yield url
        stop_spark()


@pytest.fixture(autouse=True)
def _empty_bucket(server: str) -> None:
    Uploader(server).new_bucket()


def reached(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point commands and Python workers to the store at a URL; return an unused address."""
    if ON_SPARK:
        stop_spark()  # its workers have the environment in which it started
    return use(url, monkeypatch)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    return written(tmp_path_factory.mktemp("world") / "files", 31, 3)


@pytest.fixture(scope="module")
def local(world: WrittenWorld, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Make the home in a folder that the others are compared with."""
    home = home_for(tmp_path_factory.mktemp("homes") / "local", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects)
    home.match()
    return home


@pytest.fixture
def home(server: str, world: WrittenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketHome:
    address = reached(server, monkeypatch)
    return new_bucket_home(address, tmp_path, planner="kd_tree", workers=3, lateness_seconds=world.lateness_seconds)


@pytest.mark.promise
def test_a_bucket_is_as_good_as_a_folder(home: BucketHome, local: Home, world: WrittenWorld, tmp_path: Path) -> None:
    """Run landed files, batches with deletions, plans, upkeep and all reading commands."""
    home.set(max_objects=20, merge_files=1)
    landing = tmp_path / "landing"
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        (landing / kind).mkdir(parents=True)
        (landing / kind / files[0].name).write_bytes(files[0].read_bytes())
    home.add_sink("file", kind="file", target=str(tmp_path / "messages"))
    taken = home.run("run", landing)
    assert len(taken["match"]["batches"]) > 1 and taken["deliver"]["sinks"]["file"]["state"] == "ok"
    home.run("plan", "--planner", "hybrid")
    for kind in ("requests", "objects"):
        home.ingest(kind, getattr(world, kind)[1:2])
    home.match()
    home.run("balance", "global", "--apply", code=0)
    for kind in ("requests", "objects"):
        home.ingest(kind, getattr(world, kind)[2:])
    home.match()
    assert home.run("maintain")["files_after"] > 0
    assert home.run("check", "--all")["success"]
    objects = files_at(home.path).names()
    assert home.run("replay", "--last", "2", "--planner", "grid")["matches_equal"]
    assert files_at(home.path).names() == objects
    assert home.run("deliver")["sinks"]["file"]["state"] == "ok"
    assert (home.exported(), home.rejects()) == (local.exported(), local.rejects())
    assert_as_the_twin(home, world.log, world.lateness_seconds)
    object_id, _, subscription_id = home.exported()[0]
    assert home.run("explain", object_id, subscription_id)["pairs"]
    assert home.run("status")["home"] == home.path
    home.run("report", "--out", tmp_path / "page.html")
    home.run("metrics", "--out", tmp_path / "metrics.prom")
    home.run("backup", "--out", tmp_path / "copy")
    assert_same_tables(Home(tmp_path / "copy"), home)
    before = stored_data(home)
    compared, twin = (one.run("plans", "compare", "--planners", "grid,text") for one in (home, Home(tmp_path / "copy")))
    assert {one["planner"] for one in compared["plans"]} == {"grid", "text"} and stored_data(home) == before
    assert [compared[name] for name in COMPARED] == [twin[name] for name in COMPARED] and compared["matches"] > 0
    assert not [name for name in files_at(home.path).names() if name.startswith(("staging/", "spool/"))]


@pytest.mark.deep
@pytest.mark.skipif(not any(s3a_folder().glob("*.jar")), reason="needs the jars of S3A: make s3a-jars")
def test_spark_keeps_the_gold_table_of_a_bucket(home: BucketHome, local: Home, world: WrittenWorld) -> None:
    """Append, delete what is retracted, compact and vacuum through S3A."""
    stop_spark()  # a server has the environment in which it started
    home.ingest("requests", world.requests[:1])
    home.ingest("objects", world.objects[:2])
    home.match()
    home.run("pairs")
    home.ingest("requests", world.requests[1:])
    home.ingest("objects", world.objects[2:])
    home.match()
    rows = home.run("pairs")["rows"]
    home.run("maintain")
    assert rows == len(local.exported()) > 0
    assert home.run("status")["pairs_table"]["behind"] == 0
    assert next(one for one in home.run("check")["checks"] if one["check"] == "gold")["success"]


def test_a_proposal_in_the_home_is_applied_by_another_process(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = unbalanced_homes.written(tmp_path / "files", 47)
    settings = {"planner": "grid", "workers": 4, "lateness_seconds": world.lateness_seconds}
    home = new_bucket_home(reached(server, monkeypatch), tmp_path, **settings, **unbalanced_homes.RESTLESS)
    home.ingest("objects", world.objects[:2])
    home.ingest("requests", world.requests[:2])
    home.match()
    files = [f"{home.path}/pages/{name}" for name in ("move.npz", "move.html", "replay.html")]
    proposal, page = ("--proposal", files[0]), ("--page", files[1])
    shown = home.run("balance", "global", "--planner", "hybrid", "--dry-run", *proposal, *page)
    assert shown["moves"] and "proposed, nothing changed yet" in files_at(home.path).read("pages/move.html").decode()
    assert home.run("replay", "--last", "1", *proposal, "--page", files[2])["matches_equal"]
    applied = run_apart("balance", "global", "--apply", *proposal, *page, "--home", home.path, "--json").json
    assert (applied["moves"], applied["plan_version_after"]) == (shown["moves"], 2)
    assert [f"{home.path}/{name}" for name in files_at(home.path).names("pages")] == sorted(files)
    home.ingest("objects", world.objects[2:])
    home.ingest("requests", world.requests[2:])
    home.match()
    unbalanced_homes.assert_as_the_twin(home, world)


def stored_data(home: BucketHome) -> list[str]:
    """Return the names of the data files of all tables; only fencing tokens of locks add entries to logs."""
    return [name for name in files_at(home.path).names("tables") if "/_delta_log/" not in name]


def test_withdraw_and_retry(home: BucketHome, tmp_path: Path) -> None:
    ahead, late = tmp_path / "ahead.jsonl", tmp_path / "late.jsonl"
    place = {"lon": 1.0, "lat": 1.0, "text": "coffee"}
    ahead.write_text(json.dumps(place | {"object_id": "ahead", "ts": "2026-05-01T00:00:00Z"}))
    late.write_text(json.dumps(place | {"object_id": "late", "ts": "2026-03-01T00:00:00Z"}))
    home.ingest("objects", [ahead])
    home.ingest("objects", [late])
    home.run("withdraw", "--object-id", "ahead")
    retry = ("ingest", "objects", "--retry-rejects", "late")
    assert home.crash("ingest.started", *retry).code == KILLED
    assert home.run(*retry)["retried"] == 0
    assert (home.run("status")["watermark"], home.run("status")["totals"]["objects"]) == ("2026-03-01T00:00:00Z", 2)
    assert not [name for name in files_at(home.path).names() if name.startswith(("retries/", "staging/"))]
    assert home.run("check")["success"]


def test_python_reads_a_home_in_a_bucket(home: BucketHome, local: Home, world: WrittenWorld) -> None:
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects)
    home.match()
    there, here = pststream.open(local.path), pststream.open(home.path)
    assert there.matches().num_rows > 0
    columns = ["object_id", "subscription_id", "ts", "batch_id", "payload"]
    assert pairs(here, columns) == pairs(there, columns)
    middle = there.matches().column("ts").sort()[there.matches().num_rows // 2].as_py()
    assert 0 < here.matches(since=middle).num_rows == there.matches(since=middle).num_rows
    assert here.objects() == there.objects()
    assert sum(batch.num_rows for batch in here.objects_reader()) == there.objects().num_rows
    assert here.requests() == there.requests()
    assert here.tables["matches"] == f"{home.path}/tables/matches"
    assert pststream.open(home.path.replace("s3://", "s3a://")).objects() == there.objects()


def pairs(home: OpenedHome, columns: list[str]) -> list[tuple[object, ...]]:
    """Return columns of the matches in a fixed order: workers may be others, and so the order within a batch."""
    return sorted(tuple(row.values()) for row in home.matches().select(columns).to_pylist())


def test_a_watcher_keeps_its_home_in_a_bucket(
    home: BucketHome, local: Home, world: WrittenWorld, tmp_path: Path
) -> None:
    """The heartbeat and the lease of the runner are in the bucket too; upkeep runs in between."""
    landing = landing_folder(tmp_path / "landing")
    with Watching(home, landing) as watching:
        landed = [("requests", file) for file in world.requests] + [("objects", file) for file in world.objects]
        for number, (kind, file) in enumerate(landed):
            watching.land(kind, file)
            watching.until_idle(number + 1)
        refused = run_here("run", landing, "--home", home.path, "--json")
        assert (refused.code, refused.json["kind"]) == (1, "RunnerBusy")
        assert home.run("maintain")["files_after"] > 0
        assert home.run("status")["watcher"]["alive"]
        code, document, _ = watching.end()
    assert (code, document["batches"], document["failures"]) == (0, len(landed), 0)
    assert home.run("status")["watcher"]["state"] == "stopped"
    assert (home.exported(), home.rejects()) == (local.exported(), local.rejects())
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_a_held_file_is_released(home: BucketHome, world: WrittenWorld, tmp_path: Path) -> None:
    """The copy is in the bucket, and is fetched when the file is released."""
    home.set(gate_min_rows=1, gate_bad_share=0.01)
    bad = tmp_path / "bad.jsonl"
    good = {"object_id": "o", "ts": "2026-03-01T00:00:00Z", "lon": 1.0, "lat": 2.0, "text": "tea"}
    bad.write_text("".join(json.dumps(row) + "\n" for row in (good, {"object_id": "p"})))
    (hold,) = home.ingest("objects", [bad])["quarantined"]
    bad.unlink()
    assert files_at(home.path).names("quarantine") == [f"quarantine/{hold['hold_id']}/bad.jsonl"]
    assert home.run("quarantine", "release", str(hold["hold_id"]))["accepted"] == 1
    assert files_at(home.path).names("quarantine") == []


def test_a_backup_in_its_place_takes_what_landed_since(server: str, home: BucketHome, tmp_path: Path) -> None:
    """The node remembers finished manifests after the log that records them is gone."""
    uploader, landing, backup = Uploader(server), f"{home.path}-landing", tmp_path / "backup"
    home.run("backup", "--out", backup)
    folder = f"{landing.removeprefix(f's3://{BUCKET}/')}/objects"
    content = json.dumps({"object_id": "a", "ts": worlds.moment(1), "lon": 1.0, "lat": 2.0, "text": "tea"}).encode()
    etag = uploader.put(f"{folder}/_1/a.jsonl", content)
    manifest = {"files": [{"key": "_1/a.jsonl", "etag": etag, "size": len(content)}]}
    uploader.put(f"{folder}/_manifests/1.json", json.dumps(manifest).encode())
    time.sleep(1.1)
    assert home.run("run", landing)["ingest"]["objects"]["files"] == 1
    assert home.run("run", landing)["ingest"]["objects"]["files_skipped"] == 1
    files = files_at(home.path)
    files.delete(files.names())
    for path in backup.rglob("*"):
        if path.is_file():
            files.write(path.relative_to(backup).as_posix(), path.read_bytes())
    again = home.run("run", landing)["ingest"]["objects"]
    assert (again["files"], again["pending"]) == (1, [])


def test_killed_at_a_step_and_run_again(home: BucketHome, local: Home, world: WrittenWorld) -> None:
    """Each next command continues at once, because the lock of a process on this machine ends with it."""
    home.ingest("requests", world.requests)
    assert home.crash("ingest.objects_written", "ingest", "objects", *world.objects).code == KILLED
    home.ingest("objects", world.objects)
    for step in ("match.indexed", "match.matched"):
        assert home.crash(step, "match").code == KILLED
    home.match()
    assert_same_tables(home, local)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_a_store_that_misbehaves(
    home: BucketHome, local: Home, world: WrittenWorld, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some requests are refused; commands that fail are run again."""
    ingests = [("ingest", "requests", *world.requests), ("ingest", "objects", *world.objects)]
    with faulty_store(server, 7, 0.01) as store:
        reached(store.url, monkeypatch)
        for command in [*ingests, ("match",), ("status",)]:
            assert any(comes_through(home, *command) for _ in range(60)), command
    reached(server, monkeypatch)
    assert store.faults > 3
    assert_same_tables(home, local)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def comes_through(home: BucketHome, *command: str | Path) -> bool:
    """Whether a command was done; assert that a failed one may be run again and that no output has a secret."""
    result = run_here(*command, "--home", home.path, "--json")
    said = result.out + result.err
    assert result.code in (0, 1), said
    assert not [secret for secret in CREDENTIALS.values() if len(secret) > 12 and secret in said]
    return result.code == 0


def test_what_a_bucket_does_not_do_is_refused(home: BucketHome, tmp_path: Path) -> None:
    home.run("backup", "--out", "s3://elsewhere/backup", code=2)
    assert run_here("demo", "--out", "s3://elsewhere/demo").code == 2
