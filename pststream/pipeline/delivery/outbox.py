"""Build the messages of a finished batch from the tables, in the order of delivery, for sink_sender.py to send.

Order: batches by number; in a batch the pairs by object key (the order of the log) and subscription key; then, if the
sink has a limit, a digest for each subscription that exceeded it. The messages of a batch and their order depend only
on the tables and the limit, so a delivery position is a number of messages.

In memory: the pairs of a batch up to `external_sort.RUN_ROWS` (more are sorted on disk), the objects and subscriptions
of WINDOW pairs, and, with a limit, 16 bytes for each subscription that matched within its time.
"""

import datetime as dt
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delivery.messages import (
    DIGEST_OBJECTS,
    MATCHED,
    RETRACTED,
    MessageObject,
    MessageSubscription,
    digest_message,
    message_object,
    message_subscription,
    pair_message,
)
from pststream.delivery.rate_limit import MessageLimiter
from pststream.errors import PstError
from pststream.kinds.registry import brief_columns
from pststream.pipeline.delivery.external_sort import SortedRows
from pststream.reports.reading.pairs import flatten_lists
from pststream.reports.reading.table_reader import TableReader
from pststream.settings import LONGEST_SECONDS
from pststream.sinks.contract import Message
from pststream.state.home import Home
from pststream.utc_times import iso

WINDOW = 65_536
DIGEST_WINDOW = 256
MATCH_ROWS = 1_024
"""Rows of `matches` read at a time; each may list the many subscriptions of one object."""

MAX_BYTES = 128 * 1024 * 1024
"""Bound on the objects, and on the subscriptions, of a window; a larger window is halved."""


@dataclass(frozen=True)
class Limit:
    """At most `messages` to a subscription from the batches that started in one window of `seconds`; 0: no limit."""

    messages: int = 0
    seconds: int = 1


