"""Types of the ledgers' rows, the latest row of each key, and the keys of rows of the object and request logs."""

import datetime as dt
import math
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names

MAX_ROW = (1 << names.ROW_BITS) - 1
"""The greatest row number that a key holds."""


class FileRow(TypedDict):
    """A row of `files`; state/tables.py says what the columns mean. Rows `started` have null from `rows` on."""

    file_seq: int
    ingest_id: int
    kind: str
    path: str
    sha256: str
    bytes: int
    options: str
    status: str
    rows: int
    accepted: int
    rejected: int
    watermark: dt.datetime | None
    min_ts: dt.datetime | None
    max_ts: dt.datetime | None
    started_at: dt.datetime
    withdrawal_id: int | None
    statistics_version: int | None


class BatchRow(TypedDict):
    """A row of `batches`; state/tables.py says what the columns mean. Rows `started` have null from `objects` on."""

    batch_id: int
    status: str
    plan_version: int
    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int
    objects_version: int
    requests_version: int
    objects: int
    discarded: int
    requests: int
    matches: int
    retractions: int
    seconds_by_step: list[tuple[str, float]]
    started_at: dt.datetime
    finished_at: dt.datetime
    stream_time: dt.datetime | None
    removals: int
    candidates: list[tuple[str, int]] | None
    changes: list[tuple[str, int]] | None
    evaluations: list[tuple[str, int]] | None


def log_key(file_seq: int, row: int) -> int:
    """Return the key of a row of the object log or the request log: its file, then its row in the file."""
    return file_seq << names.ROW_BITS | row


def watermark_after(file: FileRow) -> dt.datetime | None:
    """Return the watermark of the object log after a file of objects or a withdrawal, which alone may lower it."""
    if file["withdrawal_id"] is not None:
        return file["max_ts"]
    return max((ts for ts in (file["watermark"], file["max_ts"]) if ts is not None), default=None)


def seconds_ahead(watermark: dt.datetime | None, now: dt.datetime, max_ahead_seconds: int) -> int:
    """Return how many seconds further ahead of the clock the watermark is than the setting allows; 0 if it is not."""
    if watermark is None or not max_ahead_seconds:
        return 0
    return max(0, math.ceil((watermark - now).total_seconds()) - max_ahead_seconds)


def latest_rows(rows: pa.Table, key: str) -> pa.Table:
    """Return the latest row of each key, ordered by `key`: `done`, or `started` where the key has no other row."""
    keys = rows.column(key).to_numpy()
    order = np.lexsort((pc.equal(rows.column("status"), "done").to_numpy(), keys))
    is_last = np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]
    return rows.take(order[is_last])


def split_by_status(rows: pa.Table, key: str) -> tuple[pa.Table, pa.Table]:
    """Return the latest rows in two tables, both ordered by `key`: those `done`, and those only `started`."""
    latest = latest_rows(rows, key)
    is_done = pc.equal(latest.column("status"), "done")
    return latest.filter(is_done), latest.filter(pc.invert(is_done))


def step_seconds(seconds: Sequence[tuple[str, float]] | None) -> dict[str, float]:
    """Return the seconds of each step of a batch from its column `seconds_by_step`, without the CPU seconds in it."""
    return {step: value for step, value in seconds or () if not step.endswith("_cpu")}
