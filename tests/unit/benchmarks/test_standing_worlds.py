"""Standing queries of benchmarks have words of an object, at its place, in the clauses that their kind has."""

import numpy as np
import pytest

from pststream.pipeline.calibrate.measured_homes import STREAMS, QueryWords, draw_knn, draw_topk
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids

COUNT = 300


@pytest.fixture(scope="module")
def source() -> SyntheticObjects:
    return STREAMS["place"].draw(200, 3)


def words_at(source: SyntheticObjects) -> dict[tuple[float, float], set[int]]:
    """Return the words of the object at each place."""
    ids, offsets = term_ids(source.terms).tolist(), source.term_offsets.tolist()
    places = zip(source.lon.tolist(), source.lat.tolist())
    return {place: set(ids[low:high]) for place, low, high in zip(places, offsets, offsets[1:], strict=False)}


def clauses_and_places(columns: dict) -> list[tuple[list[list[int]], tuple[float, float]]]:
    places = zip(columns["lon"].to_pylist(), columns["lat"].to_pylist())
    return list(zip(columns["clauses"].to_pylist(), places, strict=True))


def test_topk_has_a_clause_for_each_word(source: SyntheticObjects) -> None:
    columns = draw_topk(source, COUNT, 20, {"window_objects": 100}, QueryWords(5), 1)
    words = words_at(source)
    for clauses, place in clauses_and_places(columns):
        drawn = [word for clause in clauses for word in clause]
        assert 1 <= len(clauses) == len(drawn) == len(set(drawn)) <= 5 and set(drawn) <= words[place]
    assert len({len(clauses) for clauses, _ in clauses_and_places(columns)}) > 3
    assert set(columns["window_objects"].to_pylist()) == {100} and set(columns["k"].to_pylist()) == {20}
    assert 0.3 < np.mean(columns["alpha"].to_numpy()) < 0.7


@pytest.mark.parametrize("all_needed", [False, True])
def test_knn_has_words_of_an_object(source: SyntheticObjects, all_needed: bool) -> None:
    columns = draw_knn(source, COUNT, (2, 4), QueryWords(3, all_needed=all_needed), 1)
    words = words_at(source)
    for clauses, place in clauses_and_places(columns):
        drawn = [word for clause in clauses for word in clause]
        assert len(clauses) == (len(drawn) if all_needed else 1)
        assert 1 <= len(set(drawn)) == len(drawn) <= 3 and set(drawn) <= words[place]
    assert set(columns["k"].to_pylist()) == {2, 3, 4}


def test_words_by_zipfs_law_are_distinct(source: SyntheticObjects) -> None:
    columns = draw_topk(source, COUNT, 20, {"window_us": 100}, QueryWords(5, zipf=True), 1)
    for clauses, _ in clauses_and_places(columns):
        assert 1 <= len(clauses) == len({word for (word,) in clauses}) <= 5
