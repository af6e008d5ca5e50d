"""The watcher: files are ready once they are whole, the lag is measured, and a signal lets the running step end."""

import os
import signal
import time
from pathlib import Path

import pytest

from pststream.pipeline.main_job import run as run_module
from pststream.pipeline.main_job.landing_scanner import RETRY_SECONDS, LandingScanner
from pststream.pipeline.main_job.run import Abandoned, GracefulShutdown


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for kind in ("objects", "requests"):
        (tmp_path / kind / "today").mkdir(parents=True)
    return tmp_path


def test_a_file_is_ready_when_two_scans_find_the_same_stamp(landing: Path) -> None:
    scanner = LandingScanner(str(landing))
    file = landing / "objects" / "today" / "a.csv"
    file.write_text("object_id")
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True)
    file.write_text("object_id,ts")
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True), "it has grown: somebody writes to it"
    assert (scanner.scan(), scanner.has_unstable_files) == ({"objects": [str(file)]}, False)
    assert scanner.scan() == {"objects": [str(file)]}, "nobody ingested it"
    scanner.mark_ingested([str(file)])
    assert scanner.scan() == scanner.scan() == {}
    file.write_text("object_id,ts,lon")
    assert (scanner.scan(), scanner.scan()) == ({}, {"objects": [str(file)]})


def test_a_file_is_ready_when_its_stamp_is_old_enough(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    scanner = LandingScanner(str(landing), stable_seconds=0.25)
    file = landing / "objects" / "a.csv"
    file.write_text("object_id")
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True)
    now += 0.2
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True), "unchanged, but for too short a time"
    file.write_text("object_id,ts")
    now += 0.2
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True), "it has grown: the time begins again"
    now += 0.2
    assert (scanner.scan(), scanner.has_unstable_files) == ({}, True)
    now += 0.05
    assert (scanner.scan(), scanner.has_unstable_files) == ({"objects": [str(file)]}, False)


def test_requests_come_first_and_other_files_are_left_out(landing: Path) -> None:
    for name in ("objects/b.csv", "objects/a.jsonl", "objects/.c.csv", "objects/d.part", "requests/e.jsonl"):
        (landing / name).write_text("x")
    os.mkfifo(landing / "objects" / "pipe.csv")
    (landing / "objects" / "nowhere.csv").symlink_to(landing / "gone.csv")
    scanner = LandingScanner(str(landing))
    scanner.scan()
    found = scanner.scan()
    assert list(found) == ["requests", "objects"]
    assert [Path(path).name for path in found["objects"]] == ["a.jsonl", "b.csv"]


def test_the_format_applies_to_objects(landing: Path) -> None:
    for name in ("objects/a.jsonl", "objects/b.csv", "requests/c.csv"):
        (landing / name).write_text("x")
    scanner = LandingScanner(str(landing), "jsonl")
    scanner.scan()
    found = {kind: [Path(path).name for path in paths] for kind, paths in scanner.scan().items()}
    assert found == {"requests": ["c.csv"], "objects": ["a.jsonl"]}


def test_a_new_file_mode_is_a_change(landing: Path) -> None:
    file = landing / "objects" / "a.csv"
    file.write_text("x")
    file.chmod(0)
    scanner = LandingScanner(str(landing))
    scanner.scan()
    scanner.mark_ingested(scanner.scan()["objects"])
    file.chmod(0o644)
    assert (scanner.scan(), scanner.scan()) == ({}, {"objects": [str(file)]})


def test_the_lag_is_that_of_the_oldest_waiting_file(landing: Path) -> None:
    scanner = LandingScanner(str(landing))
    first, second = landing / "objects" / "a.csv", landing / "objects" / "b.csv"
    first.write_text("x")
    before = time.monotonic()
    scanner.scan()
    seen = scanner.matched_until
    second.write_text("y")
    scanner.mark_ingested(scanner.scan()["objects"])
    assert before <= seen == scanner.matched_until and scanner.waiting_files == 2
    scanner.mark_matched()
    assert scanner.matched_until > seen and scanner.waiting_files == 1
    second.unlink()
    scanner.scan()
    assert scanner.waiting_files == 0, "a removed file does not wait"


