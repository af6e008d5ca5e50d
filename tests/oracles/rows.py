"""Slow twins of the readers: Python's own csv, json and datetime, one row at a time."""

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
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


AMBIGUOUS = -1
"""Microseconds that stand for a number of unclear unit; no time of the tests."""


def time_us(text: str, unit: str | None = "ms") -> int | None:
    """Parse ISO 8601 (UTC without a zone) or a number to microseconds since 1970; else None."""
    text = text.strip()
    if text.isascii() and text.lstrip("+-")[:1].isdigit() and not set(text) - set("0123456789+-.eE"):
        try:
            return _number_us(Fraction(float(text)), unit)
        except ValueError:
            pass
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    value = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (value - EPOCH) // timedelta(microseconds=1)


def _number_us(number: Fraction, unit: str | None) -> int | None:
    if unit == "s":
        return round(number * 10**6)
    if unit is None:
        digits = str(number)
        if len(digits) == 4 and digits.isdigit():
            return None
        day = _day(digits)
        if len(digits) == 8 and day:
            return (day - EPOCH.date()).days * 86_400 * 10**6
        spells = day and int(digits[8:10] or 0) <= 24 and int(digits[10:12] or 0) < 60 and int(digits[12:] or 0) <= 60
        if spells and (len(digits) == 14 or (len(digits) == 12 and 1900 <= day.year < 2200)):
            return AMBIGUOUS
        if number < (datetime(1973, 1, 1, tzinfo=UTC) - EPOCH) / timedelta(milliseconds=1):
            return AMBIGUOUS
    return int(number) * 1000 if number.denominator == 1 else None


def _day(digits: str) -> date | None:
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8])) if digits.isdigit() else None
    except ValueError:
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except (ValueError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None
