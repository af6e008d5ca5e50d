"""Parse the fields that kinds with memory share in columns: point, k, numbers, window, durations.

Each function does for many rows what the function of `question_fields` with a similar name does for one; rows with a
value in a rare form, or that is not valid, are marked and left to it.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from pststream.queries.kinds.contract import FieldError
from pststream.queries.kinds.question_fields import MOST_OBJECTS, parse_duration
from pststream.queries.kinds.stored_columns import LAT, LON, WINDOW_OBJECTS, WINDOW_US, K
from pststream.queries.raw_fields import ParsedColumns, RawField

_FIRST_INEXACT = 2.0**53
"""Whole numbers from here on may differ from the float64 that they are read as."""


def parse_point_column(field: RawField) -> ParsedColumns:
    """Parse the field `point` into the columns LON and LAT."""
    numbers, read = field.number_members(("lon", "lat"))
    lon, lat = numbers.T
    columns = {LON.name: pa.array(lon), LAT.name: pa.array(lat)}
    return ParsedColumns(columns, read & (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0))


def parse_k_column(field: RawField, most: int) -> ParsedColumns:
    """Parse the field `k` into the column K."""
    numbers, read = field.numbers()
    k, whole = _to_whole(numbers, read, most)
    return ParsedColumns({K.name: pa.array(k)}, whole)


def parse_number_column(field: RawField, least: float, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers from `least` to `most`, float64[n], and which rows have one: bool[n]."""
    numbers, read = field.numbers()
    return numbers, read & (numbers >= least) & (numbers <= most)


def parse_window_column(field: RawField, counts_objects: bool, required: bool = True) -> ParsedColumns:
    """Parse the field `window` of requests into the columns WINDOW_US and, if `counts_objects`, WINDOW_OBJECTS.

    required: whether rows without the field are left to the row parser
    """
    micros, read = parse_duration_column(field)
    columns = {WINDOW_US.name: pa.array(micros, mask=~read)}
    parsed = read if required else read | ~field.filled
    if counts_objects:
        numbers, is_object = field.number_members(("objects",))
        objects, whole = _to_whole(numbers[:, 0], is_object, MOST_OBJECTS)
        columns[WINDOW_OBJECTS.name] = pa.array(objects, mask=~whole)
        parsed = parsed | whole
    return ParsedColumns(columns, parsed)


def parse_duration_column(field: RawField) -> tuple[np.ndarray, np.ndarray]:
    """Return durations in microseconds, int64[n], and which rows have one that is not zero: bool[n].

    Each text is parsed once, as many rows have the same one.
    """
    texts = field.texts().dictionary_encode()
    micros = np.array([*map(_micros_of, texts.dictionary.to_pylist()), 0], np.int64)[texts.indices.fill_null(-1)]
    return micros, micros > 0


def join_columns(parts: Collection[ParsedColumns]) -> ParsedColumns:
    """Return the columns of all parts, and the rows that all of them parsed."""
    columns = {name: column for part in parts for name, column in part.columns.items()}
    return ParsedColumns(columns, np.logical_and.reduce([part.parsed for part in parts]))


def _micros_of(text: str) -> int:
    try:
        return parse_duration("", text)
    except FieldError:
        return 0


def _to_whole(numbers: np.ndarray, read: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers as int64[n], and which are whole and from 1 to `most`: bool[n]; 0 in place of the others."""
    whole = read & (numbers >= 1) & (numbers < _FIRST_INEXACT) & (numbers == np.floor(numbers))
    values = np.where(whole, numbers, 0).astype(np.int64)
    return values, whole & (values <= most)
