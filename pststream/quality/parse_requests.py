"""Rows of a file to requests: which are accepted, and why the others are not."""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import pyarrow as pa

from pststream.domain.region import Region, RegionError, read_region
from pststream.quality.parse_times import EARLIEST_US, EPOCH, LAST_US, LATEST_US, read_time
from pststream.quality.raw_values import NotFinite, number_text
from pststream.quality.reject_reasons import Reject, rejected_batch
from pststream.quality.row_chunks import RecordChunk
from pststream.text.expression import ExpressionError, parse_keywords
from pststream.text.tokenizer import term_id

_TIME = pa.timestamp("us", tz="UTC")
_NUMBERS = pa.list_(pa.float64())

REQUESTS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("op", pa.string()),
        pa.field("subscription_id", pa.string()),
        pa.field("at", _TIME),
        pa.field("expires_at", _TIME),
        pa.field("keywords", pa.string()),
        pa.field("clauses", pa.list_(pa.list_(pa.int64()))),
        pa.field("west", _NUMBERS),
        pa.field("south", _NUMBERS),
        pa.field("east", _NUMBERS),
        pa.field("north", _NUMBERS),
        pa.field("circle", _NUMBERS),
        pa.field("payload", pa.string()),
    ]
)
"""Accepted requests: as the table `requests`, with the row of the file in place of keys."""

_MOST_CACHED = 1_000
_FIELDS_OF = {
    "insert": frozenset({"op", "subscription_id", "keywords", "bbox", "circle", "created_at", "expires_at"}),
    "delete": frozenset({"op", "subscription_id", "at"}),
}


