"""Why a row was not accepted: each code and its sentence, and the table that rejected rows come in."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

REASONS: dict[str, str] = {
    # The row cannot be read.
    "invalid_utf8": "the bytes are not UTF-8",
    "wrong_field_count": "the row has more or fewer fields than the header",
    "unclosed_quote": "a quote opens a field and is never closed",
    "not_json": "the line is not JSON",
    "not_an_object": "the line is JSON, but not an object in braces",
    # A field cannot be read.
    "missing": "the field is missing or empty",
    "not_a_value": "the field is a list, an object or a truth value where text or a number is wanted",
    "not_a_number": "the field is not a finite number",
    "out_of_range": "the number is outside its range: lon -180..180, lat -90..90",
    "unreadable_time": "the time is neither ISO 8601 nor epoch milliseconds",
    "time_out_of_range": "the time is outside the years 1900 to 2199",
    "text_too_long": "the text is longer than allowed",
    # Of requests.
    "unknown_operation": "the operation is neither insert nor delete",
    "unknown_kind": "the kind of query is unknown",
    "field_of_another_kind": "the field belongs to another kind of query",
    "unreadable_expression": "the keyword expression cannot be read",
    "unreadable_region": "the bbox or circle cannot be read",
    "unreadable_payload": "the other fields cannot be kept as JSON",
    "empty_validity": "the validity ends before it begins",
    # Judged over rows, by the logs.
    "late": "the time is older than the log's watermark less the lateness",
    "duplicate": "the object_id was taken before, within the lateness",
    "already_live": "a subscription of this id is live",
    "unknown_subscription": "no subscription of this id is live",
    "before_insertion": "the deletion is dated at or before the insertion",
}
"""Code to sentence. Codes are stable: users filter by them."""

REJECTED = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("field", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("raw", pa.string()),
    ]
)
"""Rejected rows: number of the row, field at fault (empty: the row as a whole), code, sentence, and what was there."""

MOST_RAW = 1_000
_MOST_DETAIL = 500


class Reject(NamedTuple):
    """One rejected row; an empty `detail` stands for the sentence of the reason."""

    row: int
    field: str
    reason: str
    raw: str | None
    detail: str = ""


def rejected_batch(rejects: Iterable[Reject]) -> pa.RecordBatch:
    """Rejected rows as a table of REJECTED, in the order of the rows."""
    ordered = sorted(rejects, key=lambda reject: reject.row)
    columns = [
        pa.array([r.row for r in ordered], pa.int64()),
        pa.array([r.field for r in ordered], pa.string()),
        pa.array([r.reason for r in ordered], pa.string()),
        pa.array([_cut(r.detail or REASONS[r.reason], _MOST_DETAIL) for r in ordered], pa.string()),
        pa.array([None if r.raw is None else _cut(r.raw, MOST_RAW) for r in ordered], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REJECTED)


def shown(raw: bytes) -> str:
    """Bytes as text, whatever they are: those that are not UTF-8 as escapes."""
    return raw[: 4 * MOST_RAW + 4].decode("utf-8", errors="backslashreplace")


def _cut(text: str, most: int) -> str:
    """At most `most` characters, the last a mark if some are left out; a lone surrogate as an escape."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")
