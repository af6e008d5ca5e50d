"""Build the messages of a finished batch from the tables, in the order of delivery, for deliver.py to send.

Order: batches by number; in a batch the matches, then the changes of answers. The messages of a batch and their order
depend only on the tables and the limit, so a delivery position is a number of messages.

In memory: what the sources keep, and, with a limit, 16 bytes for each subscription with a message within its time.
"""

import datetime as dt
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, offsets_of
from pststream.base.arrow_columns import micros
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.delivery.change_messages import (
    ENTERED,
    LEFT,
    ChangeBatch,
    ObjectChange,
    TermChange,
    object_digest,
    object_message,
    report_digest,
    report_message,
)
from pststream.delivery.messages import (
    DIGEST_OBJECTS,
    MATCHED,
    RETRACTED,
    MessageLimiter,
    digest_message,
    erased_object,
    pair_message,
)
from pststream.delivery.sinks.contract import Message
from pststream.pipeline.delivery.message_rows import (
    MessageBlock,
    MessageRows,
    ObjectRows,
    SortedRows,
    StoredWords,
    SubscriptionRows,
    cut,
    halve_if_too_large,
)
from pststream.queries.kinds.contract import AnswerRow
from pststream.reports.reading.pairs import flatten_lists
from pststream.settings import LONGEST_SECONDS
from pststream.state.home import Home
from pststream.tables.delta_tables import TableReader

WINDOW = 65_536
DIGEST_WINDOW = 256
MATCH_ROWS = 1_024
"""Rows of `matches` read at a time; each may list the many subscriptions of one object."""


