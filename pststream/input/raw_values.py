"""Convert columns of raw input values to texts or numbers, mark the blank ones, and test that texts are valid UTF-8."""

import re
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import utf8_of
from pststream.input.row_chunks import ColumnChunk, Reject, to_display_text
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
    of = pa.types
    tests = (of.is_string, of.is_integer, of.is_floating, of.is_decimal, of.is_temporal, of.is_null)
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
        long = is_longer(values, LONGEST_NUMBER)
        if long.any():
            values = pc.if_else(pa.array(long), pa.scalar(None, pa.string()), values)
        try:
            return _floats(pc.cast(values, pa.float64()))
        except pa.ArrowInvalid:  # a text is not a number, or has white space around it
            return _texts_to_numbers(pc.utf8_trim_whitespace(values))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return _floats(pc.cast(values, pa.float64(), safe=False))
    return np.full(len(values), np.nan)


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


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_utf8_block(data: memoryview) -> bool:
    """Whether the bytes are UTF-8; as `is_utf8`, faster for many bytes and without the interpreter's lock."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds bytes or characters."""
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in text)


def is_all_utf8(table: pa.RecordBatch) -> bool:
    """Whether all text in the table is UTF-8."""
    try:
        for column in table.columns:
            if is_text(column.type):
                column.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def reject_invalid_utf8(chunk: ColumnChunk) -> ColumnChunk:
    """Move the rows with text that is not UTF-8 to the rejects of the chunk."""
    rejected = list(chunk.rejected)
    kept = np.ones(len(chunk.rows), dtype=bool)
    for name, column in zip(chunk.table.schema.names, chunk.table.columns):
        if not is_text(column.type):
            continue
        for i, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
            if kept[i] and value is not None and not is_utf8(value):
                kept[i] = False
                rejected.append(Reject(int(chunk.rows[i]), name, "invalid_utf8", to_display_text(value)))
    return ColumnChunk(chunk.file, chunk.rows[kept], chunk.table.filter(pa.array(kept)), rejected)
