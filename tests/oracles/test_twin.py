"""Compare the slow twin with cases worked out by hand, and the faster twin with the slow one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import worlds
from tests.fuzz.cases import examples
from tests.oracles import twin, twin_fast, twin_regions, twin_rows
from tests.oracles.twin_expressions import holds, parse, parts_of, words_of
from tests.oracles.twin_regions import distance_m, in_box
from tests.oracles.twin_rows import LogFile, time_us

HOUR = 3600


def second(n: int) -> str:
    """Return the epoch milliseconds of the n-th second of the test's time, as a text."""
    return str(1_700_000_000_000 + n * 1000)


def thing(object_id: str, at: int, text: str = "tea") -> dict[str, Any]:
    return {"object_id": object_id, "ts": second(at), "lon": 1.0, "lat": 2.0, "text": text}


def insert(subscription_id: str, start: int, end: int | None = None, words: str = "tea") -> dict[str, Any]:
    expires = None if end is None else int(second(end))
    return {
        "op": "insert",
        "subscription_id": subscription_id,
        "keywords": words,
        "bbox": [0, 0, 10, 10],
        "created_at": int(second(start)),
        "expires_at": expires,
    }


def delete(subscription_id: str, at: int) -> dict[str, Any]:
    return {"op": "delete", "subscription_id": subscription_id, "at": int(second(at))}


