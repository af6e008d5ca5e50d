"""The values of the index are the negative scores of questions, bit for bit, so that a tie is a tie."""

import random
from pathlib import Path

import numpy as np
import pytest

from pststream.answers.contract import Values
from pststream.answers.scored_index import Messages, ScoredIndex, ScoredSubscriptions
from pststream.search.answerers import ANSWERERS
from pststream.search.term_weights import EQUAL_WEIGHTS
from tests.unit.answers.scored_index_worlds import by_pair
from tests.unit.search.worlds import asked, object_table, snapshot_of, some_objects, some_question, weights_of
from tests.worlds import WORDS


@pytest.mark.parametrize("version", [0, 3])
def test_values_are_those_of_questions(tmp_path: Path, version: int) -> None:
    rnd = random.Random(version)
    rows = some_objects(rnd, 1_500)
    counts = {word.lower(): rnd.choice((1, 7, 400, 1_400)) for word in WORDS[3:]}
    weights = weights_of(tmp_path, (1_500, counts)) if version else EQUAL_WEIGHTS
    questions = [{**some_question(rnd, "topk", rows), "window": None, "k": 10_000} for _ in range(80)]
    for question in questions:
        question.pop("as_of", None)
    timed = asked(questions)
    answered = ANSWERERS["topk"](snapshot_of(tmp_path, rows, [700], weights), timed)
    expected = Values(
        answered.question,
        answered.columns["object_key"].to_numpy(),
        answered.question,
        -answered.columns["score"].to_numpy(),
    )
    parsed = [question.parsed for question in timed]
    words = [[term for (term,) in one.clauses] for one in parsed]
    ids = np.array([term for some in words for term in some])
    index = ScoredIndex()
    index.insert(
        ScoredSubscriptions(
            np.arange(len(parsed)),
            *(np.array([one.point[axis] for one in parsed]) for axis in (0, 1)),
            np.array([one.alpha for one in parsed], np.float64),
            np.array([one.distance_scale_m for one in parsed], np.float64),
            np.full(len(parsed), np.inf, np.float32),
            np.cumsum([0, *map(len, words)]),
            ids,
            weights.of_terms(ids),
        )
    )
    table = object_table(rows)
    lists = table.column("terms").combine_chunks()
    terms = lists.flatten().to_numpy()
    offsets = np.cumsum([0, *lists.value_lengths().to_pylist()])
    keys, times, lon, lat = ([row[at] for row in rows] for at in (0, 2, 3, 4))
    found = index.find_candidates(
        Messages(np.array(keys), np.array(times), np.array(lon), np.array(lat), offsets, terms, weights.of_terms(terms))
    )
    assert len(found.value) > 5_000
    assert by_pair(found) == by_pair(expected)
