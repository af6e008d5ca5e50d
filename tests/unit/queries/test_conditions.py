"""Conditions on attributes: what is read and what is refused; compiled ones are met by the objects of the twin."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pststream.base.arrow_columns import ATTRIBUTES
from pststream.queries import conditions
from pststream.queries.conditions import (
    Evaluation,
    compile_conditions,
    first_failed_test,
    keep_names,
    parse_where_field,
    read_attributes,
)
from pststream.queries.kinds.contract import FieldError
from tests.fuzz.cases import seeds

TEXTS = (
    *("robbery", "theft", "5", "5.0", " 5", "1e1", "007", "+.5", "5.", "-0", "1e999", "nan", "0x5", "1_0", "\n5", ""),
    *("a:b", "true", "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 01:00+01:00", "2026-02-30", "0000-01-01"),
    *("2024-02-29T23:59:59.9999999", "2026-01-01T24:00", "20260101", "2026-01-01T00:00:00.000001"),
)
VALUES = {
    "text": TEXTS,
    "number": ("5", "5.0", "-3", "0", "1e1", "0.5", "9007199254740993"),
    "boolean": ("true", "false"),
    "time": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    "json": ('{"a": 1}', "[5]"),
}
BOUNDS = ((5, -3, 0, 0.5, 10, 1e300), ("2026-01-01", "2026-01-01T00:00:00.000001Z", "2026-01-01 02:00:00+01:00"))


def some_object(rnd: random.Random) -> list[tuple[str, dict[str, str] | None]] | None:
    if rnd.random() < 0.1:
        return None
    present = [name for name in "abcd" if rnd.random() < 0.7]
    kinds = [rnd.choice((*VALUES, "text", "text")) for _ in present]
    return [
        (name, {"type": kind, "value": rnd.choice(VALUES[kind])} if rnd.random() < 0.95 else None)
        for name, kind in zip(present, kinds)
    ]


def some_test(rnd: random.Random) -> Any:
    if rnd.random() < 0.1:
        return {"exists": rnd.random() < 0.5}
    if rnd.random() < 0.4:
        bounds = rnd.choice(BOUNDS)
        sides = rnd.choice((("gt",), ("gte",), ("lt",), ("lte",), ("gt", "lte"), ("gte", "lt")))
        return {side: rnd.choice(bounds) for side in sides}
    values = [rnd.choice((*TEXTS, 5, 0, True, False, 10, 0.5)) for _ in range(rnd.choice((1, 1, 2, 3, 9)))]
    return values if len(values) > 1 else values[0]


@seeds(3)
@pytest.mark.parametrize("most_cells", [1 << 24, 100])
def test_compiled_conditions_hold_for_the_objects_of_the_twin(monkeypatch, seed: int, most_cells: int) -> None:
    monkeypatch.setattr(conditions, "_MOST_CELLS", most_cells)
    rnd, asked = random.Random(seed), []
    while len(asked) < 150:
        where = {name: some_test(rnd) for name in rnd.sample("abcd", rnd.choice((1, 1, 2, 3)))}
        try:
            asked.append((where, parse_where_field({"where": where})))
        except FieldError as error:
            assert "no value lies within" in error.detail
    objects = [some_object(rnd) for _ in range(150)]
    column = pa.array([[("z", None)], *objects], ATTRIBUTES).slice(1)
    compiled = compile_conditions([text for _, text in asked])
    pairs = np.indices((len(asked), len(objects))).reshape(2, -1)
    held = Evaluation(compiled, read_attributes([column])).holds(*pairs)
    kept = keep_names(column, compiled.names.slice(0, 2), ATTRIBUTES)
    assert {name for one in kept.to_pylist() for name, _ in one} <= set(compiled.names[:2].to_pylist())
    assert 500 < held.sum() < len(held) / 2
    for (place, row), holds in zip(pairs.T.tolist(), held.tolist(), strict=True):
        where, text = asked[place]
        stored = [(name, value) for name, value in objects[row] or () if value]
        assert (first_failed_test(text, dict(stored)) is None) == holds, (where, stored)


def test_the_canonical_form_is_one_for_equal_conditions() -> None:
    given = {"b": [5.0, "x", True, 5], "a": {"gte": "2026-01-01 01:00+01:00", "lt": "2026-02-01"}, "c": ["y"]}
    canonical = '{"a":{"gte":"2026-01-01T00:00:00Z","lt":"2026-02-01T00:00:00Z"},"b":[true,5,"x"],"c":"y"}'
    assert parse_where_field({"where": given}) == canonical
    assert parse_where_field({"where": canonical}) == canonical
    assert parse_where_field({"where": None}) is None


@pytest.mark.parametrize(
    ("where", "detail"),
    [
        ({}, "no object with conditions"),
        ([], "no object with conditions"),
        ("x", "cannot be read"),
        ("", "cannot be read"),
        ({"a": None}, '{"exists": false}'),
        ({"a": []}, "empty list"),
        ({"a": [["x"]]}, "neither text, number"),
        ({"a": {}}, "no bound"),
        ({"a": {"ge": 5}}, "did you mean gte?"),
        ({"a": {"min": 5}}, "did you mean gte?"),
        ({"a": {"exist": True}}, "did you mean exists?"),
        ({"a": {"eq": 5}}, "given as they are"),
        ({"a": {"gte": "5"}}, "without quotes"),
        ({"a": {"gte": "m"}}, "neither a number nor a time"),
        ({"a": {"gte": True}}, "neither a number nor a time"),
        ({"a": {"gte": 5, "gt": 3}}, "gt or gte, not both"),
        ({"a": {"gte": 5, "lt": 5}}, "no value lies within"),
        ({"a": {"gte": 5, "lt": "2026-01-01"}}, "one is a time"),
        ({"a": {"exists": True, "gt": 3}}, "stands alone"),
        ({"ts": {"gte": "2026-01-01"}}, '"_ts"'),
        ({"a": 2**53 + 1}, "text in quotes"),
        ({"a": 1e400}, "not finite"),
        ({"a": "\ud800"}, "surrogates"),
        ({str(number): 1 for number in range(33)}, "more than 32"),
        ({"a": list(range(1001))}, "more than 1000"),
        ({"a": "x" * 20_000}, "more than 16384"),
    ],
)
def test_what_is_no_condition_is_refused_with_advice(where: Any, detail: str) -> None:
    with pytest.raises(FieldError) as fault:
        parse_where_field({"where": where})
    assert (fault.value.field, fault.value.reason) == ("where", "unreadable_where")
    assert detail in fault.value.detail


def test_the_test_that_fails_first_is_named() -> None:
    condition = parse_where_field({"where": {"offense": ["robbery", "fraud"], "magnitude": {"gte": 5}}})
    stored = {"magnitude": {"type": "text", "value": "7"}, "offense": {"type": "text", "value": "theft"}}
    said = """the attribute 'offense' is 'theft' (text), and the condition is ["fraud", "robbery"]"""
    assert first_failed_test(condition, stored) == said
    assert first_failed_test(condition, {}) == "the attribute 'magnitude' is absent, and the condition is {\"gte\": 5}"
    assert first_failed_test(condition, stored | {"offense": {"type": "text", "value": "fraud"}}) is None
