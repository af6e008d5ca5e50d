"""Parse the fields that several kinds share, of one record or of many in columns: keywords, point, window, region ...

The function for columns does for many rows what the one with a similar name does for one; rows with a value in a rare
form, or that is not valid, are marked and left to it.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.queries.kinds.contract import (
    EVERYTHING,
    LAT,
    LON,
    WINDOW_OBJECTS,
    WINDOW_US,
    ClauseTuples,
    FieldError,
    K,
    RequestLimits,
    Window,
    required_value,
)
from pststream.queries.kinds.keywords import is_every_object, parse_keyword_field
from pststream.queries.raw_fields import ParsedColumns, RawField
from pststream.queries.shapes.contract import Region, RegionError, RegionLimits, read_number, refuse_other_members
from pststream.queries.shapes.registry import read_region

_DURATION = re.compile(r"([0-9]{1,18})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

LONGEST_WINDOW_US = 300 * 366 * 86_400 * 1_000_000
"""300 years: longer windows are rejected. Any accepted time minus this is still a valid time."""

MOST_OBJECTS = 2**53
"""Greatest number of objects of a window."""


class AskedKeywords(NamedTuple):
    """Keywords as a parsed question has them."""

    clauses: ClauseTuples = ()
    verified: ClauseTuples = ()
    phrases: ClauseTuples = ()


def parse_keywords_of_question(record: Mapping[str, Any], limits: RequestLimits) -> AskedKeywords:
    """Return the field `keywords`; empty if every object counts: without keywords, and by `*`. Raises FieldError."""
    if record.get("keywords") in (None, "") or is_every_object(record["keywords"]):
        return AskedKeywords()
    stored = parse_keyword_field(record, limits)
    required = [clause for clause in stored.clauses if clause != [names.EVERY_OBJECT]]
    return AskedKeywords(*(tuple(map(tuple, part or ())) for part in (required, stored.verified, stored.phrases)))


def parse_point_field(record: Mapping[str, Any]) -> tuple[float, float]:
    """Return longitude and latitude of the field `point`: {"lon", "lat"}; raises FieldError."""
    value = required_value(record, "point")
    if not isinstance(value, Mapping):
        raise FieldError("point", "unreadable_point", value, "point: not an object with lon and lat")
    try:
        refuse_other_members("point", value, ("lon", "lat"))
        for name in ("lon", "lat"):
            if value.get(name) is None:
                raise RegionError("point", f"{name} is missing")
        return read_number("point", "lon", value["lon"], 180.0), read_number("point", "lat", value["lat"], 90.0)
    except RegionError as error:
        raise FieldError("point", "unreadable_point", value, str(error)) from None


def parse_count_field(record: Mapping[str, Any], name: str, most: int) -> int | None:
    """Return a whole number from 1 to `most`, None if there is none; raises FieldError."""
    value = record.get(name)
    if value is None or value == "":
        return None
    return _whole_number(name, name, value, most)


def parse_k_field(record: Mapping[str, Any], most: int) -> int:
    """Return the field `k`, a whole number from 1 to `most`; raises FieldError."""
    return _whole_number("k", "k", required_value(record, "k"), most)


def parse_number_field(record: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    """Return a number from `least` to `most`, None if there is none; raises FieldError."""
    value = record.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(name, "not_a_number", value, f"{name} is not a number")
    if not least <= value <= most:
        raise FieldError(name, "out_of_range", value, f"{name} {value} is outside {least:g}..{most:g}")
    return float(value)


def parse_window_field(record: Mapping[str, Any], counts_objects: bool) -> Window:
    """Return the window of a question: a duration such as "72h", or {"objects": N} if `counts_objects`.

    Raises FieldError.
    """
    value = record.get("window")
    if value is None or value == "":
        return EVERYTHING
    if isinstance(value, Mapping):
        if not counts_objects:
            raise FieldError("window", "unreadable_window", value, "window: this kind takes a duration, such as 72h")
        # Other members are null where a file has a struct for them.
        given = {name: part for name, part in value.items() if part is not None}
        if set(given) != {"objects"}:
            raise FieldError("window", "unreadable_window", value, 'window: not a duration and not {"objects": N}')
        return Window(objects=_whole_number("window", "objects", given["objects"], MOST_OBJECTS))
    return Window(micros=parse_duration("window", value))


def parse_required_window(record: Mapping[str, Any], counts_objects: bool) -> Window:
    """Return what `parse_window_field` does; raises FieldError also if there is no window, or one of no length."""
    window = parse_window_field(record, counts_objects)
    if window == EVERYTHING:
        raise FieldError("window", "missing", record)
    if window.micros == 0:
        raise FieldError("window", "out_of_range", record["window"], "window: of no length")
    return window


def parse_step_field(record: Mapping[str, Any]) -> int:
    """Return the field `step`, a duration such as "1h", in microseconds; raises FieldError."""
    value = required_value(record, "step")
    micros = parse_duration("step", value)
    if not micros:
        raise FieldError("step", "out_of_range", value, "step: of no length")
    return micros


def parse_duration(field: str, value: Any) -> int:
    """Return a duration such as "72h" in microseconds; raises FieldError."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise FieldError(field, "unreadable_window", value)
    micros = int(match[1]) * _SECONDS[match[2]] * 1_000_000
    if micros > LONGEST_WINDOW_US:
        raise FieldError(field, "out_of_range", value, f"{field}: longer than 300 years")
    return micros


def _whole_number(field: str, name: str, value: Any, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(field, "not_a_number", value, f"{name} is not a whole number")
    if not 1 <= value <= most:
        raise FieldError(field, "out_of_range", value, f"{name} {value} is outside 1..{most}")
    return value


# Columns

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


def parse_region_field(record: Mapping[str, Any], limits: RegionLimits) -> Region:
    """Return the region that one of the fields of shapes gives; raises FieldError."""
    try:
        return read_region(record, limits)
    except RegionError as error:
        if error.missing:
            raise FieldError(error.field, "missing", record, str(error)) from None
        raise FieldError(error.field, "unreadable_region", record.get(error.field), str(error)) from None
