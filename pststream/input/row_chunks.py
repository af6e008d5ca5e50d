"""Define what readers return: chunks of raw rows, and rejects with their reasons; check the columns of a file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.errors import InputFileError
from pststream.queries.raw_fields import RawFields
from pststream.tables.ledgers import MAX_ROW

REASONS: dict[str, str] = {
    # The row cannot be read.
    "invalid_utf8": "the bytes are not UTF-8",
    "wrong_field_count": "the row has more or fewer fields than the header",
    "unclosed_quote": "a quote opens a field and is never closed",
    "not_json": "the line is not JSON",
    "not_an_object": "the line is JSON, but not an object in braces",
    "nested_too_deeply": "lists and objects are nested more than 32 levels deep",
    "row_too_long": "the row is longer, or has more values, than its fields together may have",
    "repeated_field": "the line of JSON has the field twice",
    # A field cannot be read.
    "missing": "the field is missing or empty",
    "not_a_value": "the field is a list, an object or a boolean; a text or a number is expected",
    "not_a_number": "the field is not a finite number, or has more than 1,000 characters",
    "out_of_range": "the number is outside its range: lon -180..180, lat -90..90",
    "unreadable_time": "the time is neither a day, or a day and a time, in ISO 8601 nor a number of milliseconds",
    "ambiguous_time": "in milliseconds the number is before 1973, or it spells a date: name its unit (--time-unit),"
    " or write ISO 8601",
    "time_out_of_range": "the time is outside the years 1900 to 2199",
    "text_too_long": "the text is longer than allowed",
    "id_too_long": "the id is longer than allowed",
    "attributes_too_long": "the columns that are no field are more than 256, or longer than 64 KiB with their names",
    # A request is not valid.
    "unknown_operation": "the operation is none of insert, delete and replace",
    "not_yours": "the request names another owner than that of its file",
    "unknown_kind": "the kind of query is unknown",
    "field_of_another_kind": "the field belongs to another kind of query",
    "unknown_field": "there is no such field",
    "unreadable_expression": "the keyword expression cannot be read",
    "no_required_word": "an object without any of its words satisfies the keyword expression",
    "never_satisfied": "no object satisfies the keyword expression",
    "unreadable_region": "the region cannot be read",
    "unreadable_point": "the point cannot be read",
    "unreadable_window": "the duration is not a whole number and s, m, h or d, such as 72h",
    "unreadable_where": "the conditions on attributes cannot be read",
    "unreadable_stop_words": "the stop words are neither a known language nor a list of words",
    "unreadable_payload": "the payload is not an object, or cannot be stored as JSON",
    "payload_too_long": "the payload is longer than allowed",
    "too_many_steps": "the window or the time since created_at has more steps than allowed",
    "empty_validity": "the validity ends before it begins",
    "unreadable_file": "the file cannot be read",
    "unanswered": "the processes that answered the questions ended too often",
    "unknown_version": "the table has no such version, or no longer",
    # Rules of the logs, which compare rows with the clock and with each other.
    "future": "the time is further ahead of the clock than max_ahead_seconds allows",
    "late": "the time is older than the watermark of the log minus the lateness",
    "duplicate": "an object with this object_id was accepted before, within the lateness",
    "over_room": "with the requests before it in its file it takes more room than max_file_room allows",
    "over_quota": "with it, or with one before it in its file, the live subscriptions of its owner exceed a quota",
    "set_aside": "each try died with this row alone, while other rows could be processed",
    "already_live": "a subscription with this id is live",
    "unknown_subscription": "no subscription with this id is live",
    "before_insertion": "the time of the deletion or replacement is not after that of the insertion",
}
"""The sentence of each code. Codes are stable: users filter by them."""

RETRIABLE = ("future", "late", "duplicate")
"""Reasons for which an otherwise valid object is rejected: its fields are stored, and it can be ingested again."""

REJECTED = pa.schema(
    [
        ("row", pa.int64()), ("field", pa.string()), ("reason", pa.string()), ("detail", pa.string()),
        ("raw", pa.string()),
    ]
)  # fmt: skip
"""Rejected rows: row number, faulty field (empty: the row as a whole), code, sentence, and the raw value."""

MAX_RAW_CHARACTERS = 1_000
_MAX_DETAIL_CHARACTERS = 500


class Reject(NamedTuple):
    """One rejected row; an empty `detail` stands for the sentence of the reason."""

    row: int
    field: str
    reason: str
    raw: str | None
    detail: str = ""


def rejects_table(rejects: Iterable[Reject]) -> pa.RecordBatch:
    """Make the table REJECTED of rejects, in the order of rows."""
    ordered = sorted(rejects, key=lambda reject: reject.row)
    columns = [
        pa.array([r.row for r in ordered], pa.int64()),
        pa.array([r.field for r in ordered], pa.string()),
        pa.array([r.reason for r in ordered], pa.string()),
        pa.array([_cut(r.detail or REASONS[r.reason], _MAX_DETAIL_CHARACTERS) for r in ordered], pa.string()),
        pa.array([None if r.raw is None else _cut(r.raw, MAX_RAW_CHARACTERS) for r in ordered], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REJECTED)


def to_display_text(raw: bytes) -> str:
    """Bytes as text; bytes that are not UTF-8 become escapes."""
    return raw[: 4 * MAX_RAW_CHARACTERS + 4].decode("utf-8", errors="backslashreplace")


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, the last an ellipsis if text was cut; a lone surrogate becomes an escape."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


MAX_CHUNK_ROWS = 65_536
BLOCK_BYTES = 1 << 22
MAX_ROW_BYTES = 1 << 26

BOM = b"\xef\xbb\xbf"

ColumnSources = Mapping[str, Sequence[str]]
"""Each field with the names of the file's columns that it is read from."""


