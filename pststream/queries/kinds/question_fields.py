"""Parse the fields that several kinds of questions and requests share: keywords, point, numbers, window, duration."""

import re
from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.contract import FieldError, RequestLimits
from pststream.queries.kinds.keywords import parse_keyword_field
from pststream.queries.kinds.question_contract import EVERYTHING, Window
from pststream.queries.shapes.region import RegionError, read_number

_DURATION = re.compile(r"([0-9]{1,18})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

LONGEST_WINDOW_US = 300 * 366 * 86_400 * 1_000_000
"""300 years: longer windows are rejected. Any accepted time minus this is still a valid time."""

MOST_OBJECTS = 2**53
"""Greatest number of objects of a window."""


def parse_keywords_of_question(record: Mapping[str, Any], limits: RequestLimits) -> tuple[tuple[int, ...], ...]:
    """Return the clauses of the field `keywords`; none if a question has no keywords, so that every object counts."""
    if record.get("keywords") in (None, ""):
        return ()
    _, clauses = parse_keyword_field(record, limits)
    return tuple(map(tuple, clauses))


def parse_point_field(record: Mapping[str, Any]) -> tuple[float, float]:
    """Return longitude and latitude of the field `point`: {"lon", "lat"}; raises FieldError."""
    value = record.get("point")
    if value is None or value == "":
        raise FieldError("point", "missing", record)
    if not isinstance(value, Mapping):
        raise FieldError("point", "unreadable_point", value, "point: not an object with lon and lat")
    for name in ("lon", "lat"):
        if value.get(name) is None:
            raise FieldError("point", "unreadable_point", value, f"point: {name} is missing")
    try:
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
    k = parse_count_field(record, "k", most)
    if k is None:
        raise FieldError("k", "missing", record)
    return k


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
    value = record.get("step")
    if value is None or value == "":
        raise FieldError("step", "missing", record)
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
