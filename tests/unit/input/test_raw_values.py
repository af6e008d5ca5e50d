"""Conversion of raw values into texts and numbers."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.input.raw_values import is_blank, is_plain, to_numbers, to_texts

NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(10**20), 10**20).map(str))


@given(st.lists(st.one_of(NUMBERS, st.text("0123456789.eE+- ", max_size=6)), max_size=6))
@settings(max_examples=400, deadline=None)
def test_numbers_are_those_of_float(texts: list[str]) -> None:
    numbers = to_numbers(pa.array(texts, pa.string()))
    for text, number in zip(texts, numbers):
        try:
            expected = float(text)
        except ValueError:
            expected = math.nan
        assert number == expected or (math.isnan(number) and math.isnan(expected))


@pytest.mark.parametrize("text", ["", " ", "x", "1,5", "1_000", "0x1p3", "１２", "NaN", "--1", "1e", "true"])
def test_texts_that_are_no_numbers(text: str) -> None:
    assert math.isnan(to_numbers(pa.array([text, "1"]))[0])


@pytest.mark.parametrize(("text", "number"), [(" 1.5\t", 1.5), ("+1", 1.0), (".5", 0.5), ("1.", 1.0), ("-1E-2", -0.01)])
def test_texts_that_are_numbers(text: str, number: float) -> None:
    assert to_numbers(pa.array([text, "x"]))[0] == number


@pytest.mark.parametrize(
    ("values", "numbers", "texts"),
    [
        (pa.array([1, None]), [1.0, math.nan], ["1", None]),
        (pa.array([1.0, 2.5, None]), [1.0, 2.5, math.nan], ["1", "2.5", None]),
        (pa.array([Decimal("1.50")]), [1.5], ["1.50"]),
        (pa.array([None], pa.null()), [math.nan], [None]),
        (pa.array(["x", None]), [math.nan, math.nan], ["x", None]),
    ],
)
def test_columns_of_other_types(values: pa.Array, numbers: list[float], texts: list[str | None]) -> None:
    np.testing.assert_array_equal(to_numbers(values), numbers)
    assert to_texts(values).to_pylist() == texts
    assert is_plain(values.type)


@pytest.mark.parametrize("values", [pa.array([True]), pa.array([[1]]), pa.array([{"a": 1}]), pa.array([b"x"])])
def test_values_that_are_neither(values: Any) -> None:
    assert not is_plain(values.type)
    assert np.isnan(to_numbers(values)).all()


def test_blank_values() -> None:
    assert is_blank(pa.array(["", " \t", None, "x", "0"])).tolist() == [True, True, True, False, False]
    assert is_blank(pa.array([None, 0])).tolist() == [True, False]


def test_nan_and_infinities_are_no_texts() -> None:
    assert to_texts(pa.array([1.0, math.nan, math.inf, -math.inf, None])).to_pylist() == ["1", None, None, None, None]
