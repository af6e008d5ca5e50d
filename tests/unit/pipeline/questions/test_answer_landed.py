"""Files of questions in a landing folder are answered once each, whatever is killed, and their rows are as of `ask`."""

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pststream
from jobs import answer_questions, micro_batch
from pststream.base import names
from pststream.base.progress import no_progress
from pststream.base.utc_times import utc_now
from pststream.pipeline.ingest.ingest import ReaderOptions
from pststream.pipeline.main_job import run as run_module
from pststream.pipeline.main_job.landing_scanner import LandingScanner
from pststream.pipeline.main_job.watch import _Watcher
from pststream.pipeline.questions import answer_landed, question_ledger
from pststream.pipeline.questions.answer_landed import answer_landed_questions
from pststream.pipeline.upkeep import old_rows
from pststream.search.answer_rows import ANSWERS
from pststream.settings import load_settings
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.open_tables import open_table
from tests.commands import Home as CommandHome
from tests.commands import new_home

KNN = {"kind": "knn", "point": {"lon": 0.0, "lat": 0.0}, "k": 2}
QUESTIONS: list[dict[str, Any]] = [
    {"question_id": "near", **KNN},
    {"question_id": "bad", **KNN, "k": -1},
    {"question_id": "box", "keywords": "coffee", "bbox": [-1, -1, 1, 1]},
    {"question_id": "never", **KNN, "version": 77},
    {"question_id": "words", "kind": "frequent_terms", "circle": {"lon": 0, "lat": 0, "radius_m": 9e5}, "k": 3},
    {"question_id": "best", "kind": "topk", "keywords": "tea", "alpha": 0.5, **{**KNN, "kind": "topk"}},
]
OBJECTS = "object_id,ts,lon,lat,text\na,2026-03-01T00:00:00Z,0,0,free coffee\nb,2026-03-01T01:00:00Z,0.1,0,coffee tea\n"
LATER = "object_id,ts,lon,lat,text\nc,2026-03-01T02:00:00Z,0.01,0,late coffee\n"

COUNTS = ("files", "questions", "rejected", "rows")


class Killed(BaseException):
    """Raised in place of the end of the process."""


@pytest.fixture
def home(tmp_path: Path) -> CommandHome:
    return new_home(tmp_path / "home", engine="local")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    for name in ("objects", "requests", "questions"):
        (folder / name).mkdir(parents=True)
    (folder / "objects" / "1.csv").write_text(OBJECTS)
    return folder


def ask(landing: Path, name: str = "q.jsonl", questions: list[dict[str, Any]] = QUESTIONS) -> Path:
    path = landing / "questions" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, questions)))
    return path


def rows_of(home: CommandHome, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(Home(home.path).table(table)).to_pylist()
    return rows


def begin(home: CommandHome, landing: Path, point: str) -> None:
    """Answer a file until a crash point."""
    ask(landing)

    def die(step: str) -> None:
        if step == point:
            raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(answer_landed, "crash_point", die)
        answer_landed.answer_landed_questions(Home(home.path), load_settings(home.path), str(landing))


def stored(home: CommandHome) -> tuple[list[dict[str, Any]], ...]:
    """The rows of all tables that answered files write, without times."""
    answers = sorted(rows_of(home, "question_answers"), key=lambda row: (row["question_file"], row["row"], row["rank"]))
    asked = sorted(rows_of(home, "questions"), key=lambda row: (row["question_file"], row["row"]))
    # The detail of an unknown version names the newest one.
    rejects = [row | {"detail": ""} for row in rows_of(home, "rejects") if row["kind"] == "questions"]
    done = [row for row in rows_of(home, "question_files") if row["status"] == "done"]
    kept = ("question_file", "path", "questions", "rejected", "rows", "objects_to")
    return answers, asked, rejects, [{name: row[name] for name in kept} for row in done]


def test_run_answers_questions_about_the_objects_that_land_with_them(home: CommandHome, landing: Path) -> None:
    path = ask(landing)
    document = home.run("run", landing)["questions"]
    assert {name: document[name] for name in ("files", "questions", "rejected", "rows")} == {
        "files": 1, "questions": 6, "rejected": 2, "rows": 8,
    }  # fmt: skip
    (answers,) = document["answers"]
    assert answers == str(landing / "answers" / "q.jsonl.parquet")
    out = landing.parent / "asked.parquet"
    home.run("ask", path, "--out", out)
    assert pq.read_table(answers) == pq.read_table(out)
    assert pq.read_schema(answers).equals(ANSWERS)
    rejects = home.run("rejects")["rejects"]
    assert [(one["kind"], one["file"], one["row"], one["field"], one["reason"]) for one in rejects] == [
        ("questions", str(path), 2, "k", "out_of_range"),
        ("questions", str(path), 4, "version", "unknown_version"),
    ]
    assert home.run("check")["success"]
    status = home.run("status")["questions"]
    assert status == {"files": 1, "unfinished": 0, "questions": 6, "rejected": 2, "rows": 8}
    again = home.run("run", landing)["questions"]
    assert again["files"] == 0 and len(rows_of(home, "question_answers")) == 8
    assert not (home.path / "questions").exists()


def test_a_retry_counts_what_earlier_tries_answered(home: CommandHome, landing: Path) -> None:
    """A try that is killed after its last file leaves nothing to do, and the event of the answers is still due."""
    ask(landing)
    home.run("run", landing)
    ask(landing, "unfinished.jsonl")
    since, result = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), landing.parent / "result.json"
    arguments = [f"--home={home.path}", f"--landing={landing}", f"--result={result}"]
    outcomes = []
    for job, when in ((answer_questions, since), (answer_questions, None), (micro_batch, since), (micro_batch, None)):
        assert job.main([*arguments, *([f"--since={when.isoformat()}"] if when else [])]) == 0
        document = json.loads(result.read_text())["result"]
        counts = document["questions"] if job is micro_batch else document
        outcomes.append({name: counts[name] for name in COUNTS})
    all_files, none = {"files": 2, "questions": 12, "rejected": 4, "rows": 16}, dict.fromkeys(COUNTS, 0)
    assert outcomes == [all_files, none, all_files, none]


