"""Requests that replace others: messages of the change, the replay of its batch, and the erasure of both subscriptions.

Subscriptions of each kind are replaced at noon by others that ask about elsewhere, or are of another kind.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home, new_home
from tests.replayed import replayed
from tests.worlds import write_rows

pytestmark = pytest.mark.e2e

Row = dict[str, Any]

NOON = "2026-03-01T12:00:00Z"
HERE, THERE = {"point": {"lon": 1.0, "lat": 1.0}}, {"point": {"lon": 5.0, "lat": 5.0}}
BOX_HERE, BOX_THERE = {"bbox": [0, 0, 2, 2]}, {"bbox": [4, 4, 6, 6]}
NEAREST = {"kind": "knn", "keywords": "*", "k": 2}


def thing(name: str, hour: int, place: float) -> Row:
    return {"object_id": name, "ts": f"2026-03-01T{hour:02}:00:00Z", "lon": place, "lat": place, "text": "tea"}


def asked(op: str, name: str, **fields: Any) -> Row:
    start = {"created_at": "2026-03-01T00:00:00Z"} if op == "insert" else {"at": NOON}
    return {"op": op, "subscription_id": name, **start, **fields}


def of_range(box: Row) -> Row:
    return {"keywords": "*", **box}


OBJECTS = [thing("a", 9, 1.0), thing("b", 13, 1.1), thing("c", 10, 5.0), thing("d", 14, 5.1)]
BEFORE = [
    asked("insert", "range", **of_range(BOX_HERE)),
    asked("insert", "near", **NEAREST, **HERE),
    asked("insert", "to-near", **of_range(BOX_HERE)),
    asked("insert", "to-range", **NEAREST, **HERE),
]
AFTER = [
    asked("replace", "range", **of_range(BOX_THERE)),
    asked("replace", "near", **NEAREST, **THERE),
    asked("replace", "to-near", **NEAREST, **HERE),
    asked("replace", "to-range", **of_range(BOX_THERE)),
]
MATCHES = {("a", "range"), ("d", "range"), ("a", "to-near"), ("d", "to-range")}
"""At noon: the new ones have what comes after it, the old ones keep what came before."""

ANSWERS = {("near", "d"), ("near", "b"), ("to-near", "b"), ("to-near", "d")}


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a batch of all objects, which the replaced ones match, and one of the replacements alone."""
    folder = tmp_path_factory.mktemp("replaced")
    home = new_home(folder / "home", workers=2, answer_buckets=2, delivery_seconds=600)
    home.add_sink("all", kind="file", target=str(folder / "all"))
    for requests, objects in ((BEFORE, OBJECTS), (AFTER, [])):
        home.ingest("requests", [write_rows(folder / f"requests-{len(objects)}.jsonl", requests)])
        if objects:
            home.ingest("objects", [write_rows(folder / "objects.jsonl", objects)])
        home.match()
        home.run("deliver")
    return home


def copy_of(home: Home, folder: Path) -> Home:
    return Home(shutil.copytree(home.path, folder / "home"))


def answers_of(home: Home) -> set[tuple[str, str]]:
    return {(row["subscription_id"], row["object_id"]) for row in home.run("answers")["answers"]}


def matches_of(home: Home) -> set[tuple[str, str]]:
    return {(thing, subscription) for thing, _, subscription in home.exported()}


def test_messages_retract_send_and_change_at_noon_in_one_batch(replaced: Home) -> None:
    assert matches_of(replaced) == MATCHES and answers_of(replaced) == ANSWERS
    files = sorted((replaced.path.parent / "all").iterdir())
    messages = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    of_second = Counter(
        (one["kind"], one["subscription"]["subscription_id"], one["object"]["object_id"])
        for one in messages
        if one["batch_id"] == 2
    )
    left = {("left", name, one): 1 for name in ("near", "to-range") for one in ("a", "b")}
    entered = {("entered", name, one): 1 for name, one in ANSWERS}
    matched = {("matched", "range", "d"): 1, ("matched", "to-range", "d"): 1}
    retracted = {("retracted", "range", "b"): 1, ("retracted", "to-near", "b"): 1}
    assert of_second == Counter(left | entered | matched | retracted)
    rows = {one["row"] for one in messages if one["kind"] == "entered" and one["batch_id"] == 2}
    assert len(rows) == 4, "each row that entered has an id of its own"
    assert rows.isdisjoint(one["row"] for one in messages if one["kind"] == "left")
    assert replaced.run("check")["success"]


def test_the_batch_of_the_replacements_is_replayed(replaced: Home) -> None:
    for arguments in (("--last", "1"), ("--last", "2"), ("--last", "2", "--planner", "hash")):
        document = replayed(replaced, *arguments)
        assert document["matches_equal"] and document["answers_equal"], arguments
        assert document["would_be"]["retractions"] == document["was"]["retractions"] == 2


@pytest.mark.parametrize("name", ["range", "near", "to-near", "to-range"])
def test_an_erasure_takes_both_subscriptions_of_an_id(replaced: Home, tmp_path: Path, name: str) -> None:
    home = copy_of(replaced, tmp_path)
    assert home.run("erase", "--subscription-id", name)["rows"]["requests"] == 2
    home.ingest("objects", [write_rows(tmp_path / "late.jsonl", [thing("e", 11, 1.2), thing("f", 15, 5.0)])])
    home.match()
    assert home.run("check")["success"]
    late = {("e", "range"), ("e", "to-near"), ("f", "range"), ("f", "to-range")}
    assert matches_of(home) == {(one, of) for one, of in MATCHES | late if of != name}
    assert {of for of, _ in answers_of(home)} == {"near", "to-near"} - {name}


def test_an_erased_object_leaves_the_old_and_the_new_answer(replaced: Home, tmp_path: Path) -> None:
    home = copy_of(replaced, tmp_path)
    home.run("erase", "--object-id", "b")
    home.ingest("objects", [write_rows(tmp_path / "late.jsonl", [thing("e", 16, 3.0)])])
    home.match()
    assert home.run("check")["success"]
    assert answers_of(home) == {("near", "d"), ("near", "e"), ("to-near", "d"), ("to-near", "e")}