class Outbox:
    """The messages of the batches that were finished when it was made. Safe for use by several threads.

    first            the first batch that is not completely delivered to every sink, or an earlier one
    window_seconds   the longest time over which a sink limits its messages; batches before `first` count in it
    """

    def __init__(self, home: Home, first: int = 0, window_seconds: int = 0) -> None:
        self._reader = TableReader(home)
        rows = self._finished(pds.field("batch_id") >= first)
        if first and window_seconds and rows.num_rows:
            window = dt.timedelta(seconds=min(window_seconds, LONGEST_SECONDS))
            since = pc.min(rows.column("started_at")).as_py() - window
            earlier = self._finished((pds.field("batch_id") < first) & (pds.field("started_at") >= since))
            rows = pa.concat_tables([earlier, rows])
        self.batches: np.ndarray = rows.column("batch_id").to_numpy()
        self._pair_counts = rows.column("matches").to_numpy() + rows.column("retractions").to_numpy()
        self._started = rows.column("started_at").cast(pa.int64()).to_numpy() // 1_000_000
        for name in (names.MATCHES, names.OBJECTS, names.REQUESTS):
            self._reader.dataset(name)

    def _finished(self, filter: pds.Expression) -> pa.Table:
        columns = ["batch_id", "started_at", "matches", "retractions"]
        return self._reader.read(names.BATCHES, columns, (pds.field("status") == "done") & filter).sort_by("batch_id")

    def messages(self, batch_id: int, limit: Limit, skip: int = 0) -> Iterator[Message]:
        """Yield the messages of a batch, without the first `skip`."""
        if not self._pair_counts[np.searchsorted(self.batches, batch_id)]:
            return
        with tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder:
            (pairs_folder := Path(folder) / "pairs").mkdir()
            (beyond_folder := Path(folder) / "beyond").mkdir()
            pairs, beyond_limit = SortedRows(3, pairs_folder), SortedRows(2, beyond_folder)
            for rows in self._pairs(batch_id):
                pairs.add(rows)
            # Messages of single pairs; those beyond the limit are put aside for digests.
            limiter = self._limiter(batch_id, limit) if limit.messages else None
            for rows in pairs.sorted_rows():
                if limiter is not None:
                    beyond = _count_pairs(limiter, rows)
                    beyond_limit.add(rows[[2, 0]][:, beyond])
                    rows = rows[:, ~beyond]
                yield from self._pair_messages(batch_id, rows[:, skip:])
                skip = max(0, skip - rows.shape[1])
            # One digest for each subscription that exceeded the limit.
            for rows in beyond_limit.sorted_rows():
                groups = np.stack(np.unique(rows[0], return_index=True, return_counts=True))
                yield from self._digests(batch_id, rows[1], groups[:, skip:])
                skip = max(0, skip - groups.shape[1])

    def _pairs(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the pairs of a batch, as stored: int64[3, n]: object key, whether retracted, subscription key."""
        columns = ("object_key", "retracted", "subscription_keys")
        here = pds.field("batch_id") == batch_id
        for rows in self._reader.batches(names.MATCHES, columns, here, rows=MATCH_ROWS):
            row, keys = flatten_lists(rows.column("subscription_keys"))
            objects = rows.column("object_key").to_numpy()
            retracted = rows.column("retracted").to_numpy(zero_copy_only=False)
            yield np.stack([objects[row], retracted[row].astype(np.int64), keys])

    def _limiter(self, batch_id: int, limit: Limit) -> MessageLimiter:
        """Return a limiter that has counted the earlier batches within the limit's time."""
        limiter = MessageLimiter(limit.messages)
        window = self._started // limit.seconds
        current = window[np.searchsorted(self.batches, batch_id)]
        for earlier in self.batches[(self.batches < batch_id) & (window == current) & (self._pair_counts > 0)].tolist():
            for pairs in self._pairs(earlier):
                _count_pairs(limiter, pairs)
        return limiter

    def _pair_messages(self, batch_id: int, pairs: np.ndarray) -> Iterator[Message]:
        """Yield the messages of pairs, int64[3, n], WINDOW pairs at a time; a window over MAX_BYTES is halved."""
        for window in _cut(pairs, WINDOW):
            max_bytes = MAX_BYTES if window.shape[1] > 1 else None
            try:
                objects = self._objects(window[0], max_bytes)
                subscriptions = self._subscriptions(window[2], max_bytes)
            except _TooLarge:
                for half in _cut(window, window.shape[1] // 2):
                    yield from self._pair_messages(batch_id, half)
                continue
            for object_key, retracted, subscription_key in window.T.tolist():
                kind = RETRACTED if retracted else MATCHED
                yield pair_message(kind, batch_id, objects[object_key], subscriptions[subscription_key])

    def _digests(self, batch_id: int, keys: np.ndarray, groups: np.ndarray) -> Iterator[Message]:
        """Yield the digests of groups, int64[3, n]: subscription key, index of its first object in `keys`, count."""
        for window in _cut(groups, DIGEST_WINDOW):
            listed = [keys[first : first + min(count, DIGEST_OBJECTS)] for _, first, count in window.T.tolist()]
            max_bytes = MAX_BYTES if window.shape[1] > 1 else None
            try:
                objects = self._objects(np.concatenate(listed), max_bytes, text=False)
                subscriptions = self._subscriptions(window[0], max_bytes)
            except _TooLarge:
                for half in _cut(window, window.shape[1] // 2):
                    yield from self._digests(batch_id, keys, half)
                continue
            for (key, _, count), first in zip(window.T.tolist(), listed):
                yield digest_message(batch_id, count, [objects[one] for one in first.tolist()], subscriptions[key])

    def _objects(self, keys: np.ndarray, max_bytes: int | None, text: bool = True) -> "_ObjectRows":
        columns = ["object_id", "ts", "lon", "lat"] + (["text"] if text else [])
        return _ObjectRows(*self._look_up(names.OBJECTS, "object_key", columns, np.unique(keys), max_bytes))

    def _subscriptions(self, keys: np.ndarray, max_bytes: int | None) -> "_SubscriptionRows":
        columns = ["subscription_id", *brief_columns(), "payload"]
        return _SubscriptionRows(*self._look_up(names.REQUESTS, "request_key", columns, np.unique(keys), max_bytes))

    def _look_up(
        self, name: str, key: str, columns: Sequence[str], keys: np.ndarray, max_bytes: int | None
    ) -> tuple[np.ndarray, pa.Table]:
        """Read the rows of these ascending keys, in order. Raises _TooLarge, and PstError where one is missing."""
        wanted = (pds.field(key) >= int(keys[0])) & (pds.field(key) <= int(keys[-1]))
        if keys[-1] - keys[0] >= len(keys):
            wanted = wanted & pds.field(key).isin(pa.array(keys))
        parts: list[pa.RecordBatch] = []
        for rows in self._reader.batches(name, (key, *columns), wanted, rows=8_192):
            parts.append(rows)
            if max_bytes is not None and sum(part.nbytes for part in parts) > max_bytes:
                raise _TooLarge
        ordered_rows = pa.Table.from_batches(parts).sort_by(key) if parts else None
        if ordered_rows is None or not np.array_equal(ordered_rows.column(key).to_numpy(), keys):
            raise PstError(
                f"`matches` refers to a key that `{name}` does not contain exactly once",
                "the tables are not from the same moment: restore them from one backup",
            )
        return keys, ordered_rows


class _TooLarge(Exception):
    """The rows of a window take too much memory."""


class _Rows:
    """Rows by key; a row becomes part of messages when it is first read."""

    def __init__(self, keys: np.ndarray, rows: pa.Table) -> None:
        self._index = {key: n for n, key in enumerate(keys.tolist())}
        self._columns = {name: rows.column(name).to_pylist() for name in rows.column_names[1:]}
        self._cached: dict[int, Any] = {}

    def _row(self, key: int) -> dict[str, Any]:
        n = self._index[key]
        return {name: values[n] for name, values in self._columns.items()}


class _ObjectRows(_Rows):
    """Objects; pairs come in the order of objects, so the last one is cached."""

    def __getitem__(self, key: int) -> MessageObject:
        if key not in self._cached:
            row = self._row(key)
            self._cached = {key: message_object(key, **row | {"ts": iso(row["ts"])})}
        return self._cached[key]


class _SubscriptionRows(_Rows):
    """Subscriptions, all cached."""

    def __getitem__(self, key: int) -> MessageSubscription:
        if key not in self._cached:
            self._cached[key] = message_subscription(key, self._row(key))
        return self._cached[key]


def _cut(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Split the columns of an array, `size` at a time."""
    return (rows[:, start : start + size] for start in range(0, rows.shape[1], size))


def _count_pairs(limiter: MessageLimiter, pairs: np.ndarray) -> np.ndarray:
    """Count pairs; return which are beyond the limit: bool[n]. Retractions neither count nor exceed it."""
    beyond = np.zeros(pairs.shape[1], bool)
    matched = np.flatnonzero(pairs[1] == 0)
    beyond[matched] = limiter.count(pairs[2][matched])
    return beyond
