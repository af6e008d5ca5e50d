"""Explain names the first condition that fails, by how much an object missed an answer, and inconsistent tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.queries.text.tokenizer import term_id
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
    add_plan,
    at,
    copy_of,
    deletion,
    halves,
    insertion,
    log_row,
    match_row,
    reject,
    thing,
)

Row = dict[str, Any]


def explained(home: Home, object_id: str = "o", subscription_id: str = "s") -> Row:
    """The explanation, which can be printed; its text is in `rendered`."""
    document = explain(home, object_id, subscription_id)
    json.dumps(document)
    return document | {"rendered": render_explain(document)}


def pair_of(home: Home, thing_row: Row, request_rows: Sequence[Row], matched: bool) -> Row:
    """The explanation of an object and a subscription that one batch took, under a plan of two workers."""
    add_plan(home, halves(2))
    asked = add_file(home, "requests", request_rows)
    seen = add_file(home, "objects", [thing_row])
    row = match_row(
        log_key(seen, thing_row["row"]), "o", 0, [log_key(asked, 1)], worker=1 if thing_row["lon"] >= 0 else 0
    )
    add_batch(home, [row] if matched else [])
    return explained(home)


def test_matched(hand_home: Home) -> None:
    found = pair_of(hand_home, thing(1, "o"), [insertion(1, "s")], True)
    assert (found["state"], found["condition"], found["problem"]) == ("matched", None, None)
    (pair,) = found["pairs"]
    assert pair["written_by"] == {"batch_id": 1, "plan_version": 1, "worker": 1}
    posting = pair["posting"]
    assert posting["word"] == "free"  # its clause is rarer than 'coffee', and 'cheap' is not in the text
    assert sorted(posting["clause"]) == ["cheap", "free"]
    assert (posting["unit"], posting["worker"], posting["plan_version"]) == (1, 1, 1)
    assert posting["column"] == 1 << posting["level"] >> 1  # the point is in the middle of the world
    assert "MATCHED" in found["rendered"]
    assert "word 'free'" in found["rendered"]


CIRCLE = {"bbox": None, "circle": {"lon": 0.0, "lat": 0.0, "radius_m": 100_000}}
EXPIRED = "expired at 2026-03-01T00:00:00Z, and the object is of 2026-03-01T00:00:00Z, exactly then"
GONE = [deletion(2, "s", -30, log_key(1, 1)), deletion(3, "s", -50, log_key(1, 1))]
CASES: dict[str, tuple[Row, Row, str, str]] = {
    "box": ({"lon": 3.0}, {}, "region", "2 degrees east of its east edge 1, about 222.4 km"),
    "antimeridian": ({"lon": 178.0}, {"bbox": [179, -1, -179, 1]}, "region", "1 degrees west of its west edge 179"),
    "corner": ({"lon": -1.5, "lat": 1.5}, {}, "region", "0.5 degrees north of its north edge 1 and 0.5 degrees west"),
    "circle": ({"lon": 1.0}, CIRCLE, "region", "111.2 km from the centre of a circle of 100 km, 11.2 km too far"),
    "keywords": ({"text": "Coffee here"}, {}, "keywords", "does not have any of 'cheap', 'free'"),
    "two clauses": ({"text": "tea"}, {}, "keywords", "does not have 'coffee'; nor any of"),
    "no text": ({"text": ""}, {}, "keywords", "it has no word"),
    "created_at": ({}, {"effective_at": at(30)}, "created_at", "30 minutes later"),
    "expired": ({}, {"expires_at": at(0)}, "end", EXPIRED),
    "deleted": ({}, {}, "end", "deleted as of 2026-02-28T23:10:00Z"),
    "region first": ({"lon": 3.0, "text": ""}, {"effective_at": at(30)}, "region", "outside"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_condition_that_fails(hand_home: Home, case: str) -> None:
    of_thing, of_request, condition, sentence = CASES[case]
    request_rows = [insertion(1, "s", **of_request), *(GONE if case == "deleted" else [])]
    found = pair_of(hand_home, thing(1, "o", **of_thing), request_rows, False)
    assert (found["state"], found["condition"], found["problem"]) == ("not matched", condition, None)
    assert sentence in found["reason"]
    assert found["reason"] in found["rendered"]
    assert found["pairs"][0]["posting"] is None


@pytest.mark.parametrize("edge", [{"lon": 1.0, "lat": 1.0}, {"lon": -1.0, "lat": 0.5}])
def test_edges_belong_to_the_region(hand_home: Home, edge: Row) -> None:
    assert pair_of(hand_home, thing(1, "o", **edge), [insertion(1, "s")], True)["problem"] is None


def test_pending_object(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    add_file(hand_home, "requests", [insertion(1, "s")])
    add_batch(hand_home)
    add_file(hand_home, "objects", [thing(1, "o")])
    found = explained(hand_home)
    assert (found["state"], found["problem"]) == ("pending", None)
    assert "the object waits for the next batch" in found["reason"]
    assert found["pairs"][0]["posting"]["worker"] == 1
    add_batch(hand_home, [match_row(log_key(2, 1), "o", 0, [log_key(1, 1)], worker=1)], done=False)
    assert explained(hand_home)["state"] == "pending"


def test_pending_before_the_first_plan(hand_home: Home) -> None:
    add_file(hand_home, "requests", [insertion(1, "s")])
    add_file(hand_home, "objects", [thing(1, "o")])
    found = explained(hand_home)
    assert "the object and the subscription wait for the next batch" in found["reason"]
    assert found["pairs"][0]["posting"] is None


def test_a_pending_deletion_retracts_the_pair_in_the_next_batch(hand_home: Home) -> None:
    assert pair_of(hand_home, thing(1, "o"), [insertion(1, "s")], True)["state"] == "matched"
    add_file(hand_home, "requests", [deletion(1, "s", -5, log_key(1, 1))])
    found = explained(hand_home)
    assert (found["state"], found["condition"], found["problem"]) == ("matched", "end", None)
    assert "the next batch retracts it" in found["reason"]
    add_batch(hand_home, [match_row(log_key(2, 1), "o", 0, [log_key(1, 1)], retracted=True, worker=-1)])
    found = explained(hand_home)
    assert (found["state"], found["condition"], found["problem"]) == ("not matched", "end", None)
    assert "batch 2 retracted it" in found["reason"]
    assert found["pairs"][0]["taken_back_by"] == 2


def test_unknown_ids(hand_home: Home) -> None:
    rows = [reject(7, "duplicate", "object_id", "gone"), reject(8, "wrong_field_count", "", "1,broken,x")]
    add_file(hand_home, "objects", [thing(1, "o")], rows)
    add_file(hand_home, "requests", [insertion(1, "s")], [reject(2, "already_live", "subscription_id", "twice")])
    nowhere = explained(hand_home, "nowhere", "s")
    assert nowhere["condition"] == "object_unknown"
    assert "pststream rejects" in nowhere["reason"]
    gone = explained(hand_home, "gone", "nobody")
    assert gone["condition"] == "object_unknown"
    assert "/landing/objects-1.jsonl, row 7: duplicate" in gone["rendered"]
    assert "row 8" in explained(hand_home, "broken", "s")["reason"]
    assert "row 8" not in explained(hand_home, "rok", "s")["reason"]
    twice = explained(hand_home, "o", "twice")
    assert twice["condition"] == "subscription_unknown"
    assert "already_live" in twice["reason"]


def test_rejected_twin_of_an_accepted_object_is_told(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "o", text="")], [reject(2, "duplicate", "object_id", "o")])
    add_file(hand_home, "requests", [insertion(1, "s")])
    found = explained(hand_home)
    assert found["condition"] == "keywords"
    assert "duplicate" in found["rendered"]


def test_every_object_and_every_life_best_first(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    lives = [
        insertion(1, "s", -60),
        deletion(2, "s", -30, log_key(1, 1)),
        insertion(3, "s", -20, keywords="tea"),
        deletion(4, "s", -15, log_key(1, 3)),
        insertion(5, "s", -10),
    ]
    add_file(hand_home, "requests", lives)
    add_file(hand_home, "objects", [thing(1, "o", -40), thing(2, "o", 0, lon=3.0)])
    add_batch(hand_home, [match_row(log_key(2, 1), "o", -40, [log_key(1, 1)], worker=1)])
    found = explained(hand_home)
    assert (found["objects"], found["subscriptions"], found["state"], found["problem"]) == (2, 3, "matched", None)
    conditions = [pair["condition"] for pair in found["pairs"]]
    assert conditions == [None, "created_at", "keywords", "region", "region", "region"]
    assert "6 pairs have these ids" in found["rendered"]


WRONG = {
    "missed": ([], "no batch wrote the pair"),
    "wrong worker": ([{"worker": 0}], "worker 0 wrote the pair, but worker 1 serves it"),
    "twice": ([{"worker": 1}, {"worker": 1}], "written 2 times"),
    "retracted": ([{"worker": 1}, {"worker": -1, "retracted": True}], "nothing ended the subscription"),
}


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_disagree(hand_home: Home, case: str) -> None:
    rows, problem = WRONG[case]
    add_plan(hand_home, halves(2))
    add_file(hand_home, "requests", [insertion(1, "s")])
    add_file(hand_home, "objects", [thing(1, "o")])
    add_batch(hand_home, [match_row(log_key(2, 1), "o", 0, [log_key(1, 1)], **row) for row in rows])
    found = explained(hand_home)
    assert problem in found["problem"]
    assert "THE TABLES DISAGREE" in found["rendered"]


def test_a_pair_that_should_not_be(hand_home: Home) -> None:
    found = pair_of(hand_home, thing(1, "o", text="tea"), [insertion(1, "s")], True)
    assert "does not satisfy" in found["problem"]


def test_stored_terms_of_another_text(hand_home: Home) -> None:
    wrong = thing(1, "o", terms=[term_id("tea")])
    assert "stored terms" in pair_of(hand_home, wrong, [insertion(1, "s")], True)["problem"]


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


def explained_answer(home: Home, object_id: str) -> tuple[Row, str]:
    """The explanation with the subscription `s`, which can be written as JSON, and its text."""
    document = explain(home, object_id, "s")
    json.dumps(document)
    return document, render_explain(document)


def test_the_rank_in_the_answer_and_by_how_much_another_missed_it(hand_home: Home) -> None:
    home = make_home(hand_home, NEAREST, ANSWER)
    document, text = explained_answer(home, "o2")
    assert (document["state"], document["condition"], document["problem"]) == ("in answer", None, None)
    answer = document["pairs"][0]["answer"]
    assert (answer["rank"], answer["rows"], answer["distance_m"], answer["entered_in_batch"]) == (2, 2, METRES[1], 1)
    assert "IN ANSWER" in text and "at rank 2 of 2: its distance is 22,239.0 m; it entered in batch 1" in text

    document, text = explained_answer(home, "o3")
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
    document, text = explained_answer(make_home(hand_home, NEAREST, rows), object_id)
    assert problem in (document["problem"] or "") and "THE TABLES DISAGREE" in text
    # After an erasure the next batch computes the answer again.
    commit_files(hand_home, names.OBJECTS, [], application=names.REMOVALS, transaction=0)
    document, _ = explained_answer(hand_home, object_id)
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
    document, text = explained_answer(home, "o1")
    assert (document["state"], document["condition"]) == ("in answer", condition)
    assert document["problem"] == "the answer has the object at rank 1, though it does not belong to it"
    assert reason in text


def test_windows(hand_home: Home, empty_home: Path, tmp_path: Path) -> None:
    document, text = explained_answer(make_home(hand_home, NEAREST | {"window_us": 60_000_000}, [entered(3, 1)]), "o2")
    assert (document["condition"], document["problem"]) == ("window", None)
    assert "the window of 1m begins after 2026-03-01T00:02:00Z" in text
    home = copy_of(empty_home, tmp_path / "count")
    make_home(home, NEAREST | {"window_objects": 2}, [entered(2, 1), entered(3, 2)])
    document, text = explained_answer(home, "o1")
    assert (document["condition"], document["problem"]) == ("window", None)
    assert "2 objects are more recent, and the window has no more" in text


def test_the_parts_of_a_score(hand_home: Home) -> None:
    request = NEAREST | {"kind": "topk", "alpha": 0.25, "distance_scale_m": 100_000.0, "window_us": HOUR, "k": 1}
    score = 0.25 * (1 - METRES[0] / 100_000) + 0.75 * 0.5**0.5
    home = make_home(hand_home, request, [entered(1, 1, value=-score)])
    document, text = explained_answer(home, "o1")
    answer = document["pairs"][0]["answer"]
    assert document["problem"] is None and answer["score"] == pytest.approx(score)
    assert answer["distance_part"] == pytest.approx(score - answer["text_part"])
    assert answer["words"] == {"coffee": 1.0} and answer["term_statistics_version"] == 0
    assert "coffee 1; by term statistics 0" in text
    assert "0.027799 less than that of the last one" in explained_answer(home, "o2")[1]


def test_too_many_objects_to_compare(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_ranking, "MAX_SEARCHED", 1)
    home = make_home(hand_home, NEAREST, ANSWER)
    document, text = explained_answer(home, "o3")
    assert (document["condition"], document["problem"]) == ("rank", None)
    assert document["pairs"][0]["answer"]["rank"] is None and "would have to be compared" in text
    assert explained_answer(home, "o2")[0]["state"] == "in answer"


def test_what_waits_for_the_next_batch(hand_home: Home) -> None:
    home = make_home(hand_home, NEAREST, ANSWER)
    add_file(home, "objects", [thing(1, "late", 4), thing(2, "milk", 4, text="milk")])
    document, text = explained_answer(home, "late")
    assert (document["state"], document["problem"]) == ("pending", None)
    assert "the object waits for the next batch" in text
    assert explained_answer(home, "milk")[0]["condition"] == "keywords"
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
    document, text = explained_answer(home, "b")
    assert (document["state"], document["condition"], document["problem"]) == ("counted", None, None)
    assert document["pairs"][0]["answer"]["words"] == [
        {"word": "tea", "count": 2, "rank": 1, "missed_by": None},
        {"word": "milk", "count": 1, "rank": None, "missed_by": 0},
    ]
    assert "1 report counts the object, that of 2026-03-01T01:00:00Z, and 1 later one will" in text
    assert "has 1 of its 2 words" in text and "tea (rank 1, 2 objects)" in text
    assert "tea (rank 1, 2 objects)" in airflow_views.object_page(home.path, "b", "s").text
    for object_id, condition in (("outside", "region"), ("last", "words")):
        found = explained_answer(home, object_id)[0]
        assert (found["state"], found["condition"]) == ("not counted", condition)


def test_pairs_and_stop_words_of_a_report(hand_home: Home) -> None:
    texts = [
        thing(1, "a", 10, text="東京 tea"),
        thing(2, "b", 20, text="the 東京駅"),
        thing(3, "c", 30, text="京東 tea"),
        thing(4, "last", 70, text="the 駅 tea!"),
    ]
    home = make_home(hand_home, REGION | {"stop_words": "tea the"}, report(東京=2, 京東=1), texts)
    document, _ = explained_answer(home, "b")
    assert (document["state"], document["problem"]) == ("counted", None)
    assert document["pairs"][0]["answer"]["words"] == [
        {"word": "東京", "count": 2, "rank": 1, "missed_by": None},
        {"word": "京駅", "count": 1, "rank": None, "missed_by": 0},
    ]
    found = explained_answer(home, "last")[0]
    assert (found["state"], found["condition"]) == ("not counted", "words")
    assert found["pairs"][0]["reason"] == "the object has no word to count, but for stop words"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (report(tea=3, coffee=1), "has 'tea' 3 times, though 2 objects have it"),
        (report(tea=2), "lacks 'milk', though 1 object has it"),
        (report(tea=2, zoo=1), "lacks 'milk', though 1 object has it"),
        ([], "the current report lacks 'milk', though 1 object has it"),
    ],
)
def test_reports_that_contradict_the_objects(hand_home: Home, rows: list[Row], problem: str) -> None:
    document, _ = explained_answer(make_home(hand_home, REGION, rows, TEXTS), "b")
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
    document, _ = explained_answer(make_home(hand_home, REGION | changes, [], TEXTS), "b")
    assert (document["state"], document["condition"], document["problem"]) == (state, condition, None)
