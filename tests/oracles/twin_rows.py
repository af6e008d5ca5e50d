"""Read rows, and the fields of any row, from input files: the part of `twin.py` on files."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, dict[str, Any] | None]


class BadRow(Exception):
    """The row breaks a row rule."""


@dataclass(frozen=True)
class LogFile:
    """A file of the log with its ingestion options."""

    kind: str
    path: Path
    columns: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    same_round: bool = False
    """Whether one run has found it with the landed file of its kind before it."""


def content_of(path: Path) -> bytes:
    """Read and decompress a file."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(raw)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(raw).read()
    return raw


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, numbered from 1; None for an unreadable row."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    content = content_of(path)
    if name.endswith(".parquet"):
        yield from enumerate(pq.read_table(io.BytesIO(content)).to_pylist(), start=1)
    elif name.endswith(".csv"):
        yield from _csv_rows(content.decode("utf-8-sig"))
    else:
        yield from _json_rows(content)


def _csv_rows(text: str) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(text, newline=""))
    header = next(lines)
    for n, line in enumerate(lines, start=1):
        yield n, dict(zip(header, line, strict=True)) if len(line) == len(header) else None


def _json_rows(content: bytes) -> Iterator[Row]:
    for n, line in enumerate(content.splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        yield n, record if isinstance(record, dict) else None


def field_of(file: LogFile, row: dict[str, Any], n: int, name: str) -> Any:
    """Return the value of a field, by the renamed columns and constants of the file."""
    if name in file.constants:
        return file.constants[name]
    source = file.columns.get(name, name)
    if source == "@row":
        return f"{file.path.name}:{hashlib.sha256(file.path.read_bytes()).hexdigest()[:12]}:{n}"
    if "+" in source:
        return " ".join(parts_of_text(file, row))
    value = row.get(source)
    return None if value == "" else value


def parts_of_text(file: LogFile, row: dict[str, Any]) -> list[str]:
    """Return the texts of the columns that are joined into the field `text`; none if it is not joined."""
    names = file.columns.get("text", "").split("+")
    return [str(row[name]) for name in names if row.get(name) not in (None, "")] if len(names) > 1 else []


def time_us(value: Any) -> int:
    """Convert an ISO 8601 text or epoch milliseconds to microseconds since 1970; UTC without a zone."""
    if isinstance(value, bool) or value is None:
        raise BadRow("no time")
    if isinstance(value, int):
        return _checked_us(value * 1000)
    if isinstance(value, float):
        raise BadRow("a time with a fraction")
    if isinstance(value, datetime):
        return _datetime_us(value)
    if isinstance(value, date):
        return _datetime_us(datetime(value.year, value.month, value.day))
    text = str(value).strip()
    if text.lstrip("-").isdigit() and text.isascii():
        return _checked_us(int(text) * 1000)
    try:
        return _datetime_us(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise BadRow(f"{text!r} is no time") from None


def _datetime_us(value: datetime) -> int:
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return (aware - EPOCH) // timedelta(microseconds=1)


def _checked_us(us: int) -> int:
    if not -62_135_596_800_000_000 <= us <= 253_402_300_799_999_999:
        raise BadRow("outside the years 1 to 9999")
    return us


def number(value: Any, low: float, high: float) -> float:
    """Read a finite number within bounds."""
    if isinstance(value, bool) or value is None:
        raise BadRow("no number")
    try:
        read = float(value)
    except (TypeError, ValueError):
        raise BadRow(f"{value!r} is no number") from None
    if not low <= read <= high:
        raise BadRow(f"{read} is out of range")
    return read


def identifier(value: Any) -> str:
    """Read an id: a text that is not empty, or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise BadRow(f"{value!r} is no id")
    return str(value)


def meets(where: Any, attributes: dict[str, Any]) -> bool:
    """Whether attributes, as a row has them, satisfy the field `where`, an object or its JSON text; None: all do."""
    asked = json.loads(where) if isinstance(where, str) else where
    return all(_passes(attributes.get(name), test) for name, test in (asked or {}).items())


def _passes(value: Any, test: Any) -> bool:
    if isinstance(test, dict) and "exists" in test:
        return (value not in (None, "")) == test["exists"]
    if isinstance(test, dict):
        sides = {"gt": "__gt__", "gte": "__ge__", "lt": "__lt__", "lte": "__le__"}
        for operator, bound in test.items():
            given, limit = (_moment_of(one) if isinstance(bound, str) else _number_of(one) for one in (value, bound))
            if given is None or not getattr(given, sides[operator])(limit):
                return False
        return True
    return any(_is_equal(value, one) for one in (test if isinstance(test, list) else [test]))


def _is_equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, str):
        return value == wanted or (isinstance(value, datetime) and _moment_of(value) == _moment_of(wanted))
    return _number_of(value) == wanted


def _number_of(value: Any) -> float | None:
    if value is None or isinstance(value, bool | datetime):
        return None
    try:
        return float(value) if not isinstance(value, str) or value.strip()[:1] in "+-.0123456789" else None
    except (TypeError, ValueError):
        return None


def _moment_of(value: Any) -> int | None:
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        return _datetime_us(moment) if isinstance(moment, datetime) else None
    except ValueError:
        return None


def raw_attributes(stored: list[tuple[str, dict[str, str]]] | None) -> dict[str, Any]:
    """Return a value of the column `attributes` of the table `objects` as a row has it."""
    read = {"number": float, "boolean": {"true": True, "false": False}.__getitem__, "time": datetime.fromisoformat}
    return {name: read.get(one["type"], str)(one["value"]) for name, one in stored or ()}
