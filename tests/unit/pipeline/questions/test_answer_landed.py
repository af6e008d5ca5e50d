"""Files of questions in a landing folder are answered once each, whatever is killed, and none blocks later ones."""

import contextlib
import datetime as dt
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pststream
from jobs import answer_questions, micro_batch
from pststream.base import names
from pststream.base.errors import PassingError, RetryableError
from pststream.base.progress import no_progress
from pststream.base.utc_times import utc_now
from pststream.pipeline.ingest.ingest import ReaderOptions
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES
from pststream.pipeline.main_job import run as run_module
from pststream.pipeline.main_job.landing_scanner import LandingScanner
from pststream.pipeline.main_job.run import Abandoned, _Watcher
from pststream.pipeline.questions import answer_landed, question_ledger
from pststream.pipeline.questions.answer_landed import MAX_TRIES, answer_landed_questions
from pststream.search.answer_rows import ASKED
from pststream.search.read_questions import ReadQuestions
from pststream.settings import load_settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.open_tables import open_table
from tests.commands import ENTRY, ROOT, new_home
from tests.commands import Home as CommandHome
from tests.erased_homes import set_clock

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
    assert pq.read_schema(answers).equals(ASKED)
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
    set_clock(monkeypatch, future)
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
    set_clock(monkeypatch, now + dt.timedelta(days=3, hours=1))
    assert home.run("maintain", "--keep", "rejects=1d")["rows_expired"] == {"rejects": 2}
    assert {Path(row["file"]).name for row in rows_of(home, "rejects")} == {"second.jsonl"}
    set_clock(monkeypatch, now + dt.timedelta(days=5))
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


HOSTILE = str(ROOT / "tests" / "hostile_readers")


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    (folder / "questions").mkdir(parents=True)
    return folder


@pytest.fixture
def filled_home(tmp_path: Path) -> CommandHome:
    made = new_home(tmp_path / "home", engine="local", read_seconds=300, read_memory_bytes=700_000_000)
    (tmp_path / "objects.csv").write_text(OBJECTS)
    made.ingest("objects", [tmp_path / "objects.csv"])
    return made


def land(landing: Path, name: str, count: int = 3, **fields: Any) -> None:
    records = [{"question_id": f"{name}{row}", **KNN, **fields} for row in range(count)]
    (landing / "questions" / name).write_text("\n".join(map(json.dumps, records)))


def rejects_of(home: CommandHome) -> list[tuple[str, int, str, str]]:
    rows = read_table(Home(home.path).table(names.REJECTS)).to_pylist()
    return [(Path(row["file"]).name, row["row"], row["reason"], row["detail"]) for row in rows]


def answer(home: CommandHome, landing: Path) -> dict[str, Any]:
    summary: dict[str, Any] = answer_landed_questions(Home(home.path), load_settings(home.path), str(landing))
    return summary


