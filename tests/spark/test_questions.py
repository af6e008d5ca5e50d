"""Spark answers files of questions as the process that asks does, with one group of segments or several."""

import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pststream.base.utc_times import from_micros, iso
from pststream.pipeline.questions import answer_on_engine
from pststream.search import object_cache
from tests.commands import new_home
from tests.unit.search.worlds import some_objects, some_question
from tests.worlds import some_attributes

pytestmark = pytest.mark.spark

KINDS = ("range", "knn", "topk", "frequent_terms")


def test_answers_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, rnd, landing = new_home(tmp_path / "home", lateness_seconds=10**9), random.Random(8), tmp_path / "landing"
    rows = some_objects(rnd, 400)
    fields = ("object_id", "ts", "lon", "lat", "text")
    for number, part in enumerate((rows[:250], rows[250:])):
        named = ((name, dict(zip(fields, (name, iso(from_micros(ts)), *rest)))) for _, name, ts, *rest in part)
        lines = (row | some_attributes(name) for name, row in named)
        (tmp_path / f"{number}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        home.ingest("objects", [tmp_path / f"{number}.jsonl"])
    asked = [{**some_question(rnd, rnd.choice(KINDS), rows), "question_id": str(n)} for n in range(40)]
    (landing / "questions").mkdir(parents=True)
    for name in ("one.jsonl", "more.jsonl"):
        (landing / "questions" / name).write_text("".join(json.dumps(one) + "\n" for one in asked))
    home.run("ask", landing / "questions" / "one.jsonl", "--out", tmp_path / "a.parquet")
    expected = pq.read_table(tmp_path / "a.parquet")
    home.set(engine="spark")
    (landing / "questions" / "more.jsonl").rename(tmp_path / "more.jsonl")
    home.run("run", landing)
    monkeypatch.setattr(answer_on_engine, "MAX_TASK_OBJECTS", 200)
    monkeypatch.setattr(object_cache, "LARGE_ROWS", 100)
    (tmp_path / "more.jsonl").rename(landing / "questions" / "more.jsonl")
    home.run("run", landing)
    for name in ("one.jsonl", "more.jsonl"):
        assert pq.read_table(landing / "answers" / f"{name}.parquet") == expected
    assert expected.num_rows > 100
