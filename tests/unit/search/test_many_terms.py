"""Objects with more terms than one segment can number: a small bound stands for that of 2^30."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.pipeline.ingest.stage_file import SCHEMAS
from pststream.pipeline.ingest.staged_rows import StagedWriter
from pststream.search.object_cache import ObjectCache
from pststream.state.data_files import list_data_files
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, new_home
from tests.unit.search.worlds import some_objects, some_question

FEW = 400
ASKED = {"op": "insert", "keywords": "tea OR coffee OR parking", "bbox": [-180, -90, 180, 90]}
KINDS = ("range", "knn", "topk", "frequent_terms")


def land(folder: Path) -> tuple[list[Path], Path, Path]:
    """Write eight files of objects, subscriptions that are late for them, and questions."""
    rnd = random.Random(5)
    rows = worlds.object_log(rnd, 480)
    files = [folder / f"{number}.jsonl" for number in range(8)]
    for path, some in zip(files, worlds.cut(rows, 8), strict=True):
        worlds.write_rows(path, some)
    asked = [ASKED | {"subscription_id": f"s{n}", "created_at": "2020-01-01T00:00:00Z"} for n in range(3)]
    drawn = [some_question(rnd, rnd.choice(KINDS), some_objects(rnd, 100)) for _ in range(20)]
    questions = [{**one, "question_id": str(n)} for n, one in enumerate(drawn)]
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in questions))
    return files, worlds.write_rows(folder / "requests.jsonl", asked), path


def answers(home: Home, questions: Path) -> list[dict[str, Any]]:
    out = home.path.parent / f"{home.path.name}.parquet"
    home.run("ask", questions, "--out", out)
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows


@pytest.mark.promise
def test_questions_late_subscriptions_and_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, requests, questions = land(tmp_path)
    of_home = list[list[Any]]()
    for name, most in (("whole", names.MAX_FILE_TERMS), ("few", FEW)):
        monkeypatch.setattr(names, "MAX_FILE_TERMS", most)
        home = new_home(tmp_path / name, engine="local", workers=2, lateness_seconds=10**8)
        home.set(cache_dir=str(tmp_path / f"{name}-cache"))
        for path in files:
            home.ingest("objects", [path])
        home.match()
        found = [answers(home, questions)]
        home.ingest("requests", [requests])
        home.match()
        found.append(home.exported())
        home.run("maintain")
        found.append(answers(home, questions))
        assert home.run("check", "--all")["success"] and len(found[1]) > 50
        of_home.append([found, len(list_data_files(State(home.path), names.OBJECTS))])
    (whole, one_file), (few, several) = of_home
    assert whole == few and one_file == 1 and 1 < several < 8


def test_a_group_is_halved_until_its_parts_have_few_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _, _ = land(tmp_path)
    home = new_home(tmp_path / "home", engine="local", lateness_seconds=10**8)
    for path in files:
        home.ingest("objects", [path])
    paths = tuple(f"{home.path}/tables/objects/{one.path}" for one in list_data_files(State(home.path), names.OBJECTS))
    terms = [sum(map(len, pq.read_table(path, columns=["terms"])["terms"].to_pylist())) for path in paths]
    cache = ObjectCache(str(tmp_path / "cache"), 10**9)
    for most in (2 * sum(terms), sum(terms) - 1, max(terms), 1):
        monkeypatch.setattr(names, "MAX_FILE_TERMS", most)
        parts = [part for part, _ in ObjectCache(str(tmp_path / f"cache{most}"), 10**9).segments(paths)]
        assert [path for part in parts for path in part] == list(paths)
        of_part = [sum(terms[paths.index(path)] for path in part) for part in parts]
        assert all(count <= most or len(part) == 1 for part, count in zip(parts, of_part, strict=True))
        assert (len(parts) == 1) == (most > sum(terms))
    assert [part for part, _ in cache.segments(paths[:1])] == [paths[:1]]


def test_a_staged_file_ends_with_the_rows_that_exceed_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MAX_FILE_TERMS", 10)
    writer = StagedWriter(str(tmp_path), SCHEMAS["objects"], 1_000)
    for row in range(7):
        writer.write(pa.RecordBatch.from_pylist([{"row": row, "terms": [1, 2, 3, 4]}], SCHEMAS["objects"]))
    assert [part.rows for part in writer.close()] == [3, 3, 1]
