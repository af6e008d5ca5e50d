"""Changes of rows, compared with what a loop over the rows does, and the rejects that withdrawn objects have caused."""

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pststream.pipeline.upkeep import withdraw as module
from pststream.pipeline.upkeep.row_changes import (
    AnswersOf,
    LettersOf,
    MatchesOf,
    RejectsOf,
    RowsBelow,
    TextFinder,
    _lost_pairs,
    any_between,
)
from pststream.pipeline.upkeep.withdraw import Selection, count_caused_rejects, select_objects
from pststream.settings import Settings
from pststream.state.data_files import DataFile
from pststream.state.home import Home
from pststream.state.tables import RECORD
from pststream.tables.ledgers import log_key
from pststream.tables.log_events import NONE
from tests.fuzz.cases import seeds
from tests.unit.reports.commands.homes import add_file, at, reject, thing


def match_rows(rnd: random.Random, count: int) -> pa.RecordBatch:
    """Draw rows of matches, some with no subscriptions."""
    lists = [rnd.sample(range(12), rnd.randrange(5)) for _ in range(count)]
    columns = {
        "object_key": pa.array([rnd.randrange(20) for _ in range(count)], pa.int64()),
        "subscription_keys": pa.array(lists, pa.list_(pa.int64())),
        "retracted": pa.array([rnd.randrange(4) == 0 for _ in range(count)], pa.bool_()),
        "batch_id": pa.array([rnd.randrange(4) for _ in range(count)], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


@seeds(40)
def test_matches_of_objects_and_subscriptions(seed: int) -> None:
    rnd = random.Random(seed)
    rows = match_rows(rnd, rnd.randrange(40))
    rows = rows.slice(rnd.randrange(3))
    objects, subscriptions = (sorted(rnd.sample(range(20), rnd.choice((0, 1, 5)))) for _ in range(2))
    change = MatchesOf(np.array(objects, np.int64), np.array(subscriptions, np.int64), 0)
    stay, count = change.apply(rows)
    wanted, changed, lost = [], 0, {}
    for row in rows.to_pylist():
        left = [one for one in row["subscription_keys"] if one not in subscriptions]
        is_gone = row["object_key"] in objects or (not left and bool(row["subscription_keys"]))
        changed += is_gone or left != row["subscription_keys"]
        wanted += [] if is_gone else [row | {"subscription_keys": left}]
        fewer = len(row["subscription_keys"]) - (0 if is_gone else len(left))
        pairs = lost.setdefault(row["batch_id"], [0, 0])
        pairs[row["retracted"]] += fewer
    assert stay.to_pylist() == wanted and count == changed
    counts = _lost_pairs(rows, stay)
    found = dict(zip(counts.batch_ids.tolist(), zip(counts.pairs.tolist(), counts.retractions.tolist())))
    assert found == {batch: tuple(pairs) for batch, pairs in lost.items() if any(pairs)}


def test_files_without_the_keys_are_skipped() -> None:
    file = DataFile("f", 1, 1, low={"object_key": 10, "ts": 5}, high={"object_key": 20, "ts": 9})
    none = np.empty(0, np.int64)
    for keys, wanted in (([9, 21], False), ([9, 10], True), ([15], True), ([20], True), ([], False)):
        assert MatchesOf(np.array(keys, np.int64), none, 0).may_change(file) is wanted
    assert [MatchesOf(none, np.array([3]), since).may_change(file) for since in (9, 10)] == [True, False]
    assert [RowsBelow("matches", ("ts",), bound).may_change(file) for bound in (5, 6)] == [False, True]


def test_a_key_in_a_range_is_found_by_bisection() -> None:
    rnd = random.Random(1)
    for _ in range(200):
        known = sorted(rnd.sample(range(30), rnd.randrange(6)))
        low = rnd.randrange(30)
        high = low + rnd.randrange(5)
        assert any_between(known, low, high) == any(low <= one <= high for one in known)


@pytest.mark.parametrize(
    ("text", "sought", "wanted"),
    [
        ('{"object_id": "a/7", "lon"', "a/7", True),
        ('{"object_id": "xa/7"', "a/7", False),
        ("17,2026-01-01,3", "17", True),
        ("117,2026", "17", False),
        ('{"id": "caf\\u00e9"', "café", True),
        ("<td>a&amp;b&#39;s</td>", "a&b's", True),
        ("<td>a&lt;b</td>", "a<b", True),
        ('{"id": "a\\"b"}', 'a"b', True),
        ("several\nlines a\nb c", "a\nb", True),
        ("nothing", "", False),
        ("a.b", "a+b", False),
        ("x" * 400, "x" * 300, True),
    ],
)
def test_texts_are_found_as_words(text: str, sought: str, wanted: bool) -> None:
    assert TextFinder([sought]).search(pa.array([text, None])).tolist() == [wanted, False]


def test_beginnings_may_go_on() -> None:
    assert TextFinder([], ["a beginn"]).search(pa.array(["a beginning", "no a begin"])).tolist() == [True, False]
    assert TextFinder([f"id{n}" for n in range(1000)]).search(pa.array(["is id999", "id1000"])).tolist() == [
        True,
        False,
    ]


def test_rejects_that_name_an_id() -> None:
    rows = [
        ("objects", "object_id", "duplicate", "a", 1, None),
        ("requests", "subscription_id", "already live", "a", 1, None),
        ("objects", "object_id", "duplicate", "b", 1, "b"),
        ("objects", "", "not JSON", '{"object_id": "a", "te', 2, None),
        ("objects", "", "not JSON at a", None, 2, None),
        ("objects", "object_id", "duplicate", "a", 3, "a"),
        ("objects", "text", "too long", "the text of the row and more", 1, None),
        ("objects", "ts", "late", "2026-03-01", 2, "a"),
    ]
    names = ("kind", "field", "detail", "raw", "ingest_id")
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row)) for row in rows])
    records = [None if row[-1] is None else {"object_id": row[-1]} for row in rows]
    batch = batch.append_column("record", pa.array(records, RECORD))
    stay, count = RejectsOf("objects", ("a",), ("the text of the",), 2).apply(batch)
    kept = [next(n for n, row in enumerate(rows) if row[:5] == tuple(one.values())[:5]) for one in stay.to_pylist()]
    assert kept == [1, 2, 5] and count == 5


