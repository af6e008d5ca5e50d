"""Parse a chunk of raw requests, one by one or in columns, into typed requests and rejects.

This module parses the fields that all requests share; the kind of query (queries/kinds) parses its own fields.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import TIME
from pststream.base.utc_times import to_micros
from pststream.input.parse_times import EARLIEST_US, LAST_US, LATEST_US, parse_time, time_fault
from pststream.input.raw_values import NotFinite, format_number, is_longer
from pststream.input.row_chunks import RecordChunk, Reject, RequestChunk, rejects_table
from pststream.queries.conditions import FIELD, count_names, parse_where_field
from pststream.queries.decode_json import decode_json
from pststream.queries.kinds.contract import FieldError, QueryKind, RequestLimits, required_value
from pststream.queries.kinds.registry import DEFAULT_KIND, KINDS, check_fields, request_columns
from pststream.queries.raw_fields import RawField, RawFields

_DEFAULT_LIMITS = RequestLimits()
_QUERY_COLUMNS = request_columns()
_QUERY_NAMES = [column.name for column in _QUERY_COLUMNS]

REQUESTS = pa.schema(
    [
        ("row", pa.int64()), ("op", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()),
        ("kind", pa.string()), ("effective_at", TIME), ("expires_at", TIME),
        *((column.name, column.type) for column in _QUERY_COLUMNS), ("payload", pa.string()),
        ("conditions", pa.string()), ("condition_names", pa.int64()),
    ]
)  # fmt: skip
"""Accepted requests: as the table `requests`, with the row of the file in place of keys."""

_LAST_END_US = LAST_US // 1000 * 1000
"""Bounds of files are in whole milliseconds: the millisecond after the end must be in the year 9999 too."""

DELETE_FIELDS = frozenset({"op", "owner", "subscription_id", "at", "payload"})
INSERT_FIELDS = frozenset({"op", "owner", "subscription_id", "kind", "created_at", "expires_at", "payload", FIELD})
FIELDS = {"insert": INSERT_FIELDS, "delete": DELETE_FIELDS, "replace": INSERT_FIELDS - {"created_at"} | {"at"}}
"""The fields of each operation, besides those of the kind of an insertion or a replacement."""

START_FIELD = {"insert": "created_at", "delete": "at", "replace": "at"}
"""The field of the time from which each operation takes effect."""


def parse_requests(
    chunk: RecordChunk,
    ingested_at: datetime,
    timezone: str = "UTC",
    limits: RequestLimits = _DEFAULT_LIMITS,
    owner: str = "",
    time_unit: str | None = None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted requests of a chunk (REQUESTS) and the rejects (REJECTED), both in the order of rows.

    `ingested_at` (with its zone) is the time of requests without one; `timezone` is the zone of times without one,
    `time_unit` the unit of numbers (see `parse_time`). `limits` bounds the values of queries; `owner` is that of all
    requests. `effective_at` is `created_at` of an insertion, `at` of a deletion or a replacement. Clauses are term ids,
    ascending inside a clause. Rows that the reader could not decode are among the rejects, so that both together are
    all rows of the chunk.
    """
    now = to_micros(ingested_at)
    rows: list[int] = []
    accepted: list[tuple[Any, ...]] = []
    rejected = list(chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        try:
            accepted.append(_parse_request(record, now, timezone, limits, owner, time_unit))
            rows.append(row)
        except FieldError as error:
            rejected.append(Reject(row, error.field, error.reason, raw_text(error.raw), error.detail))
    columns = list(zip(*accepted)) or [()] * (len(REQUESTS) - 1)
    arrays = [pa.array(values, field.type) for values, field in zip([rows, *columns], REQUESTS)]
    return pa.RecordBatch.from_arrays(arrays, schema=REQUESTS), rejects_table(rejected)


def _parse_request(
    record: Mapping[str, Any], now: int, timezone: str, limits: RequestLimits, owner: str, time_unit: str | None
) -> tuple[Any, ...]:
    """The columns of REQUESTS after the row; times in microseconds."""
    op = record.get("op")
    if op is None:
        raise FieldError("op", "missing", record)
    if not isinstance(op, str) or op not in FIELDS:
        raise FieldError("op", "unknown_operation", op)
    kind = None if op == "delete" else _parse_kind(record)
    check_fields(record, kind, FIELDS[op])
    if record.get("owner") not in (None, "") and parse_identifier_field(record, "owner") != owner:
        raise FieldError("owner", "not_yours", record["owner"], f"the requests of this file are of the owner {owner!r}")
    subscription_id = parse_identifier_field(record, "subscription_id")
    if kind is None:
        at = parse_time_field(record, "at", timezone, time_unit)
        payload = _payload(record, limits.max_payload_bytes)
        at = now if at is None else at
        return (op, owner, subscription_id, None, at, None, *[None] * len(_QUERY_COLUMNS), payload, None, None)
    # A deletion may have any id, so that subscriptions that were accepted with a longer one can be deleted.
    if (size := len(subscription_id.encode())) > limits.max_id_bytes:
        detail = f"the id has {size} bytes, more than {limits.max_id_bytes}; the setting max_id_bytes bounds it"
        raise FieldError("subscription_id", "id_too_long", subscription_id, detail)
    created_at = parse_time_field(record, START_FIELD[op], timezone, time_unit)
    created_at = now if created_at is None else created_at
    expires_at = parse_time_field(record, "expires_at", timezone, time_unit, LAST_US + 1)
    if expires_at is not None:
        if expires_at <= created_at:
            raise FieldError("expires_at", "empty_validity", record["expires_at"])
        expires_at = min(expires_at, _LAST_END_US)
    query = kind.parse_request(record, limits)
    if kind.check_start is not None:
        kind.check_start(query, now - created_at, limits)
    payload, where = _payload(record, limits.max_payload_bytes), parse_where_field(record)
    columns = (*map(query.get, _QUERY_NAMES), payload, where, count_names(where))
    return (op, owner, subscription_id, kind.name, created_at, expires_at, *columns)


def _parse_kind(record: Mapping[str, Any]) -> QueryKind:
    """Return the kind of query that a request gives; without one, the default kind."""
    name = record.get("kind")
    if name is None or name == "":
        return KINDS[DEFAULT_KIND]
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FieldError("kind", "unknown_kind", name, f"the kind of query is unknown; known: {', '.join(KINDS)}")
    return kind


def parse_identifier_field(record: Mapping[str, Any], name: str) -> str:
    """Return the id in a field, a text or a number; raises FieldError."""
    value = required_value(record, name)
    if isinstance(value, bool | NotFinite) or not isinstance(value, str | int | float):
        raise FieldError(name, "not_a_value", value)
    if isinstance(value, float) and not isfinite(value):
        raise FieldError(name, "not_a_value", str(value))
    return value if isinstance(value, str) else format_number(value)


def parse_time_field(
    record: Mapping[str, Any], name: str, timezone: str, time_unit: str | None = None, latest: int = LATEST_US
) -> int | None:
    """Return the time in a field in microseconds since 1970, None without one; raises FieldError."""
    value = record.get(name)
    if value is None or value == "":
        return None
    time = parse_time(value, timezone, time_unit)
    if fault := time_fault(time, latest):
        raise FieldError(name, fault, value)
    return time


def _payload(record: Mapping[str, Any], max_bytes: int) -> str | None:
    """Return the members of `payload`, an object or its text, that are not null as JSON, None without one.

    Raises FieldError.
    """
    value = record.get("payload")
    if value is None or value == "":
        return None
    try:
        value = decode_json(value) if isinstance(value, str) else value
        if not isinstance(value, Mapping):
            raise FieldError("payload", "unreadable_payload", value, "payload is not an object")
        members = {name: part for name, part in value.items() if part is not None}
        payload = _ENCODER.encode(members)
        size = len(payload.encode())  # fails for half a character
    except (ValueError, TypeError) as error:
        raise FieldError("payload", "unreadable_payload", value, f"payload is not an object: {error}") from None
    if not members:
        return None
    if size > max_bytes:
        detail = f"it has {size} bytes as JSON, more than {max_bytes}; the setting max_payload_bytes bounds it"
        raise FieldError("payload", "payload_too_long", payload, detail)
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


# Requests in columns


def request_fields() -> list[str]:
    """Return the names of all fields of requests, of all kinds."""
    return sorted(frozenset().union(*FIELDS.values(), *(kind.fields for kind in KINDS.values())))


def parse_request_chunk(
    chunk: RequestChunk,
    ingested_at: datetime,
    timezone: str = "UTC",
    limits: RequestLimits = _DEFAULT_LIMITS,
    owner: str = "",
    time_unit: str | None = None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return what `parse_requests` returns for the records of the chunk: accepted rows (REQUESTS), rejects (REJECTED).

    Valid rows of a common form are parsed in columns, without Python code for each row; `parse_requests` parses the
    others.
    """
    left, batches, now = np.ones(len(chunk.rows), bool), [], to_micros(ingested_at)
    for op, kind, chosen in _split_by_kind(chunk.fields):
        indices = np.flatnonzero(chosen)
        fields = chunk.fields if chosen.all() else chunk.fields.select(indices)
        columns, parsed = _parse_group(op, kind, fields, now, timezone, limits, owner, time_unit)
        arrays = [pa.array(chunk.rows[indices]), *(columns[name] for name in REQUESTS.names[1:])]
        batch = pa.RecordBatch.from_arrays(arrays, schema=REQUESTS)
        batches.append(batch if parsed.all() else batch.filter(pa.array(parsed)))
        left[indices[parsed]] = False
    records = chunk.records(np.flatnonzero(left)) if left.any() else RecordChunk("", [], [])
    records.rejected.extend(chunk.rejected)
    accepted, rejected = parse_requests(records, ingested_at, timezone, limits, owner, time_unit)
    return _in_order_of_rows([*batches, accepted]), rejected


def _split_by_kind(fields: RawFields) -> Iterator[tuple[str, QueryKind | None, np.ndarray]]:
    """Yield each operation and kind of query, None for deletions, that is parsed in columns, and its rows: bool[n]."""
    operation, kind_field = fields["op"].texts(), fields["kind"]
    deletes = fields.plain & _equals(operation, "delete") & ~fields.have_others(DELETE_FIELDS)
    if deletes.any():
        yield "delete", None, deletes
    names = kind_field.texts()
    for op in ("insert", "replace"):
        of_op = fields.plain & _equals(operation, op)
        for kind in KINDS.values():
            if kind.parse_columns is None or not of_op.any():
                continue
            chosen = _equals(names, kind.name)
            if kind.name == DEFAULT_KIND:
                chosen |= ~kind_field.filled
            chosen &= of_op & ~fields.have_others(FIELDS[op] | kind.fields)
            if chosen.any():
                yield op, kind, chosen


def _parse_group(
    op: str,
    kind: QueryKind | None,
    fields: RawFields,
    now: int,
    timezone: str,
    limits: RequestLimits,
    owner: str,
    time_unit: str | None,
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return the columns of REQUESTS after the row, and which requests could be parsed: bool[n]."""
    ids, owners = fields["subscription_id"], fields["owner"]
    labels = ids.labels()
    parsed = ids.filled & labels.is_valid().to_numpy(zero_copy_only=False)
    parsed &= ~owners.filled | _equals(owners.labels(), owner)
    at, has_at, read = _read_times(fields[START_FIELD[op]], timezone, time_unit, LATEST_US)
    at, parsed = np.where(has_at, at, now), parsed & read
    columns = {name: pa.nulls(len(parsed), REQUESTS.field(name).type) for name in REQUESTS.names[1:]}
    if kind and kind.parse_columns:
        parsed &= ~fields[FIELD].present
        parsed &= ~is_longer(labels, limits.max_id_bytes)
        ends, has_end, read = _read_times(fields["expires_at"], timezone, time_unit, LAST_US + 1)
        parsed &= read & (~has_end | (ends > at))
        query = kind.parse_columns(fields, limits)
        parsed &= query.parsed
        if kind.check_starts:
            parsed &= kind.check_starts(query.columns, now - at, limits)
        columns |= query.columns
        columns["kind"] = pa.repeat(kind.name, len(parsed))
        columns["expires_at"] = pa.array(np.minimum(ends, _LAST_END_US), mask=~has_end).cast(TIME)
    payload, written = fields["payload"].objects()
    columns["op"] = pa.repeat(op, len(parsed))
    columns["owner"] = pa.repeat(owner, len(parsed))
    columns |= {"subscription_id": labels, "effective_at": pa.array(at).cast(TIME), "payload": payload}
    return columns, parsed & written & ~is_longer(payload, limits.max_payload_bytes)


def _read_times(
    field: RawField, timezone: str, time_unit: str | None, latest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return microseconds, which rows have the field, and which rows lack it or have a valid time before `latest`."""
    times, read = field.times(timezone, time_unit)
    return times, field.filled, ~field.filled | (read & (times >= EARLIEST_US) & (times < latest))


def _equals(texts: pa.Array, text: str) -> np.ndarray:
    return pc.fill_null(pc.equal(texts, text), False).to_numpy(zero_copy_only=False)


def _in_order_of_rows(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    parts = [part for part in parts if part.num_rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    joined = pa.concat_batches(parts)
    return joined.take(pa.array(np.argsort(joined.column("row").to_numpy(), kind="stable")))