class PairMessages:
    """The messages of matches and of their retractions, by object key (the order of the log) and subscription key.

    Then, if the sink has a limit, a digest for each subscription that exceeded it; retractions neither count nor exceed
    it. In memory: as many pairs as SortedRows keeps, and the objects and subscriptions of WINDOW pairs.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._rows = MessageRows(reader)

    def blocks(self, batch: ChangeBatch, limiter: MessageLimiter | None) -> Iterator[MessageBlock]:
        """Yield the messages of a batch; the limiter has counted the earlier batches that its limit spans."""
        with tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder:
            (pairs_folder := Path(folder) / "pairs").mkdir()
            (beyond_folder := Path(folder) / "beyond").mkdir()
            pairs, beyond_limit = SortedRows(3, pairs_folder), SortedRows(2, beyond_folder)
            for rows in self._pairs(batch.batch_id):
                pairs.add(rows)
            # Messages of single pairs; those beyond the limit are put aside for digests.
            for rows in pairs.sorted_rows():
                if limiter is not None:
                    beyond, matched = np.zeros(rows.shape[1], bool), np.flatnonzero(rows[1] == 0)
                    beyond[matched] = limiter.count(rows[2][matched])
                    beyond_limit.add(rows[[2, 0]][:, beyond])
                    rows = rows[:, ~beyond]
                yield MessageBlock(rows.shape[1], partial(self._pair_messages, batch.batch_id, rows))
            # One digest for each subscription that exceeded the limit.
            for rows in beyond_limit.sorted_rows():
                groups = np.stack(np.unique(rows[0], return_index=True, return_counts=True))
                yield MessageBlock(groups.shape[1], partial(self._digests, batch.batch_id, rows[1], groups))

    def limited_keys(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the subscription keys of matched pairs, int64[n], in any order: they count against a limit."""
        return (rows[2, rows[1] == 0] for rows in self._pairs(batch_id))

    def _pairs(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the pairs of a batch, as stored: int64[3, n]: object key, whether retracted, subscription key."""
        columns = ("object_key", "retracted", "subscription_keys")
        here = pds.field("batch_id") == batch_id
        for rows in self._reader.batches(names.MATCHES, columns, here, rows=MATCH_ROWS):
            row, keys = flatten_lists(rows.column("subscription_keys"))
            objects = rows.column("object_key").to_numpy()
            retracted = rows.column("retracted").to_numpy(zero_copy_only=False)
            yield np.stack([objects[row], retracted[row].astype(np.int64), keys])

    def _pair_messages(self, batch_id: int, pairs: np.ndarray, skip: int) -> Iterator[Message]:
        """Yield the messages of pairs, int64[3, n], without the first `skip`."""

        def read(some: np.ndarray, max_bytes: int | None) -> tuple[ObjectRows, SubscriptionRows]:
            return self._rows.objects(some[0], max_bytes), self._rows.subscriptions(some[2], max_bytes)

        for window in cut(pairs[:, skip:], WINDOW):
            for some, (objects, subscriptions) in halve_if_too_large(window, read):
                for object_key, retracted, subscription_key in some.T.tolist():
                    kind = RETRACTED if retracted else MATCHED
                    yield pair_message(kind, batch_id, objects[object_key], subscriptions[subscription_key])

    def _digests(self, batch_id: int, keys: np.ndarray, groups: np.ndarray, skip: int) -> Iterator[Message]:
        """Yield the digests of groups, int64[3, n]: subscription key, index of its first object in `keys`, count."""

        def listed(group: list[int]) -> np.ndarray:
            return keys[group[1] : group[1] + min(group[2], DIGEST_OBJECTS)]

        def read(some: np.ndarray, max_bytes: int | None) -> tuple[ObjectRows, SubscriptionRows]:
            of_groups = np.concatenate([listed(group) for group in some.T.tolist()])
            return self._rows.objects(of_groups, max_bytes, text=False), self._rows.subscriptions(some[0], max_bytes)

        for window in cut(groups[:, skip:], DIGEST_WINDOW):
            for some, (objects, subscriptions) in halve_if_too_large(window, read):
                for group in some.T.tolist():
                    first = [objects[one] for one in listed(group).tolist()]
                    yield digest_message(batch_id, group[2], first, subscriptions[group[0]])


SUBSCRIPTION, TICK, HAS_ENTERED, RANK, OBJECT, TS, VALUE, WORD, COUNT = range(9)
"""Columns of changes, int64[9, n], in the order of their importance for the order of messages.

TICK: 0 where the row is an object; OBJECT: NO_OBJECT where the row is of a report; TICK, TS: microseconds; VALUE: bits
of the float32; WORD: offset in StoredWords
"""

NO_OBJECT = -1
LOG_COLUMNS = ("subscription_key", "event", "rank", "object_key", "ts", "value", "term", "count")
RUN_ROWS = 262_144


class AnswerMessages:
    """The messages of objects that entered and left answers, and of reports, by subscription key.

    In a subscription, the rows that left by rank, then those that entered by rank; of reports the ticks in order. A
    report is one message. What exceeds the sink's limit becomes one digest, the last message of its subscription.

    Rows of an erased subscription have no message; an erased object is shown by its `ts` alone. In memory: RUN_ROWS
    changes or those of one subscription, and the objects and subscriptions of about WINDOW rows.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._rows = MessageRows(reader)

    def blocks(self, batch: ChangeBatch, limiter: MessageLimiter | None) -> Iterator[MessageBlock]:
        """Yield the messages of a batch; the limiter has counted the earlier batches that its limit spans."""
        with (
            tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder,
            StoredWords(Path(folder) / "words") as words,
        ):
            (changes_folder := Path(folder) / "changes").mkdir()
            changes = SortedRows(9, changes_folder, RUN_ROWS)
            for rows in self._read(batch.batch_id, LOG_COLUMNS):
                changes.add(_to_numbers(rows, words))
            for numbers in changes.sorted_rows():
                keys, index = np.unique(numbers[SUBSCRIPTION], return_inverse=True)
                is_known = self._rows.known_subscriptions(keys)
                numbers = numbers if is_known.all() else numbers[:, is_known[index]]
                units = _units(numbers, limiter)
                yield MessageBlock(units.shape[1], partial(self._messages, batch, words, numbers, units))

    def limited_keys(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the subscription keys of objects that entered or left, then of reports."""
        with tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder:
            reports = SortedRows(2, Path(folder))
            for rows in self._read(batch_id, ("subscription_key", "object_key", "ts")):
                keys = rows.column("subscription_key").to_numpy()
                is_object = rows.column("object_key").is_valid().to_numpy(zero_copy_only=False)
                yield keys[is_object]
                reports.add(np.stack([keys, micros(rows.column("ts"))])[:, ~is_object])
            for of_reports in reports.sorted_rows():
                yield np.unique(of_reports, axis=1)[0]

    def _read(self, batch_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        here = (pds.field("part") == "change") & (pds.field("batch_id") == batch_id)
        return self._reader.batches(names.ANSWER_LOG, columns, here)

    def _messages(
        self, batch: ChangeBatch, words: StoredWords, rows: np.ndarray, units: np.ndarray, skip: int
    ) -> Iterator[Message]:
        """Yield the messages of `units` (see `_units`) of changes, without the first `skip`."""

        def read(some: np.ndarray, max_bytes: int | None) -> tuple[ObjectRows, SubscriptionRows]:
            part = rows[:, some[0, 0] : some[1, -1]]
            keys = part[OBJECT][part[OBJECT] != NO_OBJECT]
            objects = self._rows.objects(keys, max_bytes, some_erased=True)
            return objects, self._rows.subscriptions(part[SUBSCRIPTION], max_bytes)

        units = units[:, skip:]
        bounds = [*np.flatnonzero(np.diff(units[0] // WINDOW, prepend=-1)).tolist(), units.shape[1]]
        for first, stop in pairwise(bounds):
            for some, (objects, subscriptions) in halve_if_too_large(units[:, first:stop], read):
                for start, end, is_digest in some.T.tolist():
                    part = rows[:, start:end]
                    subscription = subscriptions[int(part[SUBSCRIPTION, 0])]
                    of_objects = part[OBJECT, 0] != NO_OBJECT
                    if of_objects and is_digest:
                        listed = _object_changes(part[:, :DIGEST_OBJECTS], objects)
                        yield object_digest(batch, end - start, listed, subscription)
                    elif of_objects:
                        (change,) = _object_changes(part, objects)
                        yield object_message(batch, change, subscription)
                    elif is_digest:
                        yield report_digest(batch, distinct_values(part[TICK]).tolist(), subscription)
                    else:
                        yield report_message(batch, int(part[TICK, 0]), _term_changes(part, words), subscription)


def _to_numbers(rows: pa.RecordBatch, words: StoredWords) -> np.ndarray:
    """Return rows of the log as int64[9, n], and store their words."""
    object_key = rows.column("object_key").fill_null(NO_OBJECT).to_numpy()
    value = rows.column("value").fill_null(0).to_numpy().view(np.int32)
    ts = micros(rows.column("ts"))
    numbers = {
        SUBSCRIPTION: rows.column("subscription_key").to_numpy(),
        TICK: np.where(object_key == NO_OBJECT, ts, 0),
        HAS_ENTERED: np.asarray(rows.column("event")) == ENTERED,
        RANK: rows.column("rank").to_numpy(),
        OBJECT: object_key,
        TS: ts,
        VALUE: value,
        WORD: words.add(rows.column("term")),
        COUNT: rows.column("count").fill_null(0).to_numpy(),
    }
    return np.stack([numbers[column].astype(np.int64) for column in range(9)])


def _units(rows: np.ndarray, limiter: MessageLimiter | None) -> np.ndarray:
    """Return the first row, the row after the last, and whether it is a digest, of each message: int64[3, m].

    Rows are sorted. An object is a message, and so is a report, whose rows share a subscription and a tick. All that is
    beyond the limit comes last in its subscription.
    """
    is_first = rows[OBJECT] != NO_OBJECT
    is_first[:1] = True
    is_first[1:] |= (rows[: TICK + 1, 1:] != rows[: TICK + 1, :-1]).any(axis=0)
    starts = np.flatnonzero(is_first)
    beyond = np.zeros(len(starts), bool)
    if limiter is not None:
        keys = rows[SUBSCRIPTION, starts]
        beyond = limiter.count(keys)
        goes_on = np.zeros(len(starts), bool)
        goes_on[1:] = beyond[1:] & beyond[:-1] & (keys[1:] == keys[:-1])
        starts, beyond = starts[~goes_on], beyond[~goes_on]
    return np.stack([starts, np.append(starts[1:], rows.shape[1])[: len(starts)], beyond])


def _object_changes(rows: np.ndarray, objects: ObjectRows) -> list[ObjectChange]:
    """Return what messages show of changes of objects."""
    values = rows[VALUE].astype(np.int32).view(np.float32).tolist()
    changes = []
    for (_, _, has_entered, rank, key, ts, *_), value in zip(rows.T.tolist(), values):
        item = objects[key] if key in objects else erased_object(key, str(iso(from_micros(ts))))
        changes.append(ObjectChange(ENTERED if has_entered else LEFT, ts, item, AnswerRow(rank, value)))
    return changes


def _term_changes(rows: np.ndarray, words: StoredWords) -> list[TermChange]:
    """Return what messages show of the changes of a report."""
    return [
        TermChange(ENTERED if has_entered else LEFT, AnswerRow(rank, term=word, count=count))
        for (has_entered, rank, *_, count), word in zip(rows[HAS_ENTERED:].T.tolist(), words.read(rows[WORD]))
    ]


LOG_RANGE = ("objects_after", "objects_to", "requests_after", "requests_to")
COLUMNS = ["batch_id", "started_at", "matches", "retractions", "changes", "stream_time", *LOG_RANGE]


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
        rows = _with_stream_before(self._finished(pds.field("batch_id") >= first - 1))
        rows = rows.filter(pc.field("batch_id") >= first)
        if first and window_seconds and rows.num_rows:
            window = dt.timedelta(seconds=min(window_seconds, LONGEST_SECONDS))
            since = pc.min(rows.column("started_at")).as_py() - window
            earlier = self._finished((pds.field("batch_id") < first) & (pds.field("started_at") >= since))
            rows = pa.concat_tables([_with_stream_before(earlier), rows])
        self._rows = rows
        self.batches: np.ndarray = rows.column("batch_id").to_numpy()
        self._started = rows.column("started_at").cast(pa.int64()).to_numpy() // 1_000_000
        pairs = rows.column("matches").to_numpy() + rows.column("retractions").to_numpy()
        changes = _sum_of_each(rows.column("changes"))
        # Each source, and for each batch whether it has messages of it.
        self._sources: list[tuple[PairMessages | AnswerMessages, np.ndarray]] = [
            (PairMessages(self._reader), pairs > 0),
            (AnswerMessages(self._reader), changes > 0),
        ]
        for name in (names.MATCHES, names.OBJECTS, names.REQUESTS, *([names.ANSWER_LOG] if changes.any() else [])):
            self._reader.dataset(name)

    def _finished(self, filter: pds.Expression) -> pa.Table:
        rows = self._reader.read(names.BATCHES, COLUMNS, (pds.field("status") == "done") & filter)
        return rows.sort_by("batch_id")

    def messages(self, batch_id: int, limit: Limit, skip: int = 0) -> Iterator[Message]:
        """Yield the messages of a batch, without the first `skip`."""
        index = int(np.searchsorted(self.batches, batch_id))
        for source, has_messages in self._sources:
            if not has_messages[index]:
                continue
            limiter = self._limiter(source, has_messages, index, limit) if limit.messages else None
            for block in source.blocks(self._batch(index), limiter):
                yield from block.make(skip)
                skip = max(0, skip - block.count)

    def _limiter(
        self, source: PairMessages | AnswerMessages, has_messages: np.ndarray, index: int, limit: Limit
    ) -> MessageLimiter:
        """Return a limiter that has counted the earlier batches within the limit's time.

        Each source has its own: the subscriptions of a kind with answers have no matches.
        """
        limiter = MessageLimiter(limit.messages)
        window = self._started // limit.seconds
        is_earlier = (np.arange(len(window)) < index) & (window == window[index]) & has_messages
        for earlier in self.batches[is_earlier].tolist():
            for keys in source.limited_keys(earlier):
                limiter.count(keys)
        return limiter

    def _batch(self, index: int) -> ChangeBatch:
        (row,) = self._rows.slice(index, 1).to_pylist()
        before = row["stream_before"]
        reported_until = names.NO_TIME if before is None else to_micros(before)
        covered = {name: row[name] for name in LOG_RANGE}
        return ChangeBatch(row["batch_id"], **covered, as_of=iso(row["stream_time"]), reported_until=reported_until)


def _with_stream_before(batches: pa.Table) -> pa.Table:
    """Add the stream time after the batch before, which is the row before; null in the first row."""
    times = batches.column("stream_time")
    before = pa.chunked_array([pa.nulls(1, times.type), *times.chunks]).slice(0, batches.num_rows)
    return batches.append_column("stream_before", before)


def _sum_of_each(maps: pa.ChunkedArray) -> np.ndarray:
    """Return the sum of the numbers in each map, whose keys do not count: int64[n]; 0 for null."""
    column = maps.combine_chunks()
    return np.diff(offsets_of(column.items.to_numpy())[column.offsets.to_numpy()])