def answer_and_die(home: CommandHome, landing: Path, dies: Callable[[int], bool]) -> list[int]:
    """Answer until `dies` says so of the last row that is answered; return these rows."""
    rows: list[int] = []
    whole = answer_landed._Answerer.answer_part

    def answer_part(self: Any, part: Any, before: Any, seconds: float) -> Any:
        rows.append(before.last_row)
        if dies(before.last_row):
            raise Killed
        return whole(self, part, before, seconds)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(answer_landed._Answerer, "answer_part", answer_part)
        answer(home, landing)
    return rows


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer two questions at a time, where this process reads them."""
    whole = answer_landed.read_question_parts

    def by_rows(*arguments: Any) -> Iterator[ReadQuestions]:
        for part in whole(*arguments):
            last = max([one.row for one in part.questions] + [one["row"] for one in part.rejects])
            for low in range(1, last + 1, 2):
                rejects = [one for one in part.rejects if one["row"] in (low, low + 1)]
                yield ReadQuestions([one for one in part.questions if one.row in (low, low + 1)], rejects)

    monkeypatch.setattr(answer_landed, "read_question_parts", by_rows)


@pytest.mark.slow
@pytest.mark.parametrize("death", ["kill.csv", "lack.csv"])
def test_a_file_that_kills_its_reader_is_a_reject_and_later_files_are_answered(
    filled_home: CommandHome, asking: Path, death: str
) -> None:
    land(asking, "a.jsonl", dies=death)
    land(asking, "b.jsonl")
    command = [sys.executable, "-c", ENTRY, "run", str(asking), "--home", str(filled_home.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((HOSTILE, str(ROOT)))}
    codes = []
    for _ in range(DEAD_TRIES + 1 if death == "kill.csv" else 1):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL] * (len(codes) - 1) + [0], done.stderr
    ((file, row, reason, detail),) = rejects_of(filled_home)
    expected = (
        "its reader was ended by SIGKILL" if death == "kill.csv" else "reading it needs more memory than there is"
    )
    assert (file, row, reason) == ("a.jsonl", 0, "unreadable_file") and detail.startswith(expected)
    assert pq.read_table(asking / "answers" / "b.jsonl.parquet").num_rows == 6
    assert not (filled_home.path / "questions").exists() and filled_home.run("check")["success"]


def test_a_try_continues_where_the_last_one_ended(filled_home: CommandHome, asking: Path, small_parts: None) -> None:
    land(asking, "whole.jsonl", 7, question_id="same")
    answer(filled_home, asking)
    land(asking, "q.jsonl", 7, question_id="same")
    assert answer_and_die(filled_home, asking, lambda row: row == 4) == [0, 2, 4]
    assert answer_and_die(filled_home, asking, lambda row: row == 6) == [4, 6]
    assert answer(filled_home, asking)["questions"] == 7
    tables = [pq.read_table(asking / "answers" / f"{name}.jsonl.parquet") for name in ("whole", "q")]
    assert tables[0] == tables[1] and tables[0].num_rows == 14
    asked = read_table(Home(filled_home.path).table(names.QUESTIONS)).to_pylist()
    assert sorted(row["row"] for row in asked if row["question_file"] == 2) == list(range(1, 8))
    assert filled_home.run("check")["success"]


def test_questions_that_kill_processes_are_given_up_after_some_tries(
    filled_home: CommandHome, asking: Path, small_parts: None
) -> None:
    land(asking, "a.jsonl", 5)
    land(asking, "b.jsonl")
    tried = [answer_and_die(filled_home, asking, lambda row: row == 2) for _ in range(MAX_TRIES)]
    assert [rows[-1] for rows in tried] == [2] * MAX_TRIES and [len(rows) for rows in tried] == [2, 1, 1, 1, 1]
    summary = answer(filled_home, asking)
    assert (summary["files"], summary["questions"], summary["rejected"]) == (2, 2 + 1 + 3, 1)
    ((file, row, reason, detail),) = rejects_of(filled_home)
    assert (file, row, reason) == ("a.jsonl", 0, "unanswered")
    assert detail == ("5 processes ended while they answered those after row 2. put them there again in smaller files")
    rows = [pq.read_table(asking / "answers" / f"{name}.jsonl.parquet").num_rows for name in "ab"]
    assert rows == [4, 6] and filled_home.run("check")["success"]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, Abandoned, PassingError("x", errno.ENOSPC), OSError(errno.ENOSPC, "full")]
)
def test_an_end_that_says_nothing_about_the_file_is_no_dead_try(
    filled_home: CommandHome, asking: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(asking, "a.jsonl")

    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(answer_landed._Answerer, "answer_part", fail)
    for _ in range(MAX_TRIES + 1):
        with pytest.raises((RetryableError, KeyboardInterrupt)):
            answer(filled_home, asking)
    monkeypatch.undo()
    assert answer(filled_home, asking)["rows"] == 6


@pytest.mark.deep
def test_an_end_of_the_engine_is_a_dead_try(
    filled_home: CommandHome, asking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(asking, "a.jsonl")

    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError

    with monkeypatch.context() as patch:
        patch.setattr(answer_landed._Answerer, "answer_part", refuse)
        patch.setattr(answer_landed, "spark_has_died", lambda: True)
        for _ in range(MAX_TRIES):
            with pytest.raises(ConnectionRefusedError):
                answer(filled_home, asking)
    assert (answer(filled_home, asking)["rejected"], [one[2] for one in rejects_of(filled_home)]) == (1, ["unanswered"])


@pytest.mark.deep
def test_fewer_questions_are_answered_together_after_dead_tries(
    filled_home: CommandHome, asking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a file whose questions take long is answered in the end: each try that answers some has others after it."""
    monkeypatch.setattr(answer_landed, "FEWER", {3: 3, 4: 2})
    land(asking, "q.jsonl", 9)
    records = (asking / "questions" / "q.jsonl").read_text().splitlines()
    records[3] = json.dumps({"question_id": "bad", **KNN, "k": -1})
    (asking / "questions" / "q.jsonl").write_text("\n".join(records))
    sizes: list[list[int]] = []
    whole = answer_landed._Answerer.answer_part

    def answer_few(self: Any, part: Any, *others: Any) -> Any:
        sizes[-1].append(len(part.questions))
        if len(part.questions) > 2 or len(sizes[-1]) > 2:  # too many at a time, or in a try
            raise Killed
        return whole(self, part, *others)

    monkeypatch.setattr(answer_landed._Answerer, "answer_part", answer_few)
    for _ in range(6):
        sizes.append([])
        with contextlib.suppress(Killed):
            assert answer(filled_home, asking)["questions"] == 9
    assert sizes == [[8], [8], [8], [3], [2, 2, 2], [2, 2]]
    assert [(row, reason) for _, row, reason, _ in rejects_of(filled_home)] == [(4, "out_of_range")]
    assert pq.read_table(asking / "answers" / "q.jsonl.parquet").num_rows == 16


