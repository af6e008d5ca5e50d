"""Files of questions have the answers of `ask`, however questions and segments are split into tasks."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.utc_times import from_micros, iso
from pststream.pipeline.questions import answer_on_engine
from pststream.search import answer_blocks, object_cache
from pststream.search.ask import stream_answers
from pststream.search.read_questions import read_question_files
from pststream.settings import load_settings
from pststream.state import home as state_home
from tests.commands import Home, new_home
from tests.unit.search.worlds import some_objects, some_question
from tests.worlds import ATTRIBUTES, some_attributes

KINDS = ("range", "knn", "topk", "frequent_terms")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with 900 objects in four files, two of them withdrawn."""
    folder, rnd = tmp_path_factory.mktemp("world"), random.Random(3)
    home = new_home(folder / "home", engine="local", lateness_seconds=10**9)
    rows = some_objects(rnd, 900)
    for number, (low, high) in enumerate(((0, 300), (300, 400), (400, 850), (850, 900))):
        with open(folder / f"{number}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("object_id", "ts", "lon", "lat", "text", *ATTRIBUTES))
            for _, name, ts, *rest in rows[low:high]:
                kept = some_attributes(name)
                writer.writerow((name, iso(from_micros(ts)), *rest, *map(kept.get, ATTRIBUTES)))
        home.ingest("objects", [folder / f"{number}.csv"])
    home.run("withdraw", "--object-id", "o7", "--object-id", "o500é")
    return home


@pytest.fixture(scope="module")
def questions(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of mixed questions, some of them about versions."""
    rnd = random.Random(4)
    rows = some_objects(random.Random(3), 900)
    asked = [{**some_question(rnd, rnd.choice(KINDS), rows), "question_id": str(n)} for n in range(300)]
    for question in rnd.sample(asked, 20):
        question["version"] = rnd.choice((1, 2, 3, 99))
    path = tmp_path_factory.mktemp("questions") / "q.jsonl"
    path.write_text("\n".join(json.dumps({k: v for k, v in one.items() if v is not None}) for one in asked))
    return path


@pytest.fixture(scope="module")
def expected(home: Home, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    out = tmp_path_factory.mktemp("expected") / "a.parquet"
    home.run("ask", questions, "--out", out)
    table = pq.read_table(out)
    assert table.num_rows > 1000
    return table


def landed(home: Home, questions: Path, folder: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Answer a copy of the questions in a new landing folder."""
    (folder / "landing" / "questions").mkdir(parents=True)
    (folder / "landing" / "questions" / "q.jsonl").write_bytes(questions.read_bytes())
    document = home.run("run", folder / "landing")["questions"]
    return pq.read_table(document["answers"][0]), document


@pytest.mark.parametrize("split", ["whole", "segments", "slices", "questions", "everything"])
def test_the_answers_are_those_of_ask(
    split: str, home: Home, questions: Path, expected: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if split in ("segments", "everything"):
        monkeypatch.setattr(answer_on_engine, "MAX_TASK_OBJECTS", 200)
        monkeypatch.setattr(answer_on_engine, "MAX_SENT_ROWS", 3000)
        monkeypatch.setattr(object_cache, "LARGE_ROWS", 100)
    if split in ("slices", "everything"):
        monkeypatch.setattr(answer_blocks, "BLOCK_ROWS", 40)
    if split in ("questions", "everything"):
        monkeypatch.setattr(answer_blocks, "BLOCK_QUESTIONS", 3)
    answers, document = landed(home, questions, tmp_path)
    assert answers == expected
    assert document["questions"] == 300 and document["rows"] == expected.num_rows
    out = tmp_path / "a.parquet"
    home.run("ask", questions, "--out", out)
    assert pq.read_table(out) == expected


def test_segments_are_split_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    split = answer_on_engine.split_segments
    assert split([], 4) == [()] and split([5, 5, 5, 5], 1) == [(0, 1, 2, 3)]
    assert split([5, 5, 5, 5], 2) == [(0, 1), (2, 3)] and split([9, 1, 1, 1], 2) == [(0,), (1, 2, 3)]
    monkeypatch.setattr(answer_on_engine, "MAX_TASK_OBJECTS", 6)
    assert split([5, 5, 1, 9], 1) == [(0,), (1, 2), (3,)]


def test_the_answers_stay_the_same_while_files_are_rewritten(
    home: Home, questions: Path, expected: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`maintain` rewrites the files of objects, and new plans are made, while questions are being answered."""
    monkeypatch.setattr(answer_blocks, "BLOCK_QUESTIONS", 3)
    settings = load_settings(str(home.path))
    read = read_question_files([str(questions)], settings)
    tables = stream_answers(state_home.Home(str(home.path)), settings, read).tables
    first = next(tables)
    files = {path.name for path in (home.path / "tables" / "objects").glob("*.parquet")}
    home.run("plan")
    home.run("maintain")
    assert {path.name for path in (home.path / "tables" / "objects").glob("*.parquet")} > files
    home.run("plan", "--planner", "grid")
    home.run("balance", "local")
    assert pa.concat_tables([first, *tables]) == expected
    assert landed(home, questions, tmp_path)[0] == expected
    assert home.run("check")["success"]
