"""The benchmark of questions draws the objects that it promises, compares every answer, and fails on another one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.scenarios.answers import questions
from benchmarks.support import question_peers
from benchmarks.support.object_worlds import DAY_US, DAYS, ObjectWorld, frequent_words, write_world
from benchmarks.support.question_sets import STYLES, draw_mixed, draw_questions
from pststream.base import names
from pststream.base.errors import PstError
from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.queries.text.tokenizer import terms_of
from pststream.search.read_questions import read_question_records
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from tests.counted_benchmark import run_counted

OBJECTS = 5_000


def rows_of(folder: Path, world: ObjectWorld) -> pa.Table:
    home = Home(str(folder))
    home.init()
    sampled = write_world(home, world, lambda _: None)
    assert len(sampled.lon) == len(sampled.words) > 0
    files = list_data_files(home, names.OBJECTS)
    assert len(files) == world.files
    addresses = [address for address, _ in addresses_and_rows(home, names.OBJECTS, files)]
    return pa.concat_tables(pq.read_table(address) for address in addresses).sort_by("object_key")


def test_objects_have_the_terms_of_their_texts_and_times_of_thirty_days(tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "home", ObjectWorld(OBJECTS, files=7))
    assert rows.num_rows == OBJECTS
    texts = rows.column("text").combine_chunks()
    assert rows.column("terms").to_pylist() == terms_of(texts).to_pylist()
    lengths = [len(text.split()) for text in texts.to_pylist()]
    assert 9 < np.mean(lengths) < 10.5
    times = rows.column("ts").cast(pa.int64()).to_numpy()
    assert (np.diff(times) > 0).all() and times[-1] - times[0] > (DAYS - 1) * DAY_US
    assert rows_of(tmp_path / "again", ObjectWorld(OBJECTS, files=7)).equals(rows)
    first, second = frequent_words(2)
    both = [text for text in texts.to_pylist() if {first, second} <= set(text.split())]
    assert len(both) <= OBJECTS // 1000


@pytest.mark.parametrize("places", ["uniform", "gaussian"])
def test_places_are_distributed_as_asked(tmp_path: Path, places: str) -> None:
    rows = rows_of(tmp_path / "home", ObjectWorld(OBJECTS, files=2, places=places))
    inner = np.mean((np.abs(rows.column("lon").to_numpy()) < 60) & (np.abs(rows.column("lat").to_numpy()) < 30))
    assert inner == pytest.approx({"uniform": 1 / 9, "gaussian": 0.466}[places], abs=0.03)


def test_drawn_questions_are_valid_and_follow_the_seed(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.init()
    sampled = write_world(home, ObjectWorld(OBJECTS, files=2), lambda _: None)
    mixed = draw_mixed(sampled, 400, 1)
    read = read_question_records(mixed, Settings())
    assert not read.rejects
    assert {question.kind.name for question in read.questions} == set(QUESTION_KINDS)
    assert mixed == draw_mixed(sampled, 400, 1) != draw_mixed(sampled, 400, 2)
    boxes = np.array([one["bbox"] for one in draw_questions(sampled, STYLES["range"], 100, 1)])
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / (360 * 180)
    assert areas == pytest.approx(1e-4)


def test_the_benchmark_measures_all_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(questions.SIZES, "small", (1_000, OBJECTS))
    monkeypatch.setitem(questions.HOURLY_FILES, "small", 12)
    figures = run_counted("questions")["figures"]
    assert figures["objects"] == OBJECTS and figures["ask_mixed_questions"] == questions.MIXED["small"]
    assert set(questions.MS_TARGETS) <= {name.removesuffix("_ms") for name in figures}
    assert set(questions.TARGETS) <= set(figures)
    for name in ("duckdb", "polars"):
        assert figures[f"{name}_topk_questions"] == questions.QUESTIONS["small"]


def test_a_peer_with_another_answer_does_not_count() -> None:
    mine = pa.table({"question": [0, 0, 1], "rank": [1, 2, 1], "answer": ["a", "b", "c"]})
    question_peers.compare_answers("a peer", mine.slice(0, 2), mine, 1)
    for other in (mine.slice(0, 1), mine.set_column(2, "answer", pa.array(["a", "c", "b"]))):
        with pytest.raises(PstError, match="a peer: other answers"):
            question_peers.compare_answers("a peer", other, mine, 2)
