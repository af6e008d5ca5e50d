"""The answers of questions are those of the slow twin, on random worlds."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.twin_expressions import words_of
from tests.unit.search.worlds import check_answers, snapshot_of, some_objects, some_question, weights_of
from tests.worlds import WORDS

KINDS = ("range", "knn", "topk", "frequent_terms")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(rnd=st.randoms(use_true_random=False), count=st.integers(0, 120), cuts=st.lists(st.integers(0, 120), max_size=3))
def test_answers_are_those_of_the_twin(tmp_path_factory, kind, rnd, count, cuts) -> None:
    rows = some_objects(rnd, count)
    folder = tmp_path_factory.mktemp("world")
    snapshot = snapshot_of(folder, rows, [cut for cut in cuts if cut <= count])
    check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(12)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_answers_of_a_larger_world(tmp_path, kind, seed) -> None:
    rnd = random.Random(seed)
    rows = some_objects(rnd, 3000)
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500])
    assert check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(60)]) > 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_has_the_objects_up_to_a_key(tmp_path, kind) -> None:
    rnd = random.Random(5)
    rows = some_objects(rnd, 400)
    snapshot = snapshot_of(tmp_path, rows, [150])
    for up_to_key in (0, rows[0][0], rows[149][0], rows[150][0], rows[260][0], rows[-1][0]):
        check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(10)], up_to_key)


@pytest.mark.parametrize("seed", range(4))
def test_scores_by_weights_of_words(tmp_path, seed) -> None:
    """Some words have the same weight, some are unknown; frequent words have lists of short texts."""
    rnd = random.Random(seed)
    rows = some_objects(rnd, 3000)
    counts = {word.lower(): rnd.choice((1, 7, 7, 400, 2000)) for word in rnd.sample(WORDS, len(WORDS) - 2)}
    statistics = (2000, {word: count for word, count in counts.items() if words_of(word) == [word]})
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500], weights_of(tmp_path, statistics))
    questions = [some_question(rnd, "topk", rows) for _ in range(60)]
    assert check_answers(snapshot, rows, "topk", questions, statistics=statistics) > 200
    assert (tmp_path / "cache").exists()
