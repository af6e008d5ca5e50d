"""Files in a bucket give the same tables as files in a folder, with any fault of the store and a kill at any step."""

import itertools
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import micro_batch
from pststream.base.utc_times import utc_now
from pststream.cli import doctor
from pststream.input import manifests
from pststream.pipeline.ingest import fetch_objects
from pststream.storage import aws, s3
from pststream.storage.contract import StoredObject
from tests import worlds
from tests.bad_store import BUCKET, BadStore, Uploader, bad_store, is_body, is_listing
from tests.commands import KILLED, Home, new_home, run_here
from tests.kill_and_rerun import (
    accepted_in_order,
    assert_as_the_twin,
    assert_same_tables,
    home_for,
    landed_log,
    table_of,
    written,
)
from tests.moto_process import CREDENTIALS, free_port, moto_only, s3_server
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

FILES = 4
LANDING = f"s3://{BUCKET}/in"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[BadStore, Uploader]]:
    """Run the store behind the proxy."""
    with s3_server() as url, bad_store(url) as store:
        yield store, Uploader(url)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenWorld:
    """Write files with good and bad rows."""
    return written(tmp_path_factory.mktemp("world") / "files", 31, FILES)


@pytest.fixture(scope="module")
def landing(world: WrittenWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same files into a landing folder, and one that is ignored."""
    folder = tmp_path_factory.mktemp("landing")
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        (folder / kind / "sub").mkdir(parents=True)
        for path in files:
            (folder / kind / "sub" / path.name).write_bytes(path.read_bytes())
    (folder / "objects" / "_left-out.csv").write_text("not read\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def undisturbed(world: WrittenWorld, landing: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Make a home that ingested the folder."""
    home = home_for(tmp_path_factory.mktemp("homes") / "undisturbed", world)
    assert home.run("run", landing)["ingest"]["objects"]["files"] == FILES
    return home


def use(store: BadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the standard chain to the proxy."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": store.url, "AWS_MAX_ATTEMPTS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "READ_SECONDS", 20)


@pytest.fixture
def store(servers: tuple[BadStore, Uploader], landing: Path, monkeypatch: pytest.MonkeyPatch) -> BadStore:
    """Reset the proxy, point the standard chain to it, and upload the landing folder."""
    use(servers[0], monkeypatch)
    servers[1].new_bucket()
    servers[1].put_folder(landing, "in")
    servers[0].recover()
    servers[0].page = 3
    return servers[0]


@pytest.fixture
def uploader(servers: tuple[BadStore, Uploader]) -> Uploader:
    """Make a producer."""
    return servers[1]


@pytest.fixture
def home(tmp_path: Path, world: WrittenWorld) -> Home:
    """Make a home that will ingest the bucket."""
    return home_for(tmp_path / "home", world)


def copies(home: Home) -> list[str]:
    """List the remaining copies."""
    return [path.name for path in (home.path / "spool").iterdir() if path.name != "learnt.json"]


def paths_of(home: Home, table: str) -> list[str]:
    """Return the paths in a ledger of files, in the order of the log."""
    column = "file_seq" if table == "files" else "hold_id"
    rows = table_of(home, table).to_pyarrow_table(columns=["path", column]).to_pylist()
    return list(dict.fromkeys(row["path"] for row in sorted(rows, key=lambda row: row[column])))


def run(home: Home, code: int = 0) -> tuple[dict[str, Any], str]:
    """Run the main job on the bucket; return the result for objects and the whole output, which must have no secret."""
    result = run_here("run", LANDING, "--home", home.path, "--json")
    said = result.out + result.err
    assert result.code == code, said
    assert not [secret for secret in CREDENTIALS.values() if secret in said and secret not in ("true", "eu-north-1")]
    return result.json["ingest"]["objects"] if code == 0 else {}, said


def by_job(home: Home, folder: Path) -> tuple[int, dict[str, Any]]:
    """Run the main job on the bucket as a DAG submits it; return exit code and outcome."""
    file = folder / "result.json"
    code = micro_batch.main([f"--home={home.path}", f"--landing={LANDING}", f"--result={file}"])
    return code, json.loads(file.read_text())


def assert_as_from_the_folder(home: Home, undisturbed: Home, landing: Path) -> None:
    assert_same_tables(home, undisturbed, (LANDING, landing))
    assert copies(home) == []


def as_listed(folder: Path) -> list[str]:
    """Return the addresses of the input files of a landing folder, in the order of the log."""
    return [
        f"{LANDING}/{path.relative_to(folder)}"
        for kind in ("requests", "objects")
        for path in sorted((folder / kind).rglob("*"), key=str)
        if path.is_file() and not path.name.startswith("_")
    ]


@pytest.mark.slow
def test_a_bucket_gives_what_a_folder_gives(
    store: BadStore, uploader: Uploader, home: Home, undisturbed: Home, landing: Path, tmp_path: Path
) -> None:
    uploader.put("in/objects/headless.csv", b"object_id,ts,text\na,b,c\n")
    output, _ = run(home)
    (hold,) = output["quarantined"]
    assert hold["path"] == f"{LANDING}/objects/headless.csv"
    assert output["files"] == FILES and output["files_pending"] == 0
    assert paths_of(home, "files") == as_listed(landing)
    assert paths_of(home, "quarantine") == [hold["path"]]
    assert {row[0] for row in accepted_in_order(home, "requests", "owner")} == {"sub"}, "the folder of the files"
    assert_as_from_the_folder(home, undisturbed, landing)
    read = [f"{LANDING}/{key.removeprefix('in/')}" for key in store.read_keys()]
    assert read == sorted([hold["path"], *as_listed(landing)]), "each body once"

    store.requests.clear()
    output, _ = run(home)
    assert (output["files"], output["files_skipped"], store.read_keys()) == (0, FILES + 1, [])
    (home.path / "spool" / "learnt.json").write_text("[")
    assert run(home)[0]["files_skipped"] == FILES + 1
    assert len(store.read_keys()) == 2 * FILES + 1
    assert home.run("ingest", "objects", landing / "objects")["files"] == 0, "known by its content"
    code, output = by_job(home, tmp_path)
    assert (code, output["result"]["ingest"]) == (0, {}), "nothing is new"
    assert_as_from_the_folder(home, undisturbed, landing)


def test_an_unreadable_kind_delays_no_other(store: BadStore, home: Home) -> None:
    store.fault = lambda method, target: 503 if is_body(method, target) and "/requests/" in target else None
    assert run_here("run", LANDING, "--home", home.path, "--json").code == 1
    assert {path.split("/")[4] for path in paths_of(home, "files")} == {"objects"}
    assert not home.run("status")["unfinished"] and home.run("status")["totals"]["batches"] > 0
    store.recover()
    run(home)
    assert {path.split("/")[4] for path in paths_of(home, "files")} == {"objects", "requests"}


def test_a_file_of_requests_that_cannot_be_copied_holds_back_its_owner_alone(
    store: BadStore, uploader: Uploader, tmp_path: Path
) -> None:
    home = new_home(tmp_path / "order", engine="local", workers=2)
    for owner in ("ada", "bob"):
        inserted = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 1, 1]}
        for name, line in (("1", inserted), ("2", {"op": "delete", "subscription_id": "s"})):
            line |= {"created_at" if name == "1" else "at": f"2026-03-01T00:00:0{name}Z"}
            uploader.put(f"order/requests/{owner}/{name}.jsonl", json.dumps(line).encode() + b"\n")
    store.fault = lambda method, target: 403 if is_body(method, target) and "ada/1" in target else None
    landing = LANDING.rpartition("/")[0] + "/order"
    assert home.run("run", landing)["ingest"]["requests"]["accepted"] == 2, "those of bob"
    store.recover()
    assert home.run("run", landing)["ingest"]["requests"]["accepted"] == 2


