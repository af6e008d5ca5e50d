"""Look up the objects and subscriptions of messages in the tables, by key, a bounded window at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.delivery.messages import MessageObject, MessageSubscription, message_object, message_subscription
from pststream.delta_tables import TableReader
from pststream.errors import PstError
from pststream.kinds.registry import brief_columns
from pststream.sorted_keys import distinct_values
from pststream.utc_times import iso

MAX_BYTES = 128 * 1024 * 1024
"""Bound on the objects, and on the subscriptions, of a window; a larger window is halved."""

CACHED_OBJECTS = 4_096

Part = TypeVar("Part")


class TooLarge(Exception):
    """The rows of a window take too much memory."""


class MessageRows:
    """Reads the rows of objects and subscriptions by key, as parts of messages.

    `max_bytes` of its methods is a bound on the rows, above which they raise TooLarge; None: there is none.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def objects(
        self, keys: np.ndarray, max_bytes: int | None, *, text: bool = True, some_erased: bool = False
    ) -> "ObjectRows":
        """Read objects by their keys (int64[n], in any order). Raises PstError where one is missing.

        With `some_erased`, the result lacks objects that are missing.
        """
        columns = ["object_id", "ts", "lon", "lat"] + (["text"] if text else [])
        return ObjectRows(*self._look_up(names.OBJECTS, "object_key", columns, keys, max_bytes, some_erased))

    def subscriptions(self, keys: np.ndarray, max_bytes: int | None) -> "SubscriptionRows":
        """Read subscriptions by their keys (int64[n], in any order). Raises PstError where one is missing."""
        columns = ["subscription_id", *brief_columns(), "payload"]
        return SubscriptionRows(*self._look_up(names.REQUESTS, "request_key", columns, keys, max_bytes, False))

    def known_subscriptions(self, keys: np.ndarray) -> np.ndarray:
        """Return which subscriptions (int64[n], ascending, distinct) have not been erased: bool[n]."""
        wanted = _among("request_key", keys)
        known = self._reader.read(names.REQUESTS, ["request_key"], wanted).column(0).to_numpy()
        return np.isin(keys, known)

    def _look_up(
        self, name: str, key: str, columns: Sequence[str], keys: np.ndarray, max_bytes: int | None, some_erased: bool
    ) -> tuple[np.ndarray, pa.Table]:
        """Read the rows of these keys; return the keys of the rows, ascending, and the rows in their order."""
        keys = distinct_values(keys)
        parts: list[pa.RecordBatch] = []
        for rows in self._reader.batches(name, (key, *columns), _among(key, keys), rows=8_192):
            parts.append(rows)
            if max_bytes is not None and sum(part.nbytes for part in parts) > max_bytes:
                raise TooLarge
        empty = self._reader.dataset(name).schema.empty_table().select([key, *columns])
        ordered_rows = (pa.Table.from_batches(parts) if parts else empty).sort_by(key)
        stored = ordered_rows.column(key).to_numpy()
        if not some_erased and not np.array_equal(stored, keys):
            raise PstError(
                f"`matches` or `answer_log` refers to a key that `{name}` does not contain exactly once",
                "the tables are not from the same moment: restore them from one backup",
            )
        return stored, ordered_rows


def _among(column: str, keys: np.ndarray) -> pds.Expression:
    """Return the condition that a column has one of these ascending keys; no keys: that it has none."""
    if not len(keys):
        return pds.scalar(False)
    wanted = (pds.field(column) >= int(keys[0])) & (pds.field(column) <= int(keys[-1]))
    return wanted & pds.field(column).isin(pa.array(keys)) if keys[-1] - keys[0] >= len(keys) else wanted


class _Rows:
    """Rows by key; a row becomes part of messages when it is first read."""

    def __init__(self, keys: np.ndarray, rows: pa.Table) -> None:
        self._index = {key: n for n, key in enumerate(keys.tolist())}
        self._columns = {name: rows.column(name).to_pylist() for name in rows.column_names[1:]}
        self._cached: dict[int, Any] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._index

    def _row(self, key: int) -> dict[str, Any]:
        n = self._index[key]
        return {name: values[n] for name, values in self._columns.items()}


class ObjectRows(_Rows):
    """Objects; matches come in the order of objects, many changes of answers name the same ones, so some are cached."""

    def __getitem__(self, key: int) -> MessageObject:
        if key not in self._cached:
            row = self._row(key)
            if len(self._cached) == CACHED_OBJECTS:
                self._cached.clear()
            self._cached[key] = message_object(key, **row | {"ts": iso(row["ts"])})
        return self._cached[key]


class SubscriptionRows(_Rows):
    """Subscriptions, all cached."""

    def __getitem__(self, key: int) -> MessageSubscription:
        if key not in self._cached:
            self._cached[key] = message_subscription(key, self._row(key))
        return self._cached[key]


def halve_if_too_large(
    parts: np.ndarray, read: Callable[[np.ndarray, int | None], Part]
) -> Iterator[tuple[np.ndarray, Part]]:
    """Yield the columns of an array, [m, n], with what `read(columns, max_bytes)` returns for them.

    Where it raises TooLarge, the columns are halved; a single one has no bound.
    """
    try:
        yield parts, read(parts, MAX_BYTES if parts.shape[1] > 1 else None)
    except TooLarge:
        for half in cut(parts, parts.shape[1] // 2):
            yield from halve_if_too_large(half, read)


def cut(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Split the columns of an array, `size` at a time."""
    return (rows[:, start : start + size] for start in range(0, rows.shape[1], size))
