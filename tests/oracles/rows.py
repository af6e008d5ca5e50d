"""Slow twins of the readers: Python's own csv, json and datetime, one row at a time."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def csv_records(text: str) -> list[list[str]]:
    """The records of a CSV text; blank lines are none. A quote that is never closed runs to the end."""
    return [record for record in csv.reader(io.StringIO(text, newline="")) if record]


def csv_rows(text: str) -> dict[int, dict[str, str] | None]:
    """Number of each row to its fields by the header's names, None where there are too many or too few."""
    header, *records = csv_records(text)
    return {n: dict(zip(header, r)) if len(r) == len(header) else None for n, r in enumerate(records, start=1)}


def json_rows(content: bytes) -> dict[int, dict[str, Any] | None]:
    """Number of each line that is not blank to its object, None where it is none."""
    return {n: _object(line) for n, line in enumerate(content.split(b"\n"), start=1) if line.strip()}


def time_us(text: str) -> int | None:
    """Microseconds since 1970 of ISO 8601 (UTC without a zone) or digits (milliseconds); None if it is neither."""
    text = text.strip()
    if text.removeprefix("-").isdigit() and text.isascii():
        return int(text) * 1000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (found - EPOCH) // timedelta(microseconds=1)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None
