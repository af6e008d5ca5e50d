"""Convert one question that is typed as texts, in options or a form, to the fields of a record."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pststream.base.errors import UsageError

TYPED_FIELDS = (
    *("keywords", "bbox", "circle", "geometry", "point", "k", "limit", "window", "alpha", "distance_scale_m", "as_of"),
    "version",
)
"""Fields of a typed question besides `kind`."""

_NAMES = {"bbox": (), "circle": ("lon", "lat", "radius_m"), "point": ("lon", "lat")}
"""Fields of several numbers: the names of the numbers, or none for a list of four."""


def record_of_texts(given: Mapping[str, str], named: Callable[[str], str]) -> dict[str, Any]:
    """Return the texts as the fields of a question; texts that are not converted are left to its parser.

    named  returns how a user knows a field, for errors
    Raises UsageError for a text that is not the numbers that its field needs.
    """
    record: dict[str, Any] = dict(given)
    for field, names in _NAMES.items():
        if field in record:
            numbers = _numbers(named(field), record[field], len(names) or 4)
            record[field] = dict(zip(names, numbers)) if names else numbers
    for field in ("k", "limit", "version"):
        if field in record and re.fullmatch(r"-?[0-9]{1,18}", record[field], re.ASCII):
            record[field] = int(record[field])
    for field in ("alpha", "distance_scale_m"):
        if field in record:
            record[field] = _numbers(named(field), record[field], 1)[0]
    match = re.fullmatch(r"objects=([0-9]{1,18})", record.get("window", ""), re.ASCII)
    return {**record, "window": {"objects": int(match[1])}} if match else record


def _numbers(name: str, text: str, count: int) -> list[float]:
    """Return comma-separated numbers; raises UsageError."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        expected = "a number is" if count == 1 else f"{count} numbers separated by commas are"
        raise UsageError(f"{name} {text}: {expected} expected")
    return numbers
