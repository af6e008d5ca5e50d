"""Explain names the first condition that fails, explains several rows of an id, and reports inconsistent tables."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from pststream.queries.text.tokenizer import term_id
from pststream.reports.commands.explain import explain, render_explain
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import (
    add_batch,
    add_file,
    add_plan,
    deletion,
    halves,
    insertion,
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


CASES = {
    "box": (thing(1, "o", lon=3.0), [insertion(1, "s")], "region", "2 degrees east of its east edge 1, about 222.4 km"),
    "antimeridian": (
        thing(1, "o", lon=178.0),
        [insertion(1, "s", bbox=[179.0, -1.0, -179.0, 1.0])],
        "region",
        "1 degrees west of its west edge 179",
    ),
    "corner": (
        thing(1, "o", lon=-1.5, lat=1.5),
        [insertion(1, "s")],
        "region",
        "0.5 degrees north of its north edge 1 and 0.5 degrees west",
    ),
    "circle": (
        thing(1, "o", lon=1.0),
        [insertion(1, "s", bbox=None, circle={"lon": 0.0, "lat": 0.0, "radius_m": 100_000})],
        "region",
        "111.2 km from the centre of a circle of 100 km, 11.2 km too far",
    ),
    "keywords": (
        thing(1, "o", text="Coffee here"),
        [insertion(1, "s")],
        "keywords",
        "does not have any of 'cheap', 'free'",
    ),
    "two clauses": (thing(1, "o", text="tea"), [insertion(1, "s")], "keywords", "does not have 'coffee'; nor any of"),
    "no text": (thing(1, "o", text=""), [insertion(1, "s")], "keywords", "it has no word"),
    "created_at": (thing(1, "o"), [insertion(1, "s", 30)], "created_at", "30 minutes later"),
    "expired": (
        thing(1, "o"),
        [insertion(1, "s", expires_at=thing(1, "o")["ts"])],
        "end",
        "expired at 2026-03-01T00:00:00Z, and the object is of 2026-03-01T00:00:00Z, exactly then",
    ),
    "deleted": (
        thing(1, "o"),
        [insertion(1, "s"), deletion(2, "s", -30, log_key(1, 1)), deletion(3, "s", -50, log_key(1, 1))],
        "end",
        "deleted as of 2026-02-28T23:10:00Z",
    ),
    "region first": (thing(1, "o", lon=3.0, text=""), [insertion(1, "s", 30)], "region", "outside"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_condition_that_fails(hand_home: Home, case: str) -> None:
    thing_row, request_rows, condition, sentence = CASES[case]
    found = pair_of(hand_home, thing_row, request_rows, False)
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