def test_what_was_asked_is_logged(home: CommandHome, landing: Path) -> None:
    ask(landing)
    home.run("run", landing)
    near, box, words, best = sorted(rows_of(home, "questions"), key=lambda row: int(row["row"]))
    assert [one["kind"] for one in (near, box, words, best)] == ["knn", "range", "frequent_terms", "topk"]
    assert (near["west"], near["north"], near["k"], near["rows"]) == (0.0, 0.0, 2, 2)
    assert near["distance_m"] == pytest.approx(11119.5, abs=0.1) and best["distance_m"] == near["distance_m"]
    assert (box["west"], box["east"], box["k"], box["distance_m"]) == (-1.0, 1.0, None, None)
    assert len(box["clauses"]) == 1 and near["clauses"] == []
    assert near["window_to"].hour == 1 and near["window_after"] is None


def test_a_file_is_known_by_its_path_and_content(home: CommandHome, landing: Path) -> None:
    ask(landing)
    ask(landing, "again/q.jsonl")
    assert home.run("run", landing)["questions"]["files"] == 2
    assert (landing / "answers" / "again" / "q.jsonl.parquet").exists()
    (landing / "objects" / "2.csv").write_text(LATER)
    ask(landing, questions=QUESTIONS[:1])
    document = home.run("run", landing)["questions"]
    assert (document["files"], document["rows"]) == (1, 2)
    ids = pq.read_table(landing / "answers" / "q.jsonl.parquet")["object_id"].to_pylist()
    assert ids == ["a", "c"], "answered after the objects that landed with the change"


def test_files_that_are_no_questions(home: CommandHome, landing: Path) -> None:
    for name, content in (("a.parquet", b"no"), ("b.jsonl", b"not json\n"), ("c.csv", b"x"), ("d.jsonl", b"")):
        (landing / "questions" / name).write_bytes(content)
    (landing / "questions" / "e.jsonl").symlink_to("/etc/hostname")
    document = home.run("run", landing)["questions"]
    assert (document["files"], document["rejected"], document["rows"]) == (4, 3, 0)
    rejects = {(Path(one["file"]).name, one["row"]): one["reason"] for one in home.run("rejects")["rejects"]}
    assert rejects[("a.parquet", 0)] == rejects[("c.csv", 0)] == "unreadable_file"
    assert ("b.jsonl", 1) in rejects and home.run("check")["success"]
    assert pq.read_table(landing / "answers" / "d.jsonl.parquet").num_rows == 0


def test_answers_are_not_written_through_a_link(home: CommandHome, landing: Path, tmp_path: Path) -> None:
    ask(landing)
    (tmp_path / "elsewhere").mkdir()
    (landing / "answers").symlink_to(tmp_path / "elsewhere")
    home.run("run", landing, code=1)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (landing / "answers").unlink()
    assert home.run("run", landing)["questions"]["rows"] == 8
    assert len(rows_of(home, "question_answers")) == 8 and (landing / "answers" / "q.jsonl.parquet").exists()


def test_a_killed_file_is_answered_as_it_was_when_it_started(home: CommandHome, landing: Path, tmp_path: Path) -> None:
    """A later object, and the deletion of the file, change nothing about its answers."""
    home.run("ingest", "objects", landing / "objects" / "1.csv")
    path, answers = ask(landing), landing / "answers" / "q.jsonl.parquet"
    whole = CommandHome(tmp_path / "whole")
    home.run("backup", "--out", whole.path)
    whole.run("run", landing)
    table = pq.read_table(answers)
    answers.unlink()
    begin(home, landing, "questions.started")
    (landing / "objects" / "2.csv").write_text(LATER)
    home.run("ingest", "objects", landing / "objects" / "2.csv")
    path.unlink()
    home.run("run", landing)
    assert stored(home) == stored(whole)
    assert pq.read_table(answers) == table
    assert home.run("check")["success"]


