"""Convert columns of raw input values to texts or numbers, and mark the blank ones."""

import re
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.buffers import utf8_of
from pststream.kernels.parsing.texts import begins_visibly

_PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_NUMBER = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
"""Every quantifier is possessive, so the time to match a text grows with its length and not with its square."""

LONGEST_NUMBER = 1_000
"""Bytes of a number that is written as a text; any float64 has a shorter form of as many digits as it needs."""
_MAX_WHOLE = 1e15


class NotFinite(str):
    """NaN or an infinity, which some programs write to JSON although JSON has neither."""


def is_plain(kind: pa.DataType) -> bool:
    """Whether values of this type are texts, numbers or times, not lists, objects, truth values or bytes."""
    tests = (
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_temporal,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def format_number(value: int | float) -> str:
    """A number as text; a whole number has no decimal point, even if it was written with one."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _MAX_WHOLE
    return str(int(value)) if whole else str(value)


def is_blank(values: pa.Array) -> np.ndarray:
    """Whether each value is null, or a text of white space only: bool[n]."""
    empty = pc.is_null(values).to_numpy(zero_copy_only=False)
    if not pa.types.is_string(values.type):
        return empty
    # Most texts begin with a visible ASCII character. Arrow, which knows white space of all scripts, judges the others.
    unsure = np.flatnonzero(~begins_visibly(*utf8_of(values)))
    if not len(unsure):
        return empty
    empty = empty.copy()
    trimmed = pc.utf8_trim_whitespace(values.take(pa.array(unsure)))
    empty[unsure] = pc.fill_null(pc.equal(trimmed, ""), True).to_numpy(zero_copy_only=False)
    return empty


def is_longer(texts: pa.Array, most: int) -> np.ndarray:
    """Whether each text has more than `most` bytes: bool[n]; a null has none."""
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) <= most:
        return np.zeros(len(texts), bool)
    return pc.fill_null(pc.greater(sizes, most), False).to_numpy(zero_copy_only=False)


def to_texts(values: pa.Array) -> pa.Array:
    """Values of a plain type as string; null and NaN, which often stands for a missing value, become null."""
    if pa.types.is_floating(values.type):
        finite = [None if v is None or not isfinite(v) else format_number(v) for v in values.to_pylist()]
        return pa.array(finite, pa.string())
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def to_numbers(values: pa.Array) -> np.ndarray:
    """Values as numbers, float64[n]; NaN where a value is not a number."""
    if pa.types.is_string(values.type):
        values = _without_long(values)
        try:
            return _floats(pc.cast(values, pa.float64()))
        except pa.ArrowInvalid:  # a text is not a number, or has white space around it
            return _texts_to_numbers(pc.utf8_trim_whitespace(values))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return _floats(pc.cast(values, pa.float64(), safe=False))
    return np.full(len(values), np.nan)


def _without_long(texts: pa.Array) -> pa.Array:
    """Return the texts with null for those that are longer than any number."""
    long = is_longer(texts, LONGEST_NUMBER)
    return pc.if_else(pa.array(long), pa.scalar(None, pa.string()), texts) if long.any() else texts


def _texts_to_numbers(texts: pa.Array) -> np.ndarray:
    try:
        return _floats(pc.cast(texts, pa.float64()))
    except pa.ArrowInvalid:  # a text is not a number
        usual = pc.fill_null(pc.match_substring_regex(texts, _PLAIN_NUMBER), False)
        numbers = _floats(pc.cast(pc.if_else(usual, texts, pa.scalar(None, pa.string())), pa.float64()))
        for i in np.flatnonzero(~usual.to_numpy(zero_copy_only=False)):
            text = texts[int(i)].as_py()
            if text is not None and _NUMBER.fullmatch(text):
                numbers[i] = float(text)
        return numbers


def _floats(values: pa.Array) -> np.ndarray:
    return np.array(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False))