def test_answers_in_files_without_bounds_are_searched() -> None:
    """Parquet records no bounds of ids of more than 4,096 bytes."""
    unbounded, bounded = DataFile("a", 1, 1), DataFile("b", 1, 1, low={"object_id": "m"}, high={"object_id": "p"})
    cases = [(("x",), ()), (("n",), ()), ((), ("word",)), ((), ())]
    may = [[AnswersOf(*case).may_change(file) for file in (unbounded, bounded)] for case in cases]
    assert may == [[True, False], [True, True], [True, True], [False, False]]


def test_letters_of_objects_subscriptions_and_words() -> None:
    def rows_of(*words: str) -> list[dict[str, Any]]:
        return [{"rank": rank, "term": word, "count": 1} for rank, word in enumerate(words, 1)]

    bodies = [
        {"kind": "matched", "object": {"object_id": "a"}},
        {"kind": "entered", "object": {"object_id": "b"}},
        {"kind": "left", "object": {"object_id": None}},
        {"kind": "digest", "count": 150, "objects": [{"object_id": "a"}, {"object_id": "b"}]},
        {"kind": "digest", "count": 1, "objects": [{"object_id": "a"}]},
        {"kind": "digest", "count": 2, "reports": [{"tick": "t"}]},
        {"kind": "report", "left": rows_of("tea"), "entered": rows_of("secret", "cake")},
        {"kind": "report", "left": [], "entered": rows_of("secret")},
        {"kind": "report", "left": [], "entered": rows_of("tea")},
        {"kind": "report", "left": [], "entered": []},
    ]
    names = [("", "s")] * len(bodies) + [("", "gone"), ("ada", "gone")]
    rows = [
        {"owner": owner, "subscription_id": one, "message": json.dumps(body), "message_id": str(n)}
        for n, ((owner, one), body) in enumerate(zip(names, [*bodies, bodies[1], bodies[1]], strict=True))
    ]
    change = LettersOf(frozenset("a"), frozenset({("", "gone")}), frozenset({"secret"}))
    stay, count = change.apply(pa.RecordBatch.from_pylist(rows))
    left = {row["message_id"]: json.loads(row["message"]) for row in stay.to_pylist()}
    smaller = {"3": {**bodies[3], "count": 149, "objects": [{"object_id": "b"}]}}
    smaller["6"] = {**bodies[6], "entered": [{"rank": 2, "term": "cake", "count": 1}]}
    assert left == {str(n): bodies[n] for n in (1, 2, 5, 8, 9)} | smaller | {"11": bodies[1]} and count == 6


FILES, ROWS, TEXT = 6, 16, 1_000_000


def test_the_texts_of_all_rejects_are_never_in_memory(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    first = add_file(hand_home, "objects", [thing(1, "a"), thing(2, "wrong", 600)])
    fields = {"object_id": "b", "ts": at(1), "lon": 0.0, "lat": 0.0, "text": "x" * TEXT}
    late = [reject(row, "late", "ts") | {"record": fields} for row in range(1, ROWS + 1)]
    others = [
        reject(ROWS + 1, "duplicate", "object_id", name) | {"record": fields | {"object_id": name, "text": ""}}
        for name in ("wrong", "a")
    ]
    for number in range(FILES):
        add_file(hand_home, "objects", [], [*late, *others[:1]] if number else [*late, *others])
    base, held = pa.total_allocated_bytes(), []
    hash_texts = module.hash_texts

    def measured(*texts: np.ndarray) -> np.ndarray:
        held.append(pa.total_allocated_bytes() - base)
        return hash_texts(*texts)

    monkeypatch.setattr(module, "hash_texts", measured)
    selected = select_objects(hand_home, Settings(), Selection(object_ids=("wrong",)), NONE)
    assert selected.keys.tolist() == [log_key(first, 2)]
    caused = count_caused_rejects(hand_home, selected, NONE)
    assert caused["late"] == {"rows": FILES * ROWS}
    assert caused["duplicate"] == {"rows": FILES}
    assert [one["rows"] for one in caused["files"]] == [ROWS + 1] * FILES
    assert max(held) < 3 * ROWS * TEXT
