"""Questions given as arrays, with one end of the log and boundaries of windows, have the answers of the slow twin."""

import random

import numpy as np
import pytest

from pststream.base import names
from pststream.search import object_snapshot
from pststream.search.best_objects import PointQuestions, find_nearest_objects, find_scored_objects
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import clauses_of
from tests.oracles.questions import answer, logged
from tests.unit.search.worlds import Row, asked, snapshot_of, some_objects, some_question

GREATEST_DISTANCE_M = np.pi * 6_371_008.8
FINDERS = {"knn": (find_nearest_objects, 2, 1.0), "topk": (find_scored_objects, 3, -1.0)}


def boundary_of(rows: list[Row], window: dict | None, end: int) -> tuple[int, int]:
    """Return the ts and key of the object before the window, among the objects up to the key `end`."""
    newest_first = sorted(((row[2], row[0]) for row in rows if row[0] <= end), reverse=True)
    before = newest_first[window["objects"] :] if window else []
    return before[0] if before else (names.NO_TIME, LAST_KEY)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FINDERS)
def test_best_objects_are_those_of_the_twin(tmp_path, kind, seed) -> None:
    find, column, sign = FINDERS[kind]
    rnd = random.Random(seed)
    rows = some_objects(rnd, 1500)
    snapshot = snapshot_of(tmp_path, rows, [100, 700, 1300])
    end = rows[1400][0]
    stream_time = max(row[2] for row in rows if row[0] <= end)
    records = []
    for _ in range(40):
        window = rnd.choice([None, *({"objects": size} for size in (1, 60, 300, 1000, 5000))])
        records.append({**some_question(rnd, kind, rows), "k": rnd.randrange(1, 41), "window": window, "as_of": None})
    points = [(record["point"]["lon"], record["point"]["lat"]) for record in records]
    scales = [(record.get("alpha", 0), record.get("distance_scale_m") or GREATEST_DISTANCE_M) for record in records]
    questions = PointQuestions(
        points=np.array(points, np.float64),
        k=np.array([record["k"] for record in records]),
        clauses=clauses_of(asked(records)),
        after=np.array([boundary_of(rows, record["window"], end) for record in records]),
        up_to=np.array([(stream_time, end)] * len(records)),
        scales=np.array(scales, np.float64),
    )
    best = find(snapshot, questions)
    objects, keys = [logged(*row) for row in rows], {row[1]: row[0] for row in rows}
    assert len(best.question) > 300
    for place, record in enumerate(records):
        expected = answer(objects, record, end)
        mine = best.question == place
        assert best.key[mine].tolist() == [keys[row[0]] for row in expected], record
        assert best.ts[mine].tolist() == [row[1] for row in expected]
        assert (sign * best.value[mine]).tolist() == pytest.approx(
            [row[column] for row in expected], rel=1e-6, abs=1e-6
        )
    segment, row = best.place >> 32, best.place & 0xFFFFFFFF
    assert [snapshot.segments[one].keys[at] for one, at in zip(segment, row)] == best.key.tolist()


@pytest.mark.parametrize("most_sorted", [1_000_000, 2])
@pytest.mark.parametrize("cuts", [[], [100, 700, 1300], [1499], list(range(0, 1500, 150))])
def test_boundaries_of_count_windows(tmp_path, monkeypatch, cuts, most_sorted) -> None:
    monkeypatch.setattr(object_snapshot, "_SORTED_OBJECTS", most_sorted)
    monkeypatch.setattr(object_snapshot, "_BUCKETS", 50)
    rows = some_objects(random.Random(8), 1500)
    snapshot = snapshot_of(tmp_path, rows, cuts)
    for end, as_of in (
        (rows[-1][0], rows[-1][2] + 10**9),
        (rows[1400][0], rows[1400][2]),
        (rows[1400][0], rows[300][2]),
    ):
        counted = sorted(((row[2], row[0]) for row in rows if row[0] <= end and row[2] <= as_of), reverse=True)
        sizes = [1000, 1, 2, 60, 299, 60, 1399, 5000]
        together = snapshot.before_most_recent(sizes, as_of, end)
        alone = [ObjectSnapshot(snapshot.segments).before_most_recent([size], as_of, end)[0] for size in sizes]
        assert together.tolist() == np.array(alone).tolist()
        for size, boundary in zip(sizes, together.tolist(), strict=True):
            assert [one for one in counted if one > tuple(boundary)] == counted[:size]


def test_objects_are_counted_once_for_all_count_windows(tmp_path, monkeypatch) -> None:
    rows, passes = some_objects(random.Random(8), 1500), []
    snapshot = snapshot_of(tmp_path, rows, [700])
    count_by_time = object_snapshot.count_by_time
    monkeypatch.setattr(object_snapshot, "count_by_time", lambda *given: passes.append(1) or count_by_time(*given))
    newest_first = sorted(((row[2], row[0]) for row in rows), reverse=True)
    boundaries = snapshot.before_most_recent(range(1, 1500), newest_first[0][0])
    assert len(passes) == len(snapshot.segments)
    assert boundaries.tolist() == [[ts, key - 1] for ts, key in newest_first[:-1]]


def test_no_questions_and_no_objects(tmp_path) -> None:
    none = np.empty((0, 2), np.int64)
    empty = PointQuestions(np.empty((0, 2)), np.empty(0, np.int64), clauses_of([]), none, none, np.empty((0, 2)))
    for rows in ([], some_objects(random.Random(1), 20)):
        for find, _, _ in FINDERS.values():
            assert not len(find(snapshot_of(tmp_path, rows), empty).question)
