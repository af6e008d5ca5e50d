"""Build the messages of the changes of answers of a batch, as a source of the outbox.

Order: by subscription key. In a subscription, the rows that left by rank, then those that entered by rank; of reports
the ticks in order. What exceeds the sink's limit becomes one digest, the last message of its subscription. A report is
one message: half of one says nothing, and its rows are k times as many.

Rows of an erased subscription have no message. An erased object is shown by its `ts` alone.

In memory: the changes of a batch up to RUN_ROWS (more are sorted on disk), or those of one subscription, and the
objects and subscriptions of about WINDOW rows.
"""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
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
from pststream.delivery.messages import DIGEST_OBJECTS, erased_object
from pststream.delivery.rate_limit import MessageLimiter
from pststream.delta_tables import TableReader
from pststream.kinds.answer_contract import AnswerRow
from pststream.pipeline.delivery.external_sort import SortedRows
from pststream.pipeline.delivery.message_rows import MessageRows, ObjectRows, SubscriptionRows, halve_if_too_large
from pststream.pipeline.delivery.message_source import MessageBlock
from pststream.pipeline.delivery.stored_words import StoredWords
from pststream.sinks.contract import Message
from pststream.sorted_keys import distinct_values
from pststream.utc_times import from_micros, iso

SUBSCRIPTION, TICK, HAS_ENTERED, RANK, OBJECT, TS, VALUE, WORD, COUNT = range(9)
"""Columns of changes, int64[9, n], in the order of their importance for the order of messages.

TICK: 0 where the row is an object; OBJECT: NO_OBJECT where the row is of a report; TICK, TS: microseconds; VALUE: bits
of the float32; WORD: place in StoredWords
"""

NO_OBJECT = -1
LOG_COLUMNS = ("subscription_key", "event", "rank", "object_key", "ts", "value", "term", "count")
WINDOW = 65_536
RUN_ROWS = 262_144


class AnswerMessages:
    """The messages of objects that entered and left answers, and of reports."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._rows = MessageRows(reader)

    def blocks(self, batch: ChangeBatch, limiter: MessageLimiter | None) -> Iterator[MessageBlock]:
        """Yield the messages of a batch."""
        with (
            tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder,
            StoredWords(Path(folder) / "words") as words,
        ):
            (changes_folder := Path(folder) / "changes").mkdir()
            changes = SortedRows(9, changes_folder, RUN_ROWS)
            for rows in self._read(batch.batch_id, LOG_COLUMNS):
                changes.add(_to_numbers(rows, words))
            for numbers in changes.sorted_rows():
                numbers = self._without_erased(numbers)
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
                reports.add(np.stack([keys, _micros(rows)])[:, ~is_object])
            for of_reports in reports.sorted_rows():
                yield np.unique(of_reports, axis=1)[0]

    def _read(self, batch_id: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        here = (pds.field("part") == "change") & (pds.field("batch_id") == batch_id)
        return self._reader.batches(names.ANSWER_LOG, columns, here)

    def _without_erased(self, rows: np.ndarray) -> np.ndarray:
        """Return the changes of subscriptions that have not been erased."""
        keys, place = np.unique(rows[SUBSCRIPTION], return_inverse=True)
        is_known = self._rows.known_subscriptions(keys)
        return rows if is_known.all() else rows[:, is_known[place]]

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
    ts = _micros(rows)
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


def _micros(rows: pa.RecordBatch) -> np.ndarray:
    micros: np.ndarray = rows.column("ts").cast(pa.int64()).to_numpy()
    return micros


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
