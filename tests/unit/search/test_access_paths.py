"""Each way to read the objects of a question gives the same answer: lists of a clause, all rows, walked lists."""

import random

import numpy as np
import pytest

from pststream.kernels.questions.codes import number_at, pack_numbers, plain_number_at, unpack_numbers
from pststream.kernels.questions.question_arrays import choose_clauses
from pststream.kernels.questions.rows_in_regions import choose_paths
from pststream.search import answerers, best_objects
from pststream.search.question_batch import clauses_of, region_arrays
from tests.unit.search.worlds import asked, check_answers, snapshot_of, some_objects, some_question

MANY = " OR ".join(["coffee", "tea", "free", "cheap", "fire", "taxi", "park", "jazz"])
WORLD = {"question_id": "q", "bbox": [-180.0, -90.0, 180.0, 90.0]}


def first_clauses(objects, clauses, questions) -> np.ndarray:
    firsts = clauses.clause_offsets[questions]
    return np.where(firsts < clauses.clause_offsets[questions + 1], firsts, -1)


def last_clauses(objects, clauses, questions) -> np.ndarray:
    lasts = clauses.clause_offsets[questions + 1] - 1
    return np.where(lasts >= clauses.clause_offsets[questions], lasts, -1)


def all_rows(objects, clauses, questions) -> np.ndarray:
    return np.full(len(questions), -1)


@pytest.mark.parametrize("path", [first_clauses, last_clauses, all_rows])
@pytest.mark.parametrize("kind", ["range", "knn"])
def test_paths_give_the_same_answers(tmp_path, monkeypatch, kind, path) -> None:
    monkeypatch.setattr(best_objects, "choose_clauses", path)
    monkeypatch.setattr(answerers, "choose_paths", lambda objects, _, clauses, asked: path(objects, clauses, asked))
    rnd = random.Random(4)
    rows = some_objects(rnd, 900)
    snapshot = snapshot_of(tmp_path, rows, [600])
    questions = [some_question(rnd, kind, rows) for _ in range(30)]
    check_answers(snapshot, rows, kind, [*questions, *({**one, "keywords": MANY} for one in questions[:5])])


@pytest.mark.parametrize("kind", ["range", "knn"])
def test_lists_that_are_walked_together(tmp_path, kind) -> None:
    """Words of many objects that never, rarely and often meet; a list much longer than the other is not walked."""
    rnd = random.Random(6)
    texts = {number: f"w{number % 2} v{number % 7} all" for number in range(5000)}
    texts |= dict.fromkeys(range(1000, 5000, 500), "w0 w1 v3 all rare")
    rows = [(*row[:5], texts[number]) for number, row in enumerate(some_objects(rnd, 5000))]
    snapshot = snapshot_of(tmp_path, rows)
    for keywords in ("w0 w1", "w0 w1 v3", "w0 all", "rare all", "(w0 OR w1) v3", "w0 AND (w1 OR v2) AND all"):
        drawn = [{**some_question(rnd, kind, rows), "keywords": keywords, "window": None} for _ in range(3)]
        if kind == "range":
            drawn.append({**WORLD, "keywords": keywords})
        check_answers(snapshot, rows, kind, drawn)


def test_rows_of_a_small_region_are_read_instead_of_many_lists(tmp_path) -> None:
    rnd = random.Random(5)
    rows = [(*row[:5], f"common {row[5]}") for row in some_objects(rnd, 2000)]
    (segment,) = snapshot_of(tmp_path, rows).segments
    few = {"question_id": "q", "bbox": [17.9, 59.2, 17.95, 59.25], "keywords": MANY}
    questions = asked([few, {**few, "keywords": "coffee"}, {**few, "keywords": "nowhere"}, {**few, "keywords": None}])
    clauses = clauses_of(questions).within(segment)
    regions = region_arrays([question.parsed.region for question in questions])
    numbers = np.arange(4)
    assert choose_clauses(segment.objects, clauses, numbers).tolist() == [0, 1, -2, -1]
    assert choose_paths(segment.objects, regions, clauses, numbers).tolist() == [-1, 1, -2, -1]


@pytest.mark.parametrize(("below", "width"), [(5, 3), (1 << 24, 3), ((1 << 24) + 1, 4)])
def test_packed_numbers(below, width) -> None:
    numbers = np.array([0, 1, 255, 256, 65_536, below - 1], np.int32)[: 1 if below == 5 else None]
    packed = pack_numbers(numbers, below)
    assert packed.shape == (len(numbers) + 1, width)
    for read in (number_at, plain_number_at):
        assert [read(packed, at) for at in range(len(numbers))] == numbers.tolist()
    assert unpack_numbers(packed[:-1]).tolist() == numbers.tolist()
    assert pack_numbers(np.empty(0, np.int32), 0).shape == (1, 3)