@pytest.mark.slow
def test_faults_are_outlasted(
    store: BadStore, home: Home, world: WrittenWorld, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three requests in ten fail: files that are left out come in a later run, and nothing comes twice."""
    draw = random.Random(5)
    monkeypatch.setattr(aws, "READ_SECONDS", 2)
    monkeypatch.setattr(store, "seconds", 3.0)
    monkeypatch.setattr(fetch_objects, "GROUP_BYTES", sum(path.stat().st_size for path in world.objects) // 2)
    monkeypatch.setattr(s3, "BODY_TRIES", 1)
    store.page = 1000
    faults, codes = Counter[int | str | None](), Counter[int]()

    def fault(method: str, target: str) -> int | str | None:
        drawn = draw.choice([503, "cut", 503, "cut", "hang"]) if draw.random() < 0.3 else None
        faults[drawn] += 1
        return drawn

    store.fault = fault
    while set(paths_of(home, "files")) != set(as_listed(landing)):
        result = run_here("run", LANDING, "--home", home.path, "--json")
        codes[result.code] += 1
        assert codes.total() < 200 and set(codes) <= {0, 1}, result.err
    assert faults.total() - faults[None] > 3
    store.recover()
    run(home)
    assert copies(home) == []
    log = landed_log(home, (*world.objects, *world.requests))
    assert_as_the_twin(home, log, world.lateness_seconds)


@pytest.mark.slow
def test_killed_at_a_step(store: BadStore, uploader: Uploader, home: Home, undisturbed: Home, landing: Path) -> None:
    """A killed ingest is finished from its copies, or from the bucket if these are gone."""
    assert home.crash("fetch.copied", "run", LANDING).code == KILLED
    assert len(copies(home)) == FILES
    assert home.crash("ingest.started", "run", LANDING).code == KILLED
    shutil.rmtree(home.path / "spool")
    shutil.rmtree(home.path / "staging")
    first = paths_of(home, "files")[0].removeprefix(f"s3://{BUCKET}/")
    content = (landing / first.removeprefix("in/")).read_bytes()
    uploader.put(first, b"something else")
    assert "is gone or has changed" in run(home, code=2)[1]
    uploader.put(first, content)
    assert home.crash("ingest.objects_written", "run", LANDING).code == KILLED
    uploader.new_bucket()
    assert run(home)[0]["files"] == 0
    assert_as_from_the_folder(home, undisturbed, landing)


def test_objects_that_were_copied_before_a_death_come_first(
    store: BadStore, uploader: Uploader, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else new objects at each start could keep a file that kills its reader from being read for the third time."""
    uploader.new_bucket()
    row = {"ts": worlds.moment(1), "lon": 1.0, "lat": 2.0, "text": "tea"}
    for name in "ba":
        uploader.put(f"in/objects/{name}.jsonl", json.dumps(row | {"object_id": name}).encode())
        if name == "b":
            assert home.crash("fetch.copied", "run", LANDING).code == KILLED
    monkeypatch.setattr(fetch_objects, "GROUP_BYTES", 1)
    assert run(home)[0]["files"] == 2
    assert paths_of(home, "files") == [f"{LANDING}/objects/{name}.jsonl" for name in "ba"]


@pytest.mark.slow
def test_objects_whose_copies_take_long_are_groups_of_their_own(
    store: BadStore, home: Home, undisturbed: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_objects, "FIRST_FILES", 1)
    monkeypatch.setattr(fetch_objects, "GROUP_SECONDS", -1)
    assert run(home)[0]["files"] == FILES
    of_files = table_of(home, "files").to_pyarrow_table(columns=["path", "ingest_id"]).to_pylist()
    assert paths_of(home, "files") == as_listed(landing)
    assert len({row["ingest_id"] for row in of_files}) == len({row["path"] for row in of_files})
    assert_as_from_the_folder(home, undisturbed, landing)


@pytest.mark.slow
def test_files_wait_for_their_manifest(store: BadStore, uploader: Uploader, home: Home) -> None:
    uploader.new_bucket()
    home.set(pending_seconds=0)
    row = {"ts": worlds.moment(1), "lon": 1.0, "lat": 2.0, "text": "tea"}
    contents = {name: json.dumps(row | {"object_id": name}).encode() for name in "abc"}
    etags = {name: uploader.put(f"in/objects/_1/{name}.jsonl", contents[name]) for name in "ab"}
    upload = uploader.begin("in/objects/_1/c.jsonl", contents["c"])
    time.sleep(1.1)
    output, said = run(home)
    reasons = {Path(one["path"]).name: one["reason"] for one in output["pending"]}
    assert output["files"] == 0
    assert reasons == {
        "a.jsonl": "no manifest lists it", "b.jsonl": "no manifest lists it",
        "c.jsonl": "its upload is not completed",
    }  # fmt: skip
    assert f"{LANDING}/objects/_1/a.jsonl: pending: no manifest lists it" in said

    where = {"Bucket": BUCKET, "Key": "in/objects/_1/c.jsonl", "UploadId": upload}
    part = {"PartNumber": 1, "ETag": uploader.s3.list_parts(**where)["Parts"][0]["ETag"]}
    etags["c"] = "not-yet"
    files = [{"key": f"_1/{name}.jsonl", "etag": etag, "size": len(contents[name])} for name, etag in etags.items()]
    uploader.put("in/objects/_manifests/1.json", json.dumps({"files": files}).encode())
    uploader.put("in/objects/single.jsonl", json.dumps(row | {"object_id": "single"}).encode())
    time.sleep(1.1)
    output, _ = run(home)
    assert (output["files"], output["accepted"]) == (1, 1), "pending files delay nothing else"
    assert {one["path"] for one in output["pending"]} == {f"{LANDING}/objects/_1/c.jsonl"}

    files[2]["etag"] = uploader.s3.complete_multipart_upload(**where, MultipartUpload={"Parts": [part]})["ETag"]
    uploader.put("in/objects/_manifests/1.json", json.dumps({"files": files}).encode())
    output, _ = run(home)
    assert (output["files"], output["accepted"], output["files_pending"]) == (3, 3, 0)
    for _ in range(2):
        store.requests.clear()
        assert run(home)[0]["files_skipped"] == 4
    assert store.read_keys() == [], "a manifest that is done with is not read again"

    uploader.s3.delete_object(Bucket=BUCKET, Key="in/objects/_1/a.jsonl")
    uploader.put("in/objects/copied.jsonl", json.dumps(row | {"object_id": "copied"}).encode())
    assert home.crash("fetch.copied", "run", LANDING).code == KILLED
    time.sleep(1.1)
    output, _ = run(home)
    assert (output["files"], output["pending"]) == (1, []), "files of a finished manifest may be removed"


@moto_only
def test_a_bucket_that_changes_while_it_is_looked_at(
    store: BadStore, uploader: Uploader, home: Home, landing: Path
) -> None:
    """Between two pages of the listing one file is added and two removed; before reading, one is replaced."""
    kinds = [path for path in as_listed(landing) if "/objects/" in path]
    first, gone, *_, last = [path.removeprefix(f"s3://{BUCKET}/") for path in kinds]
    pages, changes = itertools.count(), []

    def change(method: str, target: str) -> None:
        if is_listing(method, target) and "objects" in target and next(pages) == 1:
            uploader.put("in/objects/aaa.jsonl", b"")
            for key in (gone, last):
                uploader.s3.delete_object(Bucket=BUCKET, Key=key)
        if is_body(method, target) and target.partition("?")[0].endswith(first) and not changes:
            changes.append(uploader.put(first, (landing / first.removeprefix("in/")).read_bytes() + b"\n"))

    store.before = change
    output, _ = run(home)
    assert changes and next(pages) > 1
    assert {one["path"] for one in output["pending"]} == {kinds[0], kinds[1]}
    store.recover()
    output, _ = run(home)
    assert output["files_pending"] == 0
    there = {kinds[0], *kinds[2:-1], f"{LANDING}/objects/aaa.jsonl"}
    assert {path for path in paths_of(home, "files") if "/objects/" in path} == there


@moto_only
def test_odd_keys_are_reported_and_delay_nothing(
    store: BadStore, uploader: Uploader, home: Home, undisturbed: Home, landing: Path
) -> None:
    faults = {
        "nul\0.csv": "control characters",
        "unit\x1f.csv": "control characters",
        "n" * 252 + ".csv": "more than 255 bytes",
        "folder.csv/": "ends with /",
        "\ufffd.csv": "not UTF-8",
    }
    for key in faults:
        uploader.put(f"in/objects/{key}", b"object_id\n1\n")
    time.sleep(1.1)
    home.set(pending_seconds=0)
    output, said = run(home)
    pending = {one["path"].removeprefix(f"{LANDING}/objects/"): one["reason"] for one in output["pending"]}
    assert {key: reason for key, reason in faults.items() if reason not in pending.get(key, "")} == {}
    del pending["_left-out.csv"]
    assert len(pending) == len(faults) and output["files"] == FILES
    assert not set(said) & {"\0", "\x1f"}
    assert_as_from_the_folder(home, undisturbed, landing)
    assert "not UTF-8" in home.run("ingest", "objects", f"{LANDING}/objects/\ufffd.csv", code=2)["error"]


def test_objects_and_manifests_are_bounded(
    store: BadStore, uploader: Uploader, home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.set(pending_seconds=0, max_fetch_bytes=20_000)
    uploader.put("in/objects/large.csv", b"x" * 20_001)
    row = {"object_id": "a", "ts": worlds.moment(1), "lon": 1.0, "lat": 2.0, "text": "tea"}
    etag = uploader.put("in/objects/_1/a.jsonl", json.dumps(row).encode())
    content = json.dumps({"files": [{"key": "_1/a.jsonl", "etag": etag}]}).encode()
    uploader.put("in/objects/_manifests/1.json", content)
    uploader.put("in/objects/_manifests/2.json", b" " * 2_000)
    time.sleep(1.1)
    monkeypatch.setattr(fetch_objects, "MAX_MANIFESTS", 0)
    monkeypatch.setattr(fetch_objects.shutil, "disk_usage", lambda _: SimpleNamespace(free=3))
    assert "No space left" in run(home, code=1)[1]
    assert [one for one in store.read_keys() if "manifests" in one or "_1" in one or "large" in one] == []

    monkeypatch.undo()
    use(store, monkeypatch)
    monkeypatch.setattr(manifests, "MAX_MANIFEST_BYTES", 1_000)
    monkeypatch.setattr(fetch_objects, "MAX_MANIFEST_BYTES", 1_000)
    output, _ = run(home)
    reasons = {Path(one["path"]).name: one["reason"] for one in output["pending"]}
    assert reasons.keys() == {"large.csv", "2.json", "_left-out.csv"} and output["files"] == FILES + 1
    assert "20,001 bytes, more than the setting max_fetch_bytes" in reasons["large.csv"]
    assert "larger than 1000 bytes" in reasons["2.json"] and "in/objects/_manifests/2.json" not in store.read_keys()
    home.set(max_fetch_bytes=20_001)
    assert [Path(one["path"]).name for one in run(home)[0]["quarantined"]] == ["large.csv"]


def test_some_of_too_many_manifests_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_objects, "MAX_MANIFESTS", 3)
    monkeypatch.setattr(fetch_objects, "MAX_MANIFESTS_BYTES", 1_000)
    objects = [StoredObject(f"in/_manifests/{n}.json", "e", 400, utc_now()) for n in range(9)]
    drawn = set()
    for _ in range(200):
        chosen, rest = fetch_objects._draw_manifests(objects)
        assert len(chosen) == 2 and sorted([*chosen, *rest], key=lambda one: one.key) == objects
        drawn |= {one.key for one in chosen}
    assert len(drawn) == 9
    assert fetch_objects._draw_manifests(objects[:2]) == (objects[:2], [])


@pytest.mark.deep
def test_unreadable_objects_are_reported(
    store: BadStore, home: Home, landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = as_listed(landing)[-1]

    def some_rights_lack(method: str, target: str) -> int | None:
        if "uploads" in target:
            return 501
        return 403 if is_body(method, target) and bad.endswith(target[-9:]) else None

    store.fault = some_rights_lack
    output, _ = run(home)
    assert (output["files"], output["files_pending"]) == (FILES - 1, 1)
    assert (output["pending"][0]["path"], "AccessDenied" in output["pending"][0]["reason"]) == (bad, True)
    assert home.run("ingest", "objects", bad, code=2)["exit_code"] == 2
    store.fault = lambda method, target: 503 if is_body(method, target) else None
    run(home, code=1)
    store.recover()
    assert home.run("ingest", "objects", bad, bad)["files"] == 1
    assert home.run("ingest", "objects", f"{LANDING}/nothing", code=2)["kind"] == "InputFileError"
    assert home.run("run", "s3://no-such-bucket/in", code=2)["kind"] == "UsageError"
    assert home.run("run", f"s3://{BUCKET}/nothing")["ingest"]["objects"]["files"] == 0
    assert doctor.check_landing(LANDING).ok
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    run(home, code=1)
    assert by_job(home, tmp_path)[0] == 1, "Airflow tries again"
    check = doctor.check_landing(LANDING)
    assert not check.ok and check.remedy