def test_removed_files_are_forgotten(landing: Path) -> None:
    scanner = LandingScanner(str(landing))
    for number in range(20):
        file = landing / "objects" / f"{number}.csv"
        file.write_text("x")
        scanner.scan()
        scanner.mark_ingested(scanner.scan()["objects"])
        scanner.mark_matched()
        file.unlink()
    scanner.scan()
    assert not any(vars(scanner)[name] for name in ("_last_stamps", "_ingested", "_landed_at", "_retry_at"))


def test_a_file_that_could_not_be_opened_is_returned_again(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (landing / "objects" / f"{name}.csv").write_text("object_id")
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    scanner = LandingScanner(str(landing))
    scanner.scan()
    paths = scanner.scan()["objects"]
    scanner.mark_ingested(paths, [paths[1]])
    scanner.mark_matched()
    assert (scanner.scan(), scanner.waiting_files) == ({}, 1)
    now += RETRY_SECONDS - 0.1
    assert scanner.scan() == {}
    now += 0.2
    assert scanner.scan() == {"objects": [paths[1]]}
    scanner.mark_ingested(paths[1:])
    scanner.mark_matched()
    assert (scanner.scan(), scanner.waiting_files) == ({}, 0)


def test_links_and_names_that_are_refused_do_not_wait(landing: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("x")
    (landing / "objects" / "link.csv").symlink_to(secret)
    (landing / "objects" / os.fsdecode(b"\xff.csv")).write_text("x")
    (landing / "objects" / "late.csv").write_text("x")
    scanner = LandingScanner(str(landing))
    scanner.scan()
    paths = scanner.scan()["objects"]
    scanner.mark_ingested(paths, paths)
    scanner.mark_matched()
    assert (len(paths), scanner.waiting_files) == (3, 1), "only the file that may be read later waits"


def test_questions_wait_for_the_files_that_landed_with_them(landing: Path) -> None:
    (landing / "questions").mkdir()
    objects, questions, later = (landing / name for name in ("objects/a.csv", "questions/q.jsonl", "objects/b.csv"))
    questions.write_text("{}")
    objects.write_text("object_id")
    scanner = LandingScanner(str(landing))
    assert (scanner.scan(), scanner.waiting_files) == ({}, 1), "a file of questions is not waiting to be matched"
    objects.write_text("object_id,ts")
    assert scanner.scan() == {}, "the objects are still being written"
    assert scanner.scan() == {"objects": [str(objects)]}
    scanner.mark_ingested([str(objects)])
    later.write_text("object_id")
    assert scanner.scan() == {"questions": [str(questions)]}, "later objects are not waited for"
    scanner.mark_ingested([str(questions)])
    assert scanner.scan() == {"objects": [str(later)]}
    scanner.mark_ingested([str(later)])
    scanner.mark_matched()
    assert (scanner.waiting_files, scanner.scan()) == (0, {})


def test_questions_do_not_wait_for_a_file_that_grows_on(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    (landing / "questions").mkdir()
    growing, questions = landing / "objects" / "a.csv", landing / "questions" / "q.jsonl"
    questions.write_text("{}")
    scanner, found = LandingScanner(str(landing)), []
    for size in range(1, 9):
        growing.write_text("x" * size)
        found.append(scanner.scan())
        now += 10.0
    assert found == [{}] * 6 + [{"questions": [str(questions)]}] * 2


def test_a_file_that_is_removed_before_it_is_marked(landing: Path) -> None:
    file = landing / "objects" / "a.csv"
    file.write_text("object_id")
    scanner = LandingScanner(str(landing))
    scanner.scan()
    ready = scanner.scan()["objects"]
    file.unlink()
    scanner.scan()
    scanner.mark_ingested(ready)
    assert (scanner.scan(), scanner.waiting_files) == ({}, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_requests_a_shutdown(number: int) -> None:
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown:
        assert not shutdown.requested
        os.kill(os.getpid(), number)
        assert shutdown.requested and not shutdown.abandoned
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before
    assert ended == []


def test_a_step_that_takes_too_long_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "STOP_SECONDS", 0.05)
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown, pytest.raises(Abandoned):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)
    assert shutdown.abandoned and ended == [1]


def test_a_second_signal_abandons_at_once() -> None:
    with GracefulShutdown(lambda: None) as shutdown, pytest.raises(Abandoned):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert shutdown.abandoned


def test_nothing_is_abandoned_after_the_last_step() -> None:
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown:
        os.kill(os.getpid(), signal.SIGTERM)
        shutdown.finish()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert shutdown.requested and not shutdown.abandoned and ended == []
