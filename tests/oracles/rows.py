"""Slow twins of the readers: Python's own csv, json and datetime, one row at a time."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def csv_records(text: str) -> list[list[str]]:
    """Return the records of a CSV text without blank lines. An unclosed quote runs to the end."""
    return [record for record in csv.reader(io.StringIO(text, newline="")) if record]


def csv_rows(text: str) -> dict[int, dict[str, str] | None]:
    """Map the number of each row to its fields by the header's names, or None for too many or too few fields."""
    header, *records = csv_records(text)
    return {n: dict(zip(header, r)) if len(r) == len(header) else None for n, r in enumerate(records, start=1)}


def json_rows(content: bytes) -> dict[int, dict[str, Any] | None]:
    """Map the number of each line that is not blank to its JSON object, or None."""
    return {n: _object(line) for n, line in enumerate(content.split(b"\n"), start=1) if line.strip()}


def time_us(text: str) -> int | None:
    """Parse ISO 8601 (UTC without a zone) or digits (milliseconds) to microseconds since 1970; else None."""
    text = text.strip()
    if text.removeprefix("-").isdigit() and text.isascii():
        return int(text) * 1000
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    value = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (value - EPOCH) // timedelta(microseconds=1)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None