def test_erased_objects_leave_the_answers(home: CommandHome, landing: Path) -> None:
    ask(landing)
    home.run("run", landing)
    rows = home.run("erase", "--object-id", "b")["rows"]
    assert rows["question_answers"] == 4, "b of knn, range and topk; the word tea"
    left = rows_of(home, "question_answers")
    assert {row["object_id"] for row in left} == {"a", None} and {row["term"] for row in left} == {
        "coffee",
        "free",
        None,
    }
    assert home.run("check")["success"]


def test_old_answers_are_removed(home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(landing)
    home.run("run", landing)
    home.run("maintain")
    assert len(rows_of(home, "question_answers")) == 8
    home.run("maintain", "--keep", "question_answers=1d", "--keep", "questions=1d")
    assert len(rows_of(home, "question_answers")) == 8, "they are new"
    future = utc_now() + dt.timedelta(days=3)
    monkeypatch.setattr(old_rows, "utc_now", lambda: future)
    home.run("maintain", "--keep", "question_answers=1d", "--keep", "questions=1d")
    assert (rows_of(home, "question_answers"), rows_of(home, "questions")) == ([], [])
    tables = [open_table(Home(home.path).table(name)) for name in ("question_answers", "questions")]
    assert [table.metadata().configuration["delta.appendOnly"] for table in tables] == ["true", "true"]
    assert home.run("check")["success"]


def test_rejects_of_questions_are_as_old_as_the_answers(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as old as the ingest before them; and views have them where no ingest is before them."""
    ask(landing, "first.jsonl")
    answer_landed.answer_landed_questions(Home(home.path), load_settings(home.path), str(landing))
    assert pststream.open(home.path).sql("SELECT rejects FROM rejects_by_file").column(0).to_pylist() == [1, 1]
    home.run("ingest", "objects", landing / "objects" / "1.csv")
    now = utc_now()
    monkeypatch.setattr(question_ledger, "utc_now", lambda: now + dt.timedelta(days=3))
    ask(landing, "second.jsonl")
    answer_landed.answer_landed_questions(Home(home.path), load_settings(home.path), str(landing))
    monkeypatch.setattr(old_rows, "utc_now", lambda: now + dt.timedelta(days=3, hours=1))
    assert home.run("maintain", "--keep", "rejects=1d")["rows_expired"] == {"rejects": 2}
    assert {Path(row["file"]).name for row in rows_of(home, "rejects")} == {"second.jsonl"}
    monkeypatch.setattr(old_rows, "utc_now", lambda: now + dt.timedelta(days=5))
    assert home.run("maintain", "--keep", "rejects=1d")["rows_expired"] == {"rejects": 2}


def test_run_passes_over_questions_while_another_process_answers(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "answer_landed_questions", partial(answer_landed_questions, wait_seconds=0.0))
    ask(landing)
    with Home(home.path).locked(names.QUESTIONS):
        document = home.run("run", landing)
        assert document["ingest"]["objects"]["files"] == 1 and document["questions"]["files"] == 0
        result = landing.parent / "result.json"
        assert micro_batch.main([f"--home={home.path}", f"--landing={landing}", f"--result={result}"]) == 0
    assert home.run("run", landing)["questions"]["rows"] == 8


def test_a_file_that_two_processes_find_is_answered_once(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.run("ingest", "objects", landing / "objects" / "1.csv")
    ask(landing)
    settings, locked, others = load_settings(home.path), Home.locked, []

    def locked_later(self: Home, scope: str = "", *arguments: Any) -> Any:
        if scope == names.QUESTIONS:  # another process, which has found the file too, is first
            monkeypatch.setattr(Home, "locked", locked)
            others.append(answer_landed.answer_landed_questions(Home(home.path), settings, str(landing)))
        return locked(self, scope, *arguments)

    monkeypatch.setattr(Home, "locked", locked_later)
    document = answer_landed.answer_landed_questions(Home(home.path), settings, str(landing))
    assert [document["files"], *(other["files"] for other in others)] == [0, 1]
    assert len(rows_of(home, "question_answers")) == 8


def test_a_started_file_waits_while_the_home_is_locked(home: CommandHome, landing: Path) -> None:
    home.run("ingest", "objects", landing / "objects" / "1.csv")
    begin(home, landing, "questions.started")
    state, settings = Home(home.path), load_settings(home.path)
    scanner = LandingScanner(str(landing))
    unused: Any = None
    watcher = _Watcher(
        state, settings, str(landing), scanner, ReaderOptions(), None, no_progress, heart=unused, shutdown=unused
    )
    with Home(home.path).locked():
        watcher.finish_answers()
    assert rows_of(home, "question_answers") == []
    watcher.finish_answers()
    assert len(rows_of(home, "question_answers")) == 8


def test_maintain_commits_answers_that_are_written(home: CommandHome, landing: Path) -> None:
    home.run("ingest", "objects", landing / "objects" / "1.csv")
    begin(home, landing, "questions.listed")
    assert rows_of(home, "question_answers") == []
    home.run("maintain")
    assert len(rows_of(home, "question_answers")) == 8
    home.run("run", landing)
    assert len(rows_of(home, "question_answers")) == 8 and home.run("check")["success"]
