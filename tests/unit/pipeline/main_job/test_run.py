"""`has_work` says no only where `pststream run` would change and report nothing; its summary counts what was done."""

from pathlib import Path

import pytest

from pststream.base import names
from pststream.base.errors import RunnerBusy
from pststream.pipeline.main_job import run
from pststream.pipeline.main_job.run import has_work, summarize_since
from pststream.settings import Settings, load_settings
from pststream.state import fetched_files, ledger_tables
from pststream.state.home import RUNNER
from pststream.state.home import Home as Tables
from tests.bad_store import BUCKET, Uploader
from tests.bucket_home import use
from tests.commands import Home, new_home
from tests.dags.landing_folder import fill_landing
from tests.moto_process import s3_server
from tests.unit.reports.commands.homes import add_batch, add_file, at, insertion, reject, thing

MORE = "object_id,ts,lon,lat,text\no9,2026-03-01T12:09:00Z,0.5,0.5,free coffee\n"


def works(home: Home, landing: Path | str) -> bool:
    tables = Tables(home.path)
    return has_work(tables, load_settings(tables.path), str(landing))


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return fill_landing(tmp_path / "landing")


@pytest.fixture
def home(tmp_path: Path, landing: Path) -> Home:
    """A home that has run the landing folder."""
    home = new_home(tmp_path / "home", workers=2)
    assert works(home, landing)
    home.run("run", landing)
    assert not works(home, landing)
    return home


def test_a_run_without_work_does_nothing(home: Home, landing: Path) -> None:
    status = home.run("status")
    before, batches = status["versions"], status["batches"]
    assert [batch["engine"] for batch in batches] == ["threads"]
    done = home.run("run", landing)
    assert done["match"]["batches"] == [] and {one["files"] for one in done["ingest"].values()} == {0}
    assert home.run("status")["versions"] == before


def test_only_new_content_is_work(home: Home, landing: Path) -> None:
    first = landing / "objects" / "posts.csv"
    (landing / "objects" / "copy.csv").write_bytes(first.read_bytes())
    (landing / "objects" / "readme.txt").write_text(MORE)
    assert not works(home, landing)
    assert home.run("run", landing)["unknown_endings"] == [str(landing / "objects" / "readme.txt")]
    (landing / "objects" / "more.csv").write_text(MORE)
    assert works(home, landing)
    home.run("run", landing)
    assert not works(home, landing)


def test_a_changed_file_is_work(home: Home, landing: Path) -> None:
    with (landing / "objects" / "posts.csv").open("a") as file:
        file.write("o9,2026-03-01T12:09:00Z,0.5,0.5,free coffee\n")
    assert works(home, landing)


def test_a_file_that_cannot_be_read_is_work(home: Home, landing: Path) -> None:
    (landing / "requests" / "broken.jsonl").symlink_to(landing / "nowhere")
    assert works(home, landing), "each run names it"


def test_a_missing_landing_folder_and_a_missing_home_are_work(home: Home, landing: Path, tmp_path: Path) -> None:
    assert works(home, landing / "nowhere")
    assert works(Home(tmp_path / "other"), landing)
    assert not (tmp_path / "other").exists()


def test_a_quarantined_file_is_no_work(home: Home, landing: Path) -> None:
    home.set(gate_min_rows=1, gate_bad_share=0.1)
    (landing / "objects" / "bad.csv").write_text(MORE.replace("0.5,0.5", "east,north"))
    assert works(home, landing)
    [hold] = home.run("run", landing)["ingest"]["objects"]["quarantined"]
    assert hold["hold_id"] == 1 and not works(home, landing)


def test_pending_rows_are_work(home: Home, landing: Path) -> None:
    (landing / "objects" / "more.csv").write_text(MORE)
    home.ingest("objects", [landing / "objects" / "more.csv"])
    assert works(home, landing)
    home.match()
    assert not works(home, landing)


@pytest.mark.parametrize("step", ["match.started", "match.matched"])
def test_an_interrupted_batch_is_work(home: Home, landing: Path, step: str) -> None:
    (landing / "objects" / "more.csv").write_text(MORE)
    assert home.crash(step, "run", landing).code == -9
    assert works(home, landing)
    home.run("run", landing)
    assert not works(home, landing)


def test_another_runner_is_named(home: Home, landing: Path) -> None:
    with Tables(home.path).locked(RUNNER, RunnerBusy), pytest.raises(RunnerBusy):
        works(home, landing)


def test_large_files_are_known_by_their_cached_hashes(
    home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "UNCACHED_BYTES", 0)
    assert works(home, landing), "a file without a cached hash is not read to find out"
    paths = [str(path) for path in landing.rglob("*.*")]
    stamps = run.read_stamps(paths)
    hashes = {
        path: (*stamps[path], run.hash_files(Tables(home.path), {path: stamps[path]}, True)[0].sha256)
        for path in stamps
    }
    fetched_files.write_hash_cache(Tables(home.path), hashes)
    assert not works(home, landing)
    (landing / "objects" / "posts.csv").touch()
    assert works(home, landing)


def test_objects_of_a_bucket(tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as url:
        use(url, monkeypatch)
        uploader, address = Uploader(url), f"s3://{BUCKET}/landing"
        uploader.new_bucket()
        home = new_home(tmp_path / "home", workers=2)
        assert not works(home, address)
        uploader.put_folder(landing, "landing")
        assert works(home, address)
        home.run("run", address)
        assert not works(home, address)
        uploader.put("landing/objects/more.csv", MORE.encode())
        assert works(home, address)
        assert has_work(Tables(home.path), Settings(pending_seconds=0), address)


def test_files_and_batches_done_since_are_counted(hand_home: Tables) -> None:
    add_file(hand_home, "requests", [insertion(1, "s")])
    add_file(hand_home, "objects", [thing(1, "a"), thing(3, "b")], [reject(2, "late"), reject(4, "duplicate")])
    add_file(hand_home, "objects", [thing(1, "c")], [reject(2, "late")])
    add_file(hand_home, "objects", [thing(1, "d")], done=False)
    add_batch(hand_home, minutes=100)
    add_batch(hand_home, minutes=200, done=False)
    event = {"kind": "requests", "path": "term-statistics", "sha256": "", "bytes": 0, "options": "{}", "status": "done"}
    counts = {"rows": 1, "accepted": 0, "rejected": 0, "started_at": at(0), "statistics_version": 1}
    ledger_tables.append(hand_home, names.FILES, [{"file_seq": 5, "ingest_id": 5, **event, **counts}])
    summary = summarize_since(hand_home, at(0))
    assert summary["ingest"] == {
        "requests": {"files": 1, "rows": 1, "accepted": 1, "rejected": 0, "rejects_by_reason": {}},
        "objects": {
            "files": 2, "rows": 6, "accepted": 3, "rejected": 3, "rejects_by_reason": {"duplicate": 1, "late": 2},
        },
    }  # fmt: skip
    assert [batch["batch_id"] for batch in summary["batches"]] == [1]
    assert summarize_since(hand_home, at(1000)) == {"ingest": {}, "batches": []}