def test_an_erasure_between_two_tries(filled_home: CommandHome, asking: Path, small_parts: None) -> None:
    """Answers that are not committed cannot be erased, so they are dropped; lists of committed ones name no object."""
    state = Home(filled_home.path)
    land(asking, "q.jsonl", 5)
    answer_and_die(filled_home, asking, lambda row: row == 2)
    filled_home.run("erase", "--object-id", "b")
    assert [path.name for path in (filled_home.path / "questions").iterdir() if "written" in path.name] == []
    listed = {file.path for file in list_data_files(state, names.QUESTION_ANSWERS)}
    assert {path.name for path in Path(state.table(names.QUESTION_ANSWERS)).glob("*.parquet")} == listed
    assert answer(filled_home, asking)["rows"] == 5
    assert {row["object_id"] for row in read_table(state.table(names.QUESTION_ANSWERS)).to_pylist()} == {"a"}


def test_the_list_of_committed_answers_names_no_object_after_an_erasure(
    filled_home: CommandHome, asking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(asking, "q.jsonl")

    def die(step: str) -> None:
        if step == "questions.listed":
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(answer_landed, "crash_point", die)
        answer(filled_home, asking)
    (written,) = (filled_home.path / "questions").glob("*.written.json")
    assert '"b"' in written.read_text()
    filled_home.run("erase", "--object-id", "b")
    assert '"b"' not in written.read_text()
    assert answer(filled_home, asking)["rows"] == 6, "as many as were answered"
    assert pq.read_table(asking / "answers" / "q.jsonl.parquet")["object_id"].to_pylist() == ["a"] * 3


def test_a_file_is_read_with_the_settings_with_which_it_started(
    filled_home: CommandHome, asking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(asking, "q.jsonl")
    answer_and_die(filled_home, asking, lambda row: True)
    filled_home.set(max_k=1)
    summary = answer(filled_home, asking)
    assert (summary["rejected"], summary["rows"]) == (0, 6)