def outcome(folder: Path, *files: tuple[str, list[dict[str, Any]]], lateness: int = 10) -> twin.Outcome:
    """Run the twin on a log of files given as rows."""
    log = []
    for n, (kind, rows) in enumerate(files):
        path = folder / f"{n}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        log.append(LogFile(kind, path))
    return twin.outcome_of(log, lateness)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \t", []),
        ("Free COFFEE, free wi-fi!", ["free", "coffee", "free", "wi", "fi"]),
        ("snake_case 4ever", ["snake_case", "4ever"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("ﬁre", ["fire"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("東京 駅", ["東", "京", "駅"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ＡＢＣ１２", ["abc12"]),
        ("a·b", ["a", "b"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("tea", "tea", True),
        ("tea", "coffee", False),
        ("TEA", "tea", True),
        ("tea milk", "tea", False),
        ("tea milk", "milk in tea", True),
        ("tea OR milk sugar", "tea", True),
        ("tea OR milk sugar", "milk", False),
        ("(tea OR milk) sugar", "milk sugar", True),
        ("(tea OR milk) sugar", "tea", False),
        ("coffee AND (free OR cheap)", "cheap coffee", True),
        ("a AND (b OR (c AND d))", "a c", False),
        ("a AND (b OR (c AND d))", "a c d", True),
        ('this "or" that', "this or that", True),
        ('this "or" that', "this", False),
        ("or", "or", True),
        ("wi-fi", "fi", False),
        ("wi-fi", "fi wi", False),
        ("wi-fi", "free wi, fi", True),
        ('"free beer" OR tea', "beer free", False),
        ('"free beer" OR tea', "a free, beer", True),
        ('"a a b"', "a b a a", False),
        ('"a a b"', "a a a b", True),
        ("tea NOT milk", "tea", True),
        ("tea NOT milk", "tea milk", False),
        ('tea NOT "no milk"', "milk no tea", True),
        ("tea AND NOT (milk sugar)", "tea milk", True),
        ("NOT a OR b c", "a b", False),
        ("* AND NOT a", "", True),
        ("a(b)c", "a b c", True),
    ],
)
def test_expressions(expression: str, text: str, expected: bool) -> None:
    assert holds(parse(expression), parts_of(text)) is expected


@pytest.mark.parametrize(
    "expression", ["", "()", "(a", "a)", "AND", "a AND", "OR a", "a OR OR b", '"a', "!!!", "a AND AND b"]
)
def test_bad_expressions(expression: str) -> None:
    with pytest.raises(twin_rows.BadRow):
        parse(expression)


@pytest.mark.parametrize(
    ("point", "box", "expected"),
    [
        ((0, 0), (0, 0, 1, 1), True),
        ((1, 1), (0, 0, 1, 1), True),
        ((1, 0.5), (0, 0, 1, 1), True),
        ((1.0000001, 0.5), (0, 0, 1, 1), False),
        ((180, 0), (170, -1, -170, 1), True),
        ((-180, 0), (170, -1, -170, 1), True),
        ((-170, 1), (170, -1, -170, 1), True),
        ((0, 0), (170, -1, -170, 1), False),
        ((5, 90), (0, 80, 10, 90), True),
        ((5, 5), (5, 5, 5, 5), True),
        ((-180, -90), (-180, -90, 180, 90), True),
    ],
)
def test_boxes(point: tuple[float, float], box: tuple[float, float, float, float], expected: bool) -> None:
    assert in_box(*point, *box) is expected


def test_distances_known_by_geometry() -> None:
    quarter = twin_regions.EARTH_RADIUS_M * 3.141592653589793 / 2
    assert distance_m(0, 0, 0, 0) == 0
    assert distance_m(0, 0, 90, 0) == pytest.approx(quarter)
    assert distance_m(10, 90, -170, 0) == pytest.approx(quarter)
    assert distance_m(0, 0, 180, 0) == pytest.approx(2 * quarter)
    assert distance_m(179.5, 0, -179.5, 0) == pytest.approx(quarter / 90)
    assert distance_m(0, 90, 77, 90) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01", 0),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.250Z", 250),
        (250, 250),
        ("250", 250),
        ("-250", -250),
    ],
)
def test_times(value: Any, milliseconds: int) -> None:
    assert time_us(value) == milliseconds * 1000


@pytest.mark.parametrize("value", [None, "", "yesterday", "0000-01-01T00:00:00Z", "2026-13-01", True, 10**18])
def test_bad_times(value: Any) -> None:
    with pytest.raises(twin_rows.BadRow):
        time_us(value)


def test_validity_begins_included_and_ends_excluded(tmp_path: Path) -> None:
    objects = [thing(f"o{at}", at) for at in (4, 5, 6, 7, 8, 9)]
    result = outcome(tmp_path, ("objects", objects), ("requests", [insert("s", 5, 8)]))
    assert result.pairs == {("o5", "s"), ("o6", "s"), ("o7", "s")}


def test_late_rows_are_judged_by_the_files_before(tmp_path: Path) -> None:
    first = [thing("a", 100), thing("b", 50)]
    second_file = [thing("c", 89), thing("d", 90), thing("e", 200), thing("f", 95)]
    result = outcome(tmp_path, ("objects", first), ("objects", second_file), ("requests", [insert("s", 0)]))
    assert result.reasons("objects") == {"late": 1}
    assert {o for o, _ in result.pairs} == {"a", "b", "d", "e", "f"}


def test_a_rejected_row_moves_the_watermark_unless_it_is_bad(tmp_path: Path) -> None:
    bad = thing("x", 900) | {"lat": 91}
    files = [[thing("a", 100)], [thing("a", 300), bad], [thing("b", 289), thing("c", 290)]]
    result = outcome(tmp_path, *(("objects", rows) for rows in files))
    assert result.reasons("objects") == {"duplicate": 1, "bad_row": 1, "late": 1}
    assert result.accepted["objects"] == 2


def test_duplicates_in_a_file_and_within_the_lateness(tmp_path: Path) -> None:
    files = [
        [thing("a", 100), thing("a", 101), thing("b", 40)],
        [thing("a", 102), thing("b", 103), thing("c", 10), thing("c", 104)],
    ]
    result = outcome(tmp_path, *(("objects", rows) for rows in files))
    assert result.reasons("objects") == {"duplicate": 2, "late": 1}
    assert result.accepted["objects"] == 4, "b at 40 is older than the lateness, and the late c does not count"


def test_requests_that_do_not_apply(tmp_path: Path) -> None:
    requests = [
        delete("never", 5),
        insert("s", 10, 20),
        insert("s", 19, 30),
        delete("s", 10),
        delete("s", 15),
        delete("s", 15),
        insert("s", 15, 15),
        insert("s", 15),
        delete("s", 12),
    ]
    result = outcome(tmp_path, ("requests", requests))
    assert result.reasons("requests") == {
        "unknown_subscription": 2,
        "already_live": 1,
        "before_insertion": 2,
        "empty_validity": 1,
    }
    assert result.accepted["requests"] == 3


def test_incarnations_of_one_id(tmp_path: Path) -> None:
    requests = [insert("s", 10), delete("s", 12), insert("s", 14, words="milk"), delete("s", 16)]
    objects = [thing(f"o{at}", at, "tea milk" if at % 2 else "tea") for at in range(9, 18)]
    result = outcome(tmp_path, ("objects", objects), ("requests", requests))
    assert result.pairs == {("o10", "s"), ("o11", "s"), ("o15", "s")}


def test_the_same_file_twice_is_taken_once(tmp_path: Path) -> None:
    rows = [thing("a", 1)]
    result = outcome(tmp_path, ("objects", rows), ("objects", rows))
    assert (result.files_skipped, result.rows["objects"]) == (1, 1)


def test_columns_constants_and_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("x,y,a,b\n1,2,green,tea\n3,4,,tea\n,4,,tea\n")
    columns = {"object_id": "@row", "lon": "x", "lat": "y", "text": "a+b"}
    requests = tmp_path / "r.jsonl"
    requests.write_text(json.dumps(insert("s", 0, words="green tea")))
    log = [LogFile("objects", path, columns, {"ts": second(1)}), LogFile("requests", requests)]
    result = twin.outcome_of(log)
    ((name, _),) = result.pairs
    assert re.fullmatch("o.csv:[0-9a-f]{12}:1", name)
    assert (result.accepted["objects"], result.reasons("objects")) == (2, {"bad_row": 1})


@examples(25, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_faster_twin_agrees_on_random_worlds(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    written = worlds.write_world(tmp_path_factory.mktemp("world"), worlds.random_world(seed, 60, 60), seed)
    slow, fast = (judge.outcome_of(written.log, written.lateness_seconds) for judge in (twin, twin_fast))
    assert slow == fast
    assert slow.matches, "a world in which nothing matches judges nothing"


@examples(60, derandomize=True)
@given(world=worlds.worlds())
def test_the_faster_twin_agrees_on_small_worlds(tmp_path_factory: pytest.TempPathFactory, world: worlds.World) -> None:
    written = worlds.write_world(tmp_path_factory.mktemp("small"), world, 0)
    slow, fast = (judge.outcome_of(written.log, written.lateness_seconds) for judge in (twin, twin_fast))
    assert slow == fast
