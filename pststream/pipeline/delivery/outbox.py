"""The messages of batches, in the order in which every sink is told them.

Order: batches by number; in a batch the pairs by object key (the order of the log) and subscription key; then, where
there is a limit, a digest for each subscription that went over it. So the messages of a batch and their order are a
function of the tables and the limit alone, and a place in it is a number.

In memory: the pairs of a batch up to `sorted_rows.RUN_ROWS` (more are sorted on disk), the objects and subscriptions of
WINDOW pairs, and, with a limit, 16 bytes for each subscription that matched within its time.
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
from pststream.delivery.contract import Message
from pststream.delivery.messages import (
    DIGEST_OBJECTS,
    MATCHED,
    RETRACTED,
    Subscriber,
    Told,
    digest_message,
    pair_message,
    subscriber,
    told,
)
from pststream.delivery.rate_limit import Tally
from pststream.errors import PstError
from pststream.iso_times import iso
from pststream.kinds.registry import brief_columns
from pststream.pipeline.delivery.external_sort import SortedRows
from pststream.reports.reading.pairs import opened
from pststream.reports.reading.table_reader import Reader
from pststream.settings import LONGEST_SECONDS
from pststream.state.home import Home

WINDOW = 65_536
DIGEST_WINDOW = 256
MATCH_ROWS = 1_024
"""Rows of `matches` opened at a time, each of which may hold the subscriptions of a popular object."""

MOST_BYTES = 128 * 1024 * 1024
"""Of the objects, and of the subscriptions, of a window; a window that has more is halved."""


@dataclass(frozen=True)
class Limit:
    """At most `messages` to a subscription from the batches that started within the same `seconds`; 0: no limit."""

    messages: int = 0
    seconds: int = 1


class Outbox:
    """What the batches that were done when it was made have to tell. Safe to be used by several threads.

    first            the first batch that some sink is still to be told of, or an earlier one
    window_seconds   the longest time over which a sink limits its messages: batches before `first` count in it
    """

    def __init__(self, home: Home, first: int = 0, window_seconds: int = 0) -> None:
        self._reader = Reader(home)
        rows = self._done(pds.field("batch_id") >= first)
        if first and window_seconds and rows.num_rows:
            window = dt.timedelta(seconds=min(window_seconds, LONGEST_SECONDS))
            since = pc.min(rows.column("started_at")).as_py() - window
            earlier = self._done((pds.field("batch_id") < first) & (pds.field("started_at") >= since))
            rows = pa.concat_tables([earlier, rows])
        self.batches: np.ndarray = rows.column("batch_id").to_numpy()
        self._found = rows.column("matches").to_numpy() + rows.column("retractions").to_numpy()
        self._started = rows.column("started_at").cast(pa.int64()).to_numpy() // 1_000_000
        for name in (names.MATCHES, names.OBJECTS, names.REQUESTS):
            self._reader.dataset(name)

    def _done(self, filter: pds.Expression) -> pa.Table:
        columns = ["batch_id", "started_at", "matches", "retractions"]
        return self._reader.read(names.BATCHES, columns, (pds.field("status") == "done") & filter).sort_by("batch_id")

    def messages(self, batch_id: int, limit: Limit, skip: int = 0) -> Iterator[Message]:
        """The messages of a batch, without the first `skip`."""
        if not self._found[np.searchsorted(self.batches, batch_id)]:
            return
        with tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder:
            (pairs_folder := Path(folder) / "pairs").mkdir()
            (over_folder := Path(folder) / "over").mkdir()
            pairs, beyond = SortedRows(3, pairs_folder), SortedRows(2, over_folder)
            for part in self._pairs(batch_id):
                pairs.add(part)
            tally = self._tally(batch_id, limit) if limit.messages else None
            for portion in pairs.portions():
                if tally is not None:
                    over = _over(tally, portion)
                    beyond.add(portion[[2, 0]][:, over])
                    portion = portion[:, ~over]
                yield from self._pair_messages(batch_id, portion[:, skip:])
                skip = max(0, skip - portion.shape[1])
            for portion in beyond.portions():
                groups = np.stack(np.unique(portion[0], return_index=True, return_counts=True))
                yield from self._digests(batch_id, portion[1], groups[:, skip:])
                skip = max(0, skip - groups.shape[1])

    def _pairs(self, batch_id: int) -> Iterator[np.ndarray]:
        """The pairs that a batch wrote, as stored: int64[3, n]: object key, whether taken back, subscription key."""
        columns = ("object_key", "retracted", "subscription_keys")
        here = pds.field("batch_id") == batch_id
        for rows in self._reader.batches(names.MATCHES, columns, here, rows=MATCH_ROWS):
            row, keys = opened(rows.column("subscription_keys"))
            objects = rows.column("object_key").to_numpy()
            retracted = rows.column("retracted").to_numpy(zero_copy_only=False)
            yield np.stack([objects[row], retracted[row].astype(np.int64), keys])

    def _tally(self, batch_id: int, limit: Limit) -> Tally:
        """A tally that has counted the batches before it within the limit's time."""
        tally = Tally(limit.messages)
        window = self._started // limit.seconds
        mine = window[np.searchsorted(self.batches, batch_id)]
        for earlier in self.batches[(self.batches < batch_id) & (window == mine) & (self._found > 0)].tolist():
            for pairs in self._pairs(earlier):
                _over(tally, pairs)
        return tally

    def _pair_messages(self, batch_id: int, pairs: np.ndarray) -> Iterator[Message]:
        """Messages of pairs, int64[3, n]: of a window at once, or, where that is too large, of each half."""
        for window in _cut(pairs, WINDOW):
            most = MOST_BYTES if window.shape[1] > 1 else None
            try:
                things, whos = self._things(window[0], most), self._subscribers(window[2], most)
            except _TooLarge:
                for half in _cut(window, window.shape[1] // 2):
                    yield from self._pair_messages(batch_id, half)
                continue
            for object_key, retracted, subscription_key in window.T.tolist():
                kind = RETRACTED if retracted else MATCHED
                yield pair_message(kind, batch_id, things[object_key], whos[subscription_key])

    def _digests(self, batch_id: int, objects: np.ndarray, groups: np.ndarray) -> Iterator[Message]:
        """Digests of groups, int64[3, n]: subscription key, place of its first object in `objects`, how many."""
        for window in _cut(groups, DIGEST_WINDOW):
            named = [objects[at : at + min(count, DIGEST_OBJECTS)] for _, at, count in window.T.tolist()]
            most = MOST_BYTES if window.shape[1] > 1 else None
            try:
                things = self._things(np.concatenate(named), most, text=False)
                whos = self._subscribers(window[0], most)
            except _TooLarge:
                for half in _cut(window, window.shape[1] // 2):
                    yield from self._digests(batch_id, objects, half)
                continue
            for (key, _, count), mine in zip(window.T.tolist(), named):
                yield digest_message(batch_id, count, [things[one] for one in mine.tolist()], whos[key])

    def _things(self, keys: np.ndarray, most_bytes: int | None, text: bool = True) -> "_Things":
        columns = ["object_id", "ts", "lon", "lat"] + (["text"] if text else [])
        return _Things(*self._look_up(names.OBJECTS, "object_key", columns, np.unique(keys), most_bytes))

    def _subscribers(self, keys: np.ndarray, most_bytes: int | None) -> "_Subscribers":
        columns = ["subscription_id", *brief_columns(), "payload"]
        return _Subscribers(*self._look_up(names.REQUESTS, "request_key", columns, np.unique(keys), most_bytes))

    def _look_up(
        self, name: str, key: str, columns: Sequence[str], keys: np.ndarray, most_bytes: int | None
    ) -> tuple[np.ndarray, pa.Table]:
        """The rows of these ascending keys, in their order. Raises _TooLarge, and PstError where one is not there."""
        wanted = (pds.field(key) >= int(keys[0])) & (pds.field(key) <= int(keys[-1]))
        if keys[-1] - keys[0] >= len(keys):
            wanted = wanted & pds.field(key).isin(pa.array(keys))
        held: list[pa.RecordBatch] = []
        for rows in self._reader.batches(name, (key, *columns), wanted, rows=8_192):
            held.append(rows)
            if most_bytes is not None and sum(part.nbytes for part in held) > most_bytes:
                raise _TooLarge
        found = pa.Table.from_batches(held).sort_by(key) if held else None
        if found is None or not np.array_equal(found.column(key).to_numpy(), keys):
            raise PstError(
                f"`matches` names a key that `{name}` does not hold once",
                "the tables are not of one state: restore them from one backup",
            )
        return keys, found


class _TooLarge(Exception):
    """The rows of a window take too much memory."""


class _Rows:
    """Rows by their key, made into what messages show when they are first asked for."""

    def __init__(self, keys: np.ndarray, rows: pa.Table) -> None:
        self._places = {key: place for place, key in enumerate(keys.tolist())}
        self._columns = {name: rows.column(name).to_pylist() for name in rows.column_names[1:]}
        self._made: dict[int, Any] = {}

    def _row(self, key: int) -> dict[str, Any]:
        place = self._places[key]
        return {name: values[place] for name, values in self._columns.items()}


class _Things(_Rows):
    """Objects; as pairs come in the order of objects, the last one is kept."""

    def __getitem__(self, key: int) -> Told:
        if key not in self._made:
            row = self._row(key)
            self._made = {key: told(key, **row | {"ts": iso(row["ts"])})}
        return self._made[key]


class _Subscribers(_Rows):
    """Subscriptions, each made once."""

    def __getitem__(self, key: int) -> Subscriber:
        if key not in self._made:
            self._made[key] = subscriber(key, self._row(key))
        return self._made[key]


def _cut(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Columns of an array, `size` at a time."""
    return (rows[:, start : start + size] for start in range(0, rows.shape[1], size))


def _over(tally: Tally, pairs: np.ndarray) -> np.ndarray:
    """Which pairs go over the limit; those that were taken back neither count nor go over."""
    over = np.zeros(pairs.shape[1], bool)
    found = np.flatnonzero(pairs[1] == 0)
    over[found] = tally.over(pairs[2][found])
    return over
