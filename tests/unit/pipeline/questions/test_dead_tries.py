"""A file of questions that kills processes does not block later ones, and a try continues where the last one ended."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.base.errors import PassingError, RetryableError
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES
from pststream.pipeline.main_job.watch import Abandoned
from pststream.pipeline.questions import answer_landed
from pststream.pipeline.questions.answer_landed import MAX_TRIES, answer_landed_questions
from pststream.search.read_questions import ReadQuestions
from pststream.settings import load_settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.commands import ENTRY, ROOT, new_home
from tests.commands import Home as CommandHome

HOSTILE = str(ROOT / "tests" / "hostile_readers")
KNN = {"kind": "knn", "point": {"lon": 0.0, "lat": 0.0}, "k": 2}
OBJECTS = "object_id,ts,lon,lat,text\na,2026-03-01T00:00:00Z,0,0,free coffee\nb,2026-03-01T01:00:00Z,0.1,0,coffee tea\n"


class Killed(BaseException):
    """Raised in place of the end of the process."""


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    (folder / "questions").mkdir(parents=True)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> CommandHome:
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
    home: CommandHome, landing: Path, death: str
) -> None:
    land(landing, "a.jsonl", dies=death)
    land(landing, "b.jsonl")
    command = [sys.executable, "-c", ENTRY, "run", str(landing), "--home", str(home.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((HOSTILE, str(ROOT)))}
    codes = []
    for _ in range(DEAD_TRIES + 1 if death == "kill.csv" else 1):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL] * (len(codes) - 1) + [0], done.stderr
    ((file, row, reason, detail),) = rejects_of(home)
    expected = (
        "its reader was ended by SIGKILL" if death == "kill.csv" else "reading it needs more memory than there is"
    )
    assert (file, row, reason) == ("a.jsonl", 0, "unreadable_file") and detail.startswith(expected)
    assert pq.read_table(landing / "answers" / "b.jsonl.parquet").num_rows == 6
    assert not (home.path / "questions").exists() and home.run("check")["success"]


def test_a_try_continues_where_the_last_one_ended(home: CommandHome, landing: Path, small_parts: None) -> None:
    land(landing, "whole.jsonl", 7, question_id="same")
    answer(home, landing)
    land(landing, "q.jsonl", 7, question_id="same")
    assert answer_and_die(home, landing, lambda row: row == 4) == [0, 2, 4]
    assert answer_and_die(home, landing, lambda row: row == 6) == [4, 6]
    assert answer(home, landing)["questions"] == 7
    tables = [pq.read_table(landing / "answers" / f"{name}.jsonl.parquet") for name in ("whole", "q")]
    assert tables[0] == tables[1] and tables[0].num_rows == 14
    asked = read_table(Home(home.path).table(names.QUESTIONS)).to_pylist()
    assert sorted(row["row"] for row in asked if row["question_file"] == 2) == list(range(1, 8))
    assert home.run("check")["success"]


def test_questions_that_kill_processes_are_given_up_after_some_tries(
    home: CommandHome, landing: Path, small_parts: None
) -> None:
    land(landing, "a.jsonl", 5)
    land(landing, "b.jsonl")
    tried = [answer_and_die(home, landing, lambda row: row == 2) for _ in range(MAX_TRIES)]
    assert [rows[-1] for rows in tried] == [2] * MAX_TRIES and [len(rows) for rows in tried] == [2, 1, 1, 1, 1]
    summary = answer(home, landing)
    assert (summary["files"], summary["questions"], summary["rejected"]) == (2, 2 + 1 + 3, 1)
    ((file, row, reason, detail),) = rejects_of(home)
    assert (file, row, reason) == ("a.jsonl", 0, "unanswered")
    assert detail == ("5 processes ended while they answered those after row 2. put them there again in smaller files")
    rows = [pq.read_table(landing / "answers" / f"{name}.jsonl.parquet").num_rows for name in "ab"]
    assert rows == [4, 6] and home.run("check")["success"]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, Abandoned, PassingError("x", errno.ENOSPC), OSError(errno.ENOSPC, "full")]
)
def test_an_end_that_says_nothing_about_the_file_is_no_dead_try(
    home: CommandHome, landing: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(landing, "a.jsonl")

    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(answer_landed._Answerer, "answer_part", fail)
    for _ in range(MAX_TRIES + 1):
        with pytest.raises((RetryableError, KeyboardInterrupt)):
            answer(home, landing)
    monkeypatch.undo()
    assert answer(home, landing)["rows"] == 6


def test_an_end_of_the_engine_is_a_dead_try(home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(landing, "a.jsonl")

    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError

    with monkeypatch.context() as patch:
        patch.setattr(answer_landed._Answerer, "answer_part", refuse)
        patch.setattr(answer_landed, "engine_is_alive", lambda: False)
        for _ in range(MAX_TRIES):
            with pytest.raises(ConnectionRefusedError):
                answer(home, landing)
    assert (answer(home, landing)["rejected"], [one[2] for one in rejects_of(home)]) == (1, ["unanswered"])


def test_fewer_questions_are_answered_together_after_dead_tries(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a file whose questions take long is answered in the end: each try that answers some has others after it."""
    monkeypatch.setattr(answer_landed, "FEWER", {3: 3, 4: 2})
    land(landing, "q.jsonl", 9)
    records = (landing / "questions" / "q.jsonl").read_text().splitlines()
    records[3] = json.dumps({"question_id": "bad", **KNN, "k": -1})
    (landing / "questions" / "q.jsonl").write_text("\n".join(records))
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
            assert answer(home, landing)["questions"] == 9
    assert sizes == [[8], [8], [8], [3], [2, 2, 2], [2, 2]]
    assert [(row, reason) for _, row, reason, _ in rejects_of(home)] == [(4, "out_of_range")]
    assert pq.read_table(landing / "answers" / "q.jsonl.parquet").num_rows == 16


def test_an_erasure_between_two_tries(home: CommandHome, landing: Path, small_parts: None) -> None:
    """Answers that are not committed cannot be erased, so they are dropped; lists of committed ones name no object."""
    state = Home(home.path)
    land(landing, "q.jsonl", 5)
    answer_and_die(home, landing, lambda row: row == 2)
    home.run("erase", "--object-id", "b")
    assert [path.name for path in (home.path / "questions").iterdir() if "written" in path.name] == []
    listed = {file.path for file in list_data_files(state, names.QUESTION_ANSWERS)}
    assert {path.name for path in Path(state.table(names.QUESTION_ANSWERS)).glob("*.parquet")} == listed
    assert answer(home, landing)["rows"] == 5
    assert {row["object_id"] for row in read_table(state.table(names.QUESTION_ANSWERS)).to_pylist()} == {"a"}


def test_the_list_of_committed_answers_names_no_object_after_an_erasure(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(landing, "q.jsonl")

    def die(step: str) -> None:
        if step == "questions.listed":
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(answer_landed, "crash_point", die)
        answer(home, landing)
    (written,) = (home.path / "questions").glob("*.written.json")
    assert '"b"' in written.read_text()
    home.run("erase", "--object-id", "b")
    assert '"b"' not in written.read_text()
    assert answer(home, landing)["rows"] == 6, "as many as were answered"
    assert pq.read_table(landing / "answers" / "q.jsonl.parquet")["object_id"].to_pylist() == ["a"] * 3


def test_a_file_is_read_with_the_settings_with_which_it_started(
    home: CommandHome, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(landing, "q.jsonl")
    answer_and_die(home, landing, lambda row: True)
    home.set(max_k=1)
    summary = answer(home, landing)
    assert (summary["rejected"], summary["rows"]) == (0, 6)
