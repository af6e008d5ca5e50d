"""Look up the objects and subscriptions of messages by key, and sort the rows of messages, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import PstError
from pststream.base.utc_times import iso
from pststream.delivery.messages import MessageObject, MessageSubscription, message_object, message_subscription
from pststream.delivery.sinks.contract import Message
from pststream.queries.kinds.registry import brief_columns
from pststream.tables.delta_tables import TableReader
from pststream.tables.table_files import attributes_as_json, read_attributes

MAX_BYTES = 128 * 1024 * 1024
"""Bound on the objects, and on the subscriptions, of a window; a larger window is halved."""

CACHED_OBJECTS = 4_096

TEXT = pa.large_string()

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
        columns = ["object_id", "ts", "lon", "lat"] + (["text", "attributes"] if text else [])
        stored, rows = self._look_up(names.OBJECTS, "object_key", columns, keys, max_bytes, some_erased)
        if text:
            parts = list(map(attributes_as_json, rows.column("attributes").chunks))
            rows = rows.set_column(columns.index("attributes") + 1, "attributes", pa.chunked_array(parts, TEXT))
        return ObjectRows(stored, rows)

    def subscriptions(self, keys: np.ndarray, max_bytes: int | None) -> "SubscriptionRows":
        """Read subscriptions by their keys (int64[n], in any order). Raises PstError where one is missing."""
        columns = ["owner", "subscription_id", *brief_columns(), "payload", "conditions"]
        return SubscriptionRows(*self._look_up(names.REQUESTS, "request_key", columns, keys, max_bytes, False))

    def known_subscriptions(self, keys: np.ndarray) -> np.ndarray:
        """Return which subscriptions (int64[n], ascending, distinct) have not been erased: bool[n]."""
        known = self._reader.read(names.REQUESTS, ["request_key"], _among("request_key", keys))
        return np.isin(keys, known.column(0).to_numpy())

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
            attributes = read_attributes(row.get("attributes"))
            self._cached[key] = message_object(key, **row | {"ts": iso(row["ts"]), "attributes": attributes})
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


@dataclass(frozen=True)
class MessageBlock:
    """`count` messages; `make(skip)` builds and yields them without the first `skip`, which costs no look-up."""

    count: int
    make: Callable[[int], Iterator[Message]]


RUN_ROWS = 1_000_000


class SortedRows:
    """Accepts rows as int64[columns, n], yields them sorted by the first column, then the second, and so on.

    folder: an empty folder for runs; nothing is written unless there are more than `run_rows` rows.
    At most about twice `run_rows` rows are in memory, or the rows that share one value of the first column.
    """

    def __init__(self, columns: int, folder: Path, run_rows: int = RUN_ROWS) -> None:
        self._buffered = [np.empty((columns, 0), np.int64)]
        self._buffered_rows = 0
        self._folder = folder
        self._run_rows = run_rows
        self._runs: list[Path] = []

    def add(self, rows: np.ndarray) -> None:
        """Add rows: int64[columns, n]."""
        self._buffered.append(rows)
        self._buffered_rows += rows.shape[1]
        if self._buffered_rows > self._run_rows:
            path = self._folder / f"{len(self._runs)}.npy"
            np.save(path, self._take_buffered())
            self._runs.append(path)

    def sorted_rows(self) -> Iterator[np.ndarray]:
        """Yield all rows in order, int64[columns, n] at a time; rows of one value of the first column stay together."""
        runs = [np.load(path, mmap_mode="r") for path in self._runs] + [self._take_buffered()]
        size = max(1, self._run_rows // len(runs))
        starts = [0] * len(runs)
        while unread := [i for i, run in enumerate(runs) if starts[i] < run.shape[1]]:
            # Each run offers its next `size` rows. `last` is the least of their last values: no run has a row up to
            # `last` beyond the rows that are taken here.
            last = min(int(runs[i][0, min(starts[i] + size, runs[i].shape[1]) - 1]) for i in unread)
            blocks = []
            for i in unread:
                stop = starts[i] + int(np.searchsorted(runs[i][0, starts[i] :], last, "right"))
                blocks.append(runs[i][:, starts[i] : stop])
                starts[i] = stop
            yield blocks[0] if len(blocks) == 1 else _sorted(np.concatenate(blocks, axis=1))

    def _take_buffered(self) -> np.ndarray:
        rows = _sorted(np.concatenate(self._buffered, axis=1))
        self._buffered, self._buffered_rows = [rows[:, :0]], 0
        return rows


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[:, np.lexsort(rows[::-1])]


NO_WORD = -1


class StoredWords:
    """Words in a new file, named by their offsets; it is open until the end of `with`. A word has no line end."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb+")  # noqa: SIM115
        self._size = 0

    def __enter__(self) -> "StoredWords":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, words: pa.Array) -> np.ndarray:
        """Write the distinct ones of some words, strings or null; return the offset of each row: int64[n]."""
        encoded = words.dictionary_encode()
        distinct = encoded.dictionary.cast(pa.large_binary())
        lengths = pc.binary_length(distinct).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        offsets = np.append(self._size + np.cumsum(lengths) - lengths, NO_WORD)
        self._file.seek(self._size)
        self._file.writelines(word + b"\n" for word in distinct.to_pylist())
        self._size += int(lengths.sum())
        index: np.ndarray = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return offsets[index]

    def read(self, offsets: np.ndarray) -> list[str | None]:
        """Read the words at some offsets (int64[n]); None for NO_WORD."""
        return [None if offset == NO_WORD else self._word_at(offset) for offset in offsets.tolist()]

    def _word_at(self, offset: int) -> str:
        self._file.seek(offset)
        return self._file.readline()[:-1].decode()
