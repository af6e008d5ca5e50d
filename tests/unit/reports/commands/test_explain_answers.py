"""Explain of a subscription with memory: by how much an object missed, and stored answers that contradict the rule."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.reports.commands.explain import explain, render_explain
from pststream.reports.pages import airflow_views
from pststream.reports.reading import object_ranking
from pststream.state.data_files import commit_files
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.oracles.questions import float32
from tests.oracles.twin_regions import distance_m
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    at,
    copy_of,
    insertion,
    log_row,
    thing,
)

Row = dict[str, Any]

HOUR = 3_600_000_000
POINT = {"lon": 0.0, "lat": 0.0}
NEAREST = insertion(1, "s", kind="knn", keywords="coffee", k=2, **POINT)
LONS = (0.1, 0.2, 0.3)
METRES = [float32(distance_m(0.0, 0.0, lon, 0.0)) for lon in LONS]
OBJECTS = [thing(row, f"o{row}", row, lon=lon) for row, lon in enumerate(LONS, 1)]


def entered(number: int, rank: int, **changes: Any) -> Row:
    """The row of `answer_log` by which an object of OBJECTS enters."""
    fields = {"object_key": log_key(2, number), "ts": at(number), "value": METRES[number - 1], "rank": rank}
    return log_row(1, **fields) | changes


ANSWER = [entered(1, 1), entered(2, 2)]


def make_home(home: Home, request: Row, rows: Sequence[Row], objects: Sequence[Row] = OBJECTS) -> Home:
    """A home whose only batch took a subscription and objects, and logged these changes."""
    add_file(home, "requests", [request])
    add_file(home, "objects", objects)
    if rows:
        add_answer_rows(home, names.ANSWER_LOG, rows, part="change")
    add_batch(home, stream_time=max(row["ts"] for row in objects))
    return home


def explained(home: Home, object_id: str) -> tuple[Row, str]:
    """The explanation with the subscription `s`, which can be written as JSON, and its text."""
    document = explain(home, object_id, "s")
    json.dumps(document)
    return document, render_explain(document)


def test_the_rank_in_the_answer_and_by_how_much_another_missed_it(hand_home: Home) -> None:
    home = make_home(hand_home, NEAREST, ANSWER)
    document, text = explained(home, "o2")
    assert (document["state"], document["condition"], document["problem"]) == ("in answer", None, None)
    answer = document["pairs"][0]["answer"]
    assert (answer["rank"], answer["rows"], answer["distance_m"], answer["entered_in_batch"]) == (2, 2, METRES[1], 1)
    assert "IN ANSWER" in text and "at rank 2 of 2: its distance is 22,239.0 m; it entered in batch 1" in text

    document, text = explained(home, "o3")
    assert (document["state"], document["condition"], document["problem"]) == ("not in answer", "rank", None)
    answer = document["pairs"][0]["answer"]
    assert answer["rank"] == 3 and answer["missed_by"] == pytest.approx(METRES[2] - METRES[1])
    assert "33,358.5 m, 11,119.5 m more than that of the last one, 22,239.0 m; it would have rank 3" in text
    page = airflow_views.object_page(home.path, "o3", "s").text
    assert "it would have rank 3" in page and '<span class="state bad">not in answer</span>' in page


PROBLEMS: dict[str, tuple[list[Row], str, str]] = {
    "lacks": (ANSWER[:1], "o2", "lacks the object, though it is among the best"),
    "lacks another": (ANSWER[:1], "o3", "has 1 row, though 3 objects may be in it"),
    "a worse one": ([entered(1, 1), entered(3, 2)], "o3", "at rank 2, though 2 objects come before it"),
    "value": ([entered(1, 1, value=9.0), ANSWER[1]], "o1", "which are not its time and its value"),
    "time": ([entered(1, 1, ts=at(9)), ANSWER[1]], "o1", "which are not its time and its value"),
    "too many": ([*ANSWER, entered(3, 3)], "o3", "at rank 3, though it does not belong to it"),
}


@pytest.mark.parametrize("case", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_answers_that_contradict_the_rule(hand_home: Home, case: tuple[list[Row], str, str]) -> None:
    rows, object_id, problem = case
    document, text = explained(make_home(hand_home, NEAREST, rows), object_id)
    assert problem in (document["problem"] or "") and "THE TABLES DISAGREE" in text
    # After an erasure the next batch computes the answer again.
    commit_files(hand_home, names.OBJECTS, [], application=names.REMOVALS, transaction=0)
    document, _ = explained(hand_home, object_id)
    assert (document["state"], document["problem"]) == ("pending", None)


@pytest.mark.parametrize(
    ("changes", "condition", "reason"),
    [
        ({"keywords": "tea"}, "keywords", "does not have 'tea'"),
        ({"expires_at": at(2)}, "end", "expired at 2026-03-01T00:02:00Z, and stream time is 2026-03-01T00:03:00Z"),
        ({"effective_at": at(2)}, "created_at", "before the subscription begins"),
        ({"effective_at": at(5), "window_us": HOUR}, "created_at", "so it has no answer yet"),
    ],
)
def test_an_object_that_does_not_belong_to_an_answer_but_is_in_it(
    hand_home: Home, changes: Row, condition: str, reason: str
) -> None:
    home = make_home(hand_home, NEAREST | changes, ANSWER)
    document, text = explained(home, "o1")
    assert (document["state"], document["condition"]) == ("in answer", condition)
    assert document["problem"] == "the answer has the object at rank 1, though it does not belong to it"
    assert reason in text


def test_windows(hand_home: Home, empty_home: Path, tmp_path: Path) -> None:
    document, text = explained(make_home(hand_home, NEAREST | {"window_us": 60_000_000}, [entered(3, 1)]), "o2")
    assert (document["condition"], document["problem"]) == ("window", None)
    assert "the window of 1m begins after 2026-03-01T00:02:00Z" in text
    home = copy_of(empty_home, tmp_path / "count")
    make_home(home, NEAREST | {"window_objects": 2}, [entered(2, 1), entered(3, 2)])
    document, text = explained(home, "o1")
    assert (document["condition"], document["problem"]) == ("window", None)
    assert "2 objects are more recent, and the window has no more" in text


def test_the_parts_of_a_score(hand_home: Home) -> None:
    request = NEAREST | {"kind": "topk", "alpha": 0.25, "distance_scale_m": 100_000.0, "window_us": HOUR, "k": 1}
    score = 0.25 * (1 - METRES[0] / 100_000) + 0.75 * 0.5**0.5
    home = make_home(hand_home, request, [entered(1, 1, value=-score)])
    document, text = explained(home, "o1")
    answer = document["pairs"][0]["answer"]
    assert document["problem"] is None and answer["score"] == pytest.approx(score)
    assert answer["distance_part"] == pytest.approx(score - answer["text_part"])
    assert answer["words"] == {"coffee": 1.0} and answer["term_statistics_version"] == 0
    assert "coffee 1; by term statistics 0" in text
    assert "0.027799 less than that of the last one" in explained(home, "o2")[1]


def test_too_many_objects_to_compare(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_ranking, "MAX_SEARCHED", 1)
    home = make_home(hand_home, NEAREST, ANSWER)
    document, text = explained(home, "o3")
    assert (document["condition"], document["problem"]) == ("rank", None)
    assert document["pairs"][0]["answer"]["rank"] is None and "would have to be compared" in text
    assert explained(home, "o2")[0]["state"] == "in answer"


def test_what_waits_for_the_next_batch(hand_home: Home) -> None:
    home = make_home(hand_home, NEAREST, ANSWER)
    add_file(home, "objects", [thing(1, "late", 4), thing(2, "milk", 4, text="milk")])
    document, text = explained(home, "late")
    assert (document["state"], document["problem"]) == ("pending", None)
    assert "the object waits for the next batch" in text
    assert explained(home, "milk")[0]["condition"] == "keywords"
    add_file(home, "requests", [insertion(1, "t", kind="knn", keywords="coffee", k=2, **POINT)])
    assert explain(home, "o1", "t")["state"] == "pending"


REGION = insertion(1, "s", kind="frequent_terms", k=2, window_us=2 * HOUR, step_us=HOUR, keywords="unused")
TEXTS = [
    thing(1, "a", 10, text="tea coffee"),
    thing(2, "b", 20, text="tea milk"),
    thing(3, "outside", 20, lon=5.0, text="milk"),
    thing(4, "last", 70, text="?"),
]


def report(**counts: int) -> list[Row]:
    """The rows by which the report of the tick after 60 minutes enters."""
    return [
        log_row(1, ts=at(60), term=word, count=count, rank=rank) for rank, (word, count) in enumerate(counts.items(), 1)
    ]


def test_ticks_and_words_of_a_report(hand_home: Home) -> None:
    home = make_home(hand_home, REGION, report(tea=2, coffee=1), TEXTS)
    document, text = explained(home, "b")
    assert (document["state"], document["condition"], document["problem"]) == ("counted", None, None)
    assert document["pairs"][0]["answer"]["words"] == [
        {"word": "tea", "count": 2, "rank": 1, "missed_by": None},
        {"word": "milk", "count": 1, "rank": None, "missed_by": 0},
    ]
    assert "1 report counts the object, that of 2026-03-01T01:00:00Z, and 1 later one will" in text
    assert "has 1 of its 2 words" in text and "tea (rank 1, 2 objects)" in text
    assert "tea (rank 1, 2 objects)" in airflow_views.object_page(home.path, "b", "s").text
    for object_id, condition in (("outside", "region"), ("last", "words")):
        found = explained(home, object_id)[0]
        assert (found["state"], found["condition"]) == ("not counted", condition)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (report(tea=3, coffee=1), "has 'tea' 3 times, though 2 objects have it"),
        (report(tea=2), "lacks 'milk', though 1 object has it"),
        (report(tea=2, zoo=1), "lacks 'milk', though 1 object has it"),
        ([], "a report lacks, though the object belongs to it: that of 2026-03-01T01:00:00Z"),
    ],
)
def test_reports_that_contradict_the_objects(hand_home: Home, rows: list[Row], problem: str) -> None:
    document, _ = explained(make_home(hand_home, REGION, rows, TEXTS), "b")
    assert document["problem"] and problem in document["problem"]


@pytest.mark.parametrize(
    ("changes", "state", "condition"),
    [
        ({"effective_at": at(130)}, "not counted", "created_at"),
        ({"expires_at": at(60)}, "not counted", "end"),
        ({"step_us": 24 * HOUR}, "not counted", "window"),
        ({"effective_at": at(90)}, "pending", None),
    ],
)
def test_objects_that_no_report_counts(hand_home: Home, changes: Row, state: str, condition: str | None) -> None:
    document, _ = explained(make_home(hand_home, REGION | changes, [], TEXTS), "b")
    assert (document["state"], document["condition"], document["problem"]) == (state, condition, None)