@dataclass(frozen=True)
class FilePart:
    """Rows of an input file that are read on their own (input/file_parts.py).

    start, stop   bytes of a CSV or JSON Lines file, or row groups of a Parquet file
    rows_before   number of rows before the part; of JSON Lines, lines
    """

    start: int
    stop: int
    rows_before: int


@dataclass(frozen=True)
class ColumnChunk:
    """Some rows of a file as columns of raw values.

    file      path as given
    rows      int64[n]    number of each row: data rows of CSV and Parquet from 1, lines of JSON Lines from 1
    table     n rows      the wanted columns under the file's names; text if CSV, and if JSON of mixed types
    rejected              rows that cannot be decoded; they are not in `table`
    attributes            the columns that are kept as attributes (ATTRIBUTES), null where a row has none; None: no row
    """

    file: str
    rows: np.ndarray
    table: pa.RecordBatch
    rejected: list[Reject] = field(default_factory=list)
    attributes: pa.Array | None = None


@dataclass(frozen=True)
class RecordChunk:
    """Some rows of a file as JSON objects; `rows` and `rejected` as in ColumnChunk, one row number for each record."""

    file: str
    rows: list[int]
    records: list[dict[str, Any]]
    rejected: list[Reject] = field(default_factory=list)


@dataclass(frozen=True)
class RequestChunk:
    """Some rows of a request file.

    rows      int64[n]    number of each row, as in ColumnChunk
    fields                the fields of the rows, as columns
    records               returns the rows with these numbers (int64, from 0) as records, or as rejects
    rejected              rows that cannot be decoded; they are not in `rows`
    """

    rows: np.ndarray
    fields: RawFields
    records: Callable[[np.ndarray], RecordChunk]
    rejected: list[Reject] = field(default_factory=list)


def check_row_number(path: str, row: int) -> None:
    """Raise InputFileError for a row whose number has no room in a key: it would be a row of another file."""
    if row > MAX_ROW:
        reason = f"it has more than {MAX_ROW} rows, or lines of JSON, which is the most that a file may have"
        raise InputFileError(path, reason, "split it into several files")


def column_names(sources: ColumnSources) -> list[str]:
    """The names of all columns to read, each once."""
    return list(dict.fromkeys(name for names in sources.values() for name in names))


def check_columns(path: str, sources: ColumnSources, present: Sequence[str], hint: str = "") -> None:
    """Raise InputFileError, with the file's columns and a remedy, unless each wanted column occurs exactly once."""
    absent = {name: wanting for wanting, names in sources.items() for name in names if name not in present}
    if absent:
        wanted = ", ".join(name if name == field else f"{name} (for {field})" for name, field in absent.items())
        reason = f"no column {wanted}; it has: {_listed(present)}"
        raise InputFileError(path, reason, hint or _remedy(absent.values()))
    twice = [name for name in column_names(sources) if list(present).count(name) > 1]
    if twice:
        raise InputFileError(path, f"column {_listed(twice)} occurs more than once", "rename one of them in the file")


def _remedy(fields: Iterable[str]) -> str:
    wanting = list(dict.fromkeys(fields))
    first = wanting[0]
    lines = [f"name the column: --column {first}=NAME (joined by spaces: --column {first}=NAME+NAME)"]
    constants = [name for name in wanting if name != "object_id"]
    if constants:
        lines.append(f"or give the same value for all rows: --constant {constants[0]}=VALUE")
    if "object_id" in wanting:
        lines.append("if the file has no id: --column object_id=@row makes ids of file and row")
    return "\n  ".join(lines)


def _listed(names: Sequence[str]) -> str:
    shown = [name if len(name) <= 40 else name[:39] + "…" for name in names[:30]]
    printable = ["".join(c if c.isprintable() else "�" for c in name) or "(empty)" for name in shown]
    return ", ".join(printable) + (f" and {len(names) - 30} more" if len(names) > 30 else "") if names else "none"
