"""Parse a chunk of raw request records into typed insertions and deletions, and rejects with their reasons.

This module parses the fields that all requests share; the kind of query (pststream/kinds) parses its own fields.
"""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import pyarrow as pa

from pststream.base.arrow_columns import TIME
from pststream.base.utc_times import to_micros
from pststream.input.parse_times import EARLIEST_US, LAST_US, LATEST_US, parse_time
from pststream.input.raw_values import NotFinite, format_number
from pststream.input.reject_reasons import Reject, rejects_table
from pststream.input.row_chunks import RecordChunk
from pststream.queries.kinds.contract import FieldError, QueryKind, RequestLimits
from pststream.queries.kinds.registry import DEFAULT_KIND, KINDS, fields_of_other_kinds, request_columns

_DEFAULT_LIMITS = RequestLimits()
_QUERY_COLUMNS = request_columns()
_QUERY_NAMES = [column.name for column in _QUERY_COLUMNS]

REQUESTS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("op", pa.string()),
        pa.field("subscription_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("effective_at", TIME),
        pa.field("expires_at", TIME),
        *(pa.field(column.name, column.type) for column in _QUERY_COLUMNS),
        pa.field("payload", pa.string()),
    ]
)
"""Accepted requests: as the table `requests`, with the row of the file in place of keys."""

DELETE_FIELDS = frozenset({"op", "subscription_id", "at"})
INSERT_FIELDS = frozenset({"op", "subscription_id", "kind", "created_at", "expires_at"})


def parse_requests(
    chunk: RecordChunk, ingested_at: datetime, timezone: str = "UTC", limits: RequestLimits = _DEFAULT_LIMITS
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted requests of a chunk (REQUESTS) and the rejects (REJECTED), both in the order of rows.

    `ingested_at` (with its zone) is the time of requests without one; `timezone` is the zone of times without one.
    `limits` bounds the values of queries. `effective_at` is `created_at` of an insertion, `at` of a deletion. Clauses
    are term ids, ascending inside a clause. Rows that the reader could not decode are among the rejects, so that both
    together are all rows of the chunk.
    """
    now = to_micros(ingested_at)
    rows: list[int] = []
    accepted: list[tuple[Any, ...]] = []
    rejected = list(chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        try:
            accepted.append(_parse_request(record, now, timezone, limits))
            rows.append(row)
        except FieldError as error:
            rejected.append(Reject(row, error.field, error.reason, raw_text(error.raw), error.detail))
    columns = list(zip(*accepted)) or [()] * (len(REQUESTS) - 1)
    arrays = [pa.array(values, field.type) for values, field in zip([rows, *columns], REQUESTS)]
    return pa.RecordBatch.from_arrays(arrays, schema=REQUESTS), rejects_table(rejected)


def _parse_request(record: Mapping[str, Any], now: int, timezone: str, limits: RequestLimits) -> tuple[Any, ...]:
    """The columns of REQUESTS after the row; times in microseconds."""
    op = record.get("op")
    if op is None:
        raise FieldError("op", "missing", record)
    if op not in ("insert", "delete"):
        raise FieldError("op", "unknown_operation", op)
    subscription_id = parse_identifier_field(record, "subscription_id")
    if op == "delete":
        at = parse_time_field(record, "at", timezone)
        payload = _payload(record, DELETE_FIELDS, limits.max_payload_bytes)
        return (op, subscription_id, None, now if at is None else at, None, *[None] * len(_QUERY_COLUMNS), payload)
    # A deletion may have any id, so that subscriptions that were accepted with a longer one can be deleted.
    if (size := len(subscription_id.encode())) > limits.max_id_bytes:
        detail = f"the id has {size} bytes, more than {limits.max_id_bytes}; the setting max_id_bytes bounds it"
        raise FieldError("subscription_id", "id_too_long", subscription_id, detail)
    kind = _parse_kind(record)
    created_at = parse_time_field(record, "created_at", timezone)
    created_at = now if created_at is None else created_at
    expires_at = parse_time_field(record, "expires_at", timezone, LAST_US + 1)
    if expires_at is not None:
        if expires_at <= created_at:
            raise FieldError("expires_at", "empty_validity", record["expires_at"])
        # Bounds of files are in whole milliseconds: the next millisecond must be in the year 9999 too.
        expires_at = min(expires_at, LAST_US // 1000 * 1000)
    query = kind.parse_request(record, limits)
    if kind.check_start is not None:
        kind.check_start(query, now - created_at, limits)
    payload = _payload(record, INSERT_FIELDS | kind.fields, limits.max_payload_bytes)
    return (op, subscription_id, kind.name, created_at, expires_at, *map(query.get, _QUERY_NAMES), payload)


def _parse_kind(record: Mapping[str, Any]) -> QueryKind:
    """Return the kind of query that a request gives; without one, the default kind, whatever other fields it has."""
    name = record.get("kind")
    if name is None or name == "":
        return KINDS[DEFAULT_KIND]
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FieldError("kind", "unknown_kind", name, f"the kind of query is unknown; known: {', '.join(KINDS)}")
    for field, others in fields_of_other_kinds(kind).items():
        if record.get(field) is not None:
            detail = f"the field belongs to the kind {' or '.join(others)}, not to {kind.name}"
            raise FieldError(field, "field_of_another_kind", record[field], detail)
    return kind


def parse_identifier_field(record: Mapping[str, Any], name: str) -> str:
    """Return the id in a field, a text or a number; raises FieldError."""
    value = record.get(name)
    if value is None or value == "":
        raise FieldError(name, "missing", record)
    if isinstance(value, bool | NotFinite) or not isinstance(value, str | int | float):
        raise FieldError(name, "not_a_value", value)
    if isinstance(value, float) and not isfinite(value):
        raise FieldError(name, "not_a_value", str(value))
    return value if isinstance(value, str) else format_number(value)


def parse_time_field(record: Mapping[str, Any], name: str, timezone: str, latest: int = LATEST_US) -> int | None:
    """Return the time in a field in microseconds since 1970, None without one; raises FieldError."""
    value = record.get(name)
    if value is None or value == "":
        return None
    time = parse_time(value, timezone)
    if time is None:
        raise FieldError(name, "unreadable_time", value)
    if not EARLIEST_US <= time < latest:
        raise FieldError(name, "time_out_of_range", value)
    return time


def _payload(record: Mapping[str, Any], known: Collection[str], max_bytes: int) -> str | None:
    """Return the fields that are not known as JSON."""
    others = {name: value for name, value in record.items() if name not in known}
    if not others:
        return None
    try:
        payload = _ENCODER.encode(others)
    except (ValueError, TypeError) as error:
        raise FieldError("", "unreadable_payload", record, str(error)) from None
    if (size := len(payload.encode())) > max_bytes:
        detail = f"they have {size} bytes as JSON, more than {max_bytes}; the setting max_payload_bytes bounds them"
        raise FieldError("", "payload_too_long", payload, detail)
    return payload


def _to_text(value: Any) -> str:
    """A value of a Parquet column that JSON has no form for, such as a time."""
    isoformat: Callable[[], str] | None = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_to_text)


def raw_text(raw: Any) -> str:
    """Return a raw value, or a record, as the text that a reject shows."""
    if isinstance(raw, str):
        return raw
    try:
        return _ENCODER.encode(raw)
    except (ValueError, TypeError):
        return repr(raw)
