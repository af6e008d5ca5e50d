"""What lands is told once, whole, and again when it changes; what is told tells how far behind the matches are."""

import os
import time
from pathlib import Path

import pytest

from pststream.pipeline.main_job.arrivals import Arrivals


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for kind in ("objects", "requests"):
        (tmp_path / kind / "today").mkdir(parents=True)
    return tmp_path


def test_a_file_is_told_when_two_looks_find_it_the_same(landing: Path) -> None:
    arrivals = Arrivals(str(landing))
    file = landing / "objects" / "today" / "a.csv"
    file.write_text("object_id")
    assert (arrivals.look(), arrivals.unsure) == ({}, True)
    file.write_text("object_id,ts")
    assert (arrivals.look(), arrivals.unsure) == ({}, True), "it has grown: somebody is at it"
    assert (arrivals.look(), arrivals.unsure) == ({"objects": [str(file)]}, False)
    assert arrivals.look() == {"objects": [str(file)]}, "nobody took it"
    arrivals.took([str(file)])
    assert arrivals.look() == arrivals.look() == {}
    file.write_text("object_id,ts,lon")
    assert (arrivals.look(), arrivals.look()) == ({}, {"objects": [str(file)]})


def test_requests_come_first_and_what_is_no_input_never(landing: Path) -> None:
    for name in ("objects/b.csv", "objects/a.jsonl", "objects/.c.csv", "objects/d.part", "requests/e.jsonl"):
        (landing / name).write_text("x")
    os.mkfifo(landing / "objects" / "pipe.csv")
    (landing / "objects" / "nowhere.csv").symlink_to(landing / "gone.csv")
    arrivals = Arrivals(str(landing))
    arrivals.look()
    found = arrivals.look()
    assert list(found) == ["requests", "objects"]
    assert [Path(path).name for path in found["objects"]] == ["a.jsonl", "b.csv"]


def test_a_format_is_that_of_the_objects(landing: Path) -> None:
    for name in ("objects/a.jsonl", "objects/b.csv", "requests/c.csv"):
        (landing / name).write_text("x")
    arrivals = Arrivals(str(landing), "jsonl")
    arrivals.look()
    found = {kind: [Path(path).name for path in paths] for kind, paths in arrivals.look().items()}
    assert found == {"requests": ["c.csv"], "objects": ["a.jsonl"]}


def test_a_right_that_is_given_later_is_a_change(landing: Path) -> None:
    file = landing / "objects" / "a.csv"
    file.write_text("x")
    file.chmod(0)
    arrivals = Arrivals(str(landing))
    arrivals.look()
    arrivals.took(arrivals.look()["objects"])
    file.chmod(0o644)
    assert (arrivals.look(), arrivals.look()) == ({}, {"objects": [str(file)]})


def test_the_lag_is_that_of_the_oldest_file_that_waits(landing: Path) -> None:
    arrivals = Arrivals(str(landing))
    first, second = landing / "objects" / "a.csv", landing / "objects" / "b.csv"
    first.write_text("x")
    before = time.monotonic()
    arrivals.look()
    seen = arrivals.matched_until
    second.write_text("y")
    arrivals.took(arrivals.look()["objects"])
    assert before <= seen == arrivals.matched_until and arrivals.waiting == 2
    arrivals.matched()
    assert arrivals.matched_until > seen and arrivals.waiting == 1
    second.unlink()
    arrivals.look()
    assert arrivals.waiting == 0, "what was taken away waits for nothing"


def test_memory_is_that_of_the_folder(landing: Path) -> None:
    arrivals = Arrivals(str(landing))
    for number in range(20):
        file = landing / "objects" / f"{number}.csv"
        file.write_text("x")
        arrivals.look()
        arrivals.took(arrivals.look()["objects"])
        arrivals.matched()
        file.unlink()
    arrivals.look()
    assert not any(vars(arrivals)[name] for name in ("_seen", "_taken", "_unmatched"))


def test_what_could_not_be_opened_waits_and_is_told_again(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (landing / "objects" / f"{name}.csv").write_text("object_id")
    monkeypatch.setattr("pststream.pipeline.main_job.arrivals.AGAIN_SECONDS", 0.2)
    arrivals = Arrivals(str(landing))
    arrivals.look()
    paths = arrivals.look()["objects"]
    arrivals.took(paths, [paths[1]])
    arrivals.matched()
    assert (arrivals.look(), arrivals.waiting) == ({}, 1)
    time.sleep(0.25)
    assert arrivals.look() == {"objects": [paths[1]]}
    arrivals.took(paths[1:])
    arrivals.matched()
    assert (arrivals.look(), arrivals.waiting) == ({}, 0)
