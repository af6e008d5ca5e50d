"""Parse request fields in columns, and leave the rows that are odd or not valid to the parser of single requests."""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import TIME
from pststream.base.utc_times import to_micros
from pststream.input.parse_requests import DELETE_FIELDS, INSERT_FIELDS, REQUESTS, parse_requests
from pststream.input.parse_times import EARLIEST_US, LAST_US, LATEST_US
from pststream.input.raw_values import is_longer
from pststream.input.row_chunks import RecordChunk, RequestChunk
from pststream.queries.kinds.contract import QueryKind, RequestLimits
from pststream.queries.kinds.registry import DEFAULT_KIND, KINDS, fields_of_other_kinds
from pststream.queries.raw_fields import RawField, RawFields

_DEFAULT_LIMITS = RequestLimits()
_LAST_END_US = LAST_US // 1000 * 1000


def request_fields() -> list[str]:
    """Return the names of all fields of requests, of all kinds."""
    return sorted(DELETE_FIELDS.union(INSERT_FIELDS, *(kind.fields for kind in KINDS.values())))


def parse_request_chunk(
    chunk: RequestChunk, ingested_at: datetime, timezone: str = "UTC", limits: RequestLimits = _DEFAULT_LIMITS
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return what `parse_requests` returns for the records of the chunk: accepted rows (REQUESTS), rejects (REJECTED).

    Valid rows of a common form are parsed in columns, without Python code for each row; `parse_requests` parses the
    others.
    """
    left = np.ones(len(chunk.rows), bool)
    parsed = []
    for places, batch in _parse_groups(chunk, to_micros(ingested_at), timezone, limits):
        left[places] = False
        parsed.append(batch)
    records = chunk.records(np.flatnonzero(left)) if left.any() else RecordChunk("", [], [])
    records.rejected.extend(chunk.rejected)
    accepted, rejected = parse_requests(records, ingested_at, timezone, limits)
    return _in_order_of_rows([*parsed, accepted]), rejected


def _parse_groups(
    chunk: RequestChunk, now: int, timezone: str, limits: RequestLimits
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Yield the requests of one operation and kind that could be parsed: their places in the chunk, their columns."""
    for kind, chosen in _split_by_kind(chunk.fields):
        places = np.flatnonzero(chosen)
        fields = chunk.fields if chosen.all() else chunk.fields.select(places)
        columns, parsed = _parse_group(kind, fields, now, timezone, limits)
        arrays = [pa.array(chunk.rows[places]), *(columns[name] for name in REQUESTS.names[1:])]
        batch = pa.RecordBatch.from_arrays(arrays, schema=REQUESTS)
        yield places[parsed], batch if parsed.all() else batch.filter(pa.array(parsed))


def _split_by_kind(fields: RawFields) -> Iterator[tuple[QueryKind | None, np.ndarray]]:
    """Yield the kinds of query that are parsed in columns, None for deletions, each with its rows: bool[n]."""
    operation, kind_field = fields["op"].texts(), fields["kind"]
    deletes = fields.plain & _equals(operation, "delete")
    if deletes.any():
        yield None, deletes
    inserts = fields.plain & _equals(operation, "insert")
    names = kind_field.texts()
    for kind in KINDS.values():
        if kind.parse_columns is None:
            continue
        chosen = inserts & _equals(names, kind.name)
        for field in fields_of_other_kinds(kind):
            chosen &= ~fields[field].present
        if kind.name == DEFAULT_KIND:
            chosen |= inserts & ~kind_field.filled
        if chosen.any():
            yield kind, chosen


def _parse_group(
    kind: QueryKind | None, fields: RawFields, now: int, timezone: str, limits: RequestLimits
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return the columns of REQUESTS after the row, and which requests could be parsed: bool[n]."""
    ids = fields["subscription_id"]
    labels = ids.labels()
    parsed = ids.filled & labels.is_valid().to_numpy(zero_copy_only=False)
    at, has_at, read = _read_times(fields["created_at" if kind else "at"], timezone, LATEST_US)
    at, parsed = np.where(has_at, at, now), parsed & read
    columns = {name: pa.nulls(len(parsed), REQUESTS.field(name).type) for name in REQUESTS.names[1:]}
    if kind and kind.parse_columns:
        parsed &= ~is_longer(labels, limits.max_id_bytes)
        ends, has_end, read = _read_times(fields["expires_at"], timezone, LAST_US + 1)
        parsed &= read & (~has_end | (ends > at))
        query = kind.parse_columns(fields, limits)
        parsed &= query.parsed
        if kind.check_starts:
            parsed &= kind.check_starts(query.columns, now - at, limits)
        columns |= query.columns
        columns["kind"] = pa.repeat(kind.name, len(parsed))
        columns["expires_at"] = pa.array(np.minimum(ends, _LAST_END_US), mask=~has_end).cast(TIME)
    payload, written = fields.others(INSERT_FIELDS | kind.fields if kind else DELETE_FIELDS)
    columns["op"] = pa.repeat("insert" if kind else "delete", len(parsed))
    columns |= {"subscription_id": labels, "effective_at": pa.array(at).cast(TIME), "payload": payload}
    return columns, parsed & written & ~is_longer(payload, limits.max_payload_bytes)


def _read_times(field: RawField, timezone: str, latest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return microseconds, which rows have the field, and which rows lack it or have a valid time before `latest`."""
    times, read = field.times(timezone)
    return times, field.filled, ~field.filled | (read & (times >= EARLIEST_US) & (times < latest))


def _equals(texts: pa.Array, text: str) -> np.ndarray:
    return pc.fill_null(pc.equal(texts, text), False).to_numpy(zero_copy_only=False)


def _in_order_of_rows(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    parts = [part for part in parts if part.num_rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    joined = pa.concat_batches(parts)
    return joined.take(pa.array(np.argsort(joined.column("row").to_numpy(), kind="stable")))
