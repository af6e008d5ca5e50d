"""Bounds of the rows of answers hold, and the slices of a window are all of its objects, newest first."""

import random

import pytest

from pststream.search.answer_blocks import bound_rows, slice_window
from pststream.search.answerers import ANSWERERS
from pststream.search.object_snapshot import ObjectSnapshot
from tests.unit.search.worlds import asked, snapshot_of, some_objects, some_question

LAST = 2**63 - 2


def test_an_answer_has_no_more_rows_than_its_bound(tmp_path) -> None:
    rnd = random.Random(1)
    rows = some_objects(rnd, 3000)
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500])
    questions = [some_question(rnd, "range", rows) for _ in range(200)]
    timed = asked(questions)
    most = bound_rows(snapshot, timed)
    counts = [0] * len(questions)
    for place in ANSWERERS["range"](snapshot, timed).question.tolist():
        counts[place] += 1
    assert sum(counts) > 1000
    assert all(count <= bound for count, bound in zip(counts, most.tolist()))
    unlimited = [place for place, question in enumerate(questions) if question["limit"] is None]
    assert sum(most[place] < len(rows) for place in unlimited) > len(unlimited) / 3, "bounds below all objects"
    assert bound_rows(ObjectSnapshot([]), timed).sum() == sum(question["limit"] or 0 for question in questions)


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
@pytest.mark.parametrize("times", ["spread", "few", "one"])
def test_slices_are_all_objects_newest_first(tmp_path, most: int, times: str) -> None:
    step = {"spread": 10**13, "few": 1, "one": 0}[times]
    rows = [(key, f"o{key}", step * (key * 7919 % 11), 0.0, 0.0, "w") for key in range(1, 400)]
    snapshot = snapshot_of(tmp_path, rows, [150])
    parts = list(slice_window(snapshot, 0, 20 * step, LAST, most))
    stored = []
    for part in parts:
        inside = [
            (ts, key)
            for key, _, ts, *_ in rows
            if ts <= part.to_ts and key <= part.to_key and (ts, key) > (part.after_ts, part.after_key)
        ]
        assert len(inside) <= most
        stored += sorted(inside, reverse=True)
    assert stored == sorted(((ts, key) for key, _, ts, *_ in rows), reverse=True)