class _Fault(Exception):
    """What is wrong with a request; an empty `detail` stands for the sentence of the reason."""

    def __init__(self, field: str, reason: str, raw: Any, detail: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.raw = raw
        self.detail = detail


class _Request(NamedTuple):
    """An accepted request, in the columns of REQUESTS after the row; times in microseconds."""

    op: str
    subscription_id: str
    at: int
    expires_at: int | None = None
    keywords: str | None = None
    clauses: list[list[int]] | None = None
    west: list[float] | None = None
    south: list[float] | None = None
    east: list[float] | None = None
    north: list[float] | None = None
    circle: list[float] | None = None
    payload: str | None = None


def parse_requests(
    chunk: RecordChunk, ingested_at: datetime, timezone: str = "UTC"
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The accepted requests of a chunk (REQUESTS) and the rejected rows (REJECTED), both in the order of rows.

    `ingested_at` (with its zone) is the time of requests that tell none; `timezone` the zone of times that tell none.
    `at` is `created_at` of an insertion. Clauses are term ids, ascending inside a clause. What the reader could not
    decode is among the rejected, so that both together are all rows of the chunk.
    """
    now = (ingested_at - EPOCH) // timedelta(microseconds=1)
    rows: list[int] = []
    accepted: list[_Request] = []
    rejected = list(chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        try:
            accepted.append(_request(record, now, timezone))
            rows.append(row)
        except _Fault as fault:
            rejected.append(Reject(row, fault.field, fault.reason, _raw_text(fault.raw), fault.detail))
    columns = list(zip(*accepted)) or [()] * (len(REQUESTS) - 1)
    arrays = [pa.array(values, field.type) for values, field in zip([rows, *columns], REQUESTS)]
    return pa.RecordBatch.from_arrays(arrays, schema=REQUESTS), rejected_batch(rejected)


def _request(record: Mapping[str, Any], now: int, timezone: str) -> _Request:
    op = record.get("op")
    if op is None:
        raise _Fault("op", "missing", record)
    if op not in ("insert", "delete"):
        raise _Fault("op", "unknown_operation", op)
    subscription_id = _identifier(record)
    if op == "delete":
        at = _time(record, "at", timezone)
        return _Request(op, subscription_id, now if at is None else at, payload=_payload(record, op))
    created_at = _time(record, "created_at", timezone)
    created_at = now if created_at is None else created_at
    expires_at = _time(record, "expires_at", timezone, LAST_US + 1)
    if expires_at is not None:
        if expires_at <= created_at:
            raise _Fault("expires_at", "empty_validity", record["expires_at"])
        # Bounds of files are in whole milliseconds: the next one after it must be in the year 9999 too.
        expires_at = min(expires_at, LAST_US // 1000 * 1000)
    keywords, clauses = _keywords(record)
    region = _region(record)
    west, south, east, north = (list(numbers) for numbers in zip(*region.boxes))
    circle = list(region.circle) if region.circle else None
    payload = _payload(record, op)
    return _Request(
        op, subscription_id, created_at, expires_at, keywords, clauses, west, south, east, north, circle, payload
    )


def _identifier(record: Mapping[str, Any]) -> str:
    value = record.get("subscription_id")
    if value is None or value == "":
        raise _Fault("subscription_id", "missing", record)
    if isinstance(value, bool | NotFinite) or not isinstance(value, str | int | float):
        raise _Fault("subscription_id", "not_a_value", value)
    if isinstance(value, float) and not isfinite(value):
        raise _Fault("subscription_id", "not_a_value", str(value))
    return value if isinstance(value, str) else number_text(value)


def _time(record: Mapping[str, Any], name: str, timezone: str, latest: int = LATEST_US) -> int | None:
    value = record.get(name)
    if value is None or value == "":
        return None
    time = read_time(value, timezone)
    if time is None:
        raise _Fault(name, "unreadable_time", value)
    if not EARLIEST_US <= time < latest:
        raise _Fault(name, "time_out_of_range", value)
    return time


def _keywords(record: Mapping[str, Any]) -> tuple[str, list[list[int]]]:
    keywords = record.get("keywords")
    if keywords is None or keywords == "":
        raise _Fault("keywords", "missing", record)
    if not isinstance(keywords, str) or isinstance(keywords, NotFinite):
        raise _Fault("keywords", "not_a_value", keywords)
    clauses = (_clauses if len(keywords) <= _MOST_CACHED else _clauses.__wrapped__)(keywords)
    if isinstance(clauses, str):
        raise _Fault("keywords", "unreadable_expression", keywords, clauses)
    return keywords, clauses


@lru_cache(maxsize=1 << 14)
def _clauses(keywords: str) -> list[list[int]] | str:
    """The clauses as term ids, or what is wrong; many subscriptions ask for the same words."""
    try:
        return [sorted({term_id(word) for word in clause}) for clause in parse_keywords(keywords)]
    except ExpressionError as error:
        return str(error)


def _region(record: Mapping[str, Any]) -> Region:
    bbox, circle = record.get("bbox"), record.get("circle")
    try:
        return read_region(_from_text(bbox, "bbox"), _from_text(circle, "circle"))
    except RegionError as error:
        raw = record if bbox is None and circle is None else bbox if error.field == "bbox" else circle
        reason = "missing" if raw is record else "unreadable_region"
        raise _Fault(error.field, reason, raw, str(error)) from None


def _from_text(region: Any, field: str) -> Any:
    """A region that a column of text holds as JSON."""
    if not isinstance(region, str):
        return region
    try:
        return json.loads(region)
    except (ValueError, RecursionError):
        raise RegionError(field, "not a list or an object") from None


def _payload(record: Mapping[str, Any], op: str) -> str | None:
    known: Collection[str] = _FIELDS_OF[op]
    others = {name: value for name, value in record.items() if name not in known}
    if not others:
        return None
    try:
        return _ENCODER.encode(others)
    except (ValueError, TypeError, RecursionError) as error:
        raise _Fault("", "unreadable_payload", record, str(error)) from None


def _spelled(value: Any) -> str:
    """A value of a Parquet column that JSON has no form for, such as a time."""
    spell: Callable[[], str] | None = getattr(value, "isoformat", None)
    return spell() if spell else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_spelled)


def _raw_text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return _ENCODER.encode(raw)
    except (ValueError, TypeError, RecursionError):
        return repr(raw)
