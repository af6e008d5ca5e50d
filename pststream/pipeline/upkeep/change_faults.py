"""Find faults in the changes of answers: rows that repeat or lack others, ranks and answers beyond their bounds."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.contract import Values
from pststream.answers.remaining_rows import as_numbers, remaining_rows
from pststream.base import names
from pststream.pipeline.upkeep.answer_limits import AnswerLimits


class Changes(NamedTuple):
    """Rows of part `change` of `answer_log`. All arrays have n elements.

    batch, subscription, ts, rank   int64    see the table; ts in microseconds
    object      int64    key of the object; -1: a row of a report
    value       float32  0 in a row of a report
    term        int64    numbers in the order of the words; of no meaning without a word
    word_count  int64    objects with the word; -1: none
    entered     bool
    """

    batch: np.ndarray
    subscription: np.ndarray
    ts: np.ndarray
    rank: np.ndarray
    object: np.ndarray
    value: np.ndarray
    term: np.ndarray
    word_count: np.ndarray
    entered: np.ndarray

    def take(self, places: np.ndarray) -> "Changes":
        """Return some rows."""
        return Changes(*(column[places] for column in self))

    @property
    def is_report(self) -> np.ndarray:
        """Which rows are of reports: bool[n]."""
        return self.object < 0

    @property
    def tick(self) -> np.ndarray:
        """The tick of a row of a report, 0 of other rows: int64[n]."""
        return np.where(self.is_report, self.ts, 0)


def to_changes(rows: pa.Table) -> Changes:
    """Convert rows of `answer_log`."""
    return Changes(
        batch=as_numbers(rows.column("batch_id")),
        subscription=as_numbers(rows.column("subscription_key")),
        ts=as_numbers(rows.column("ts")),
        rank=as_numbers(rows.column("rank")),
        object=as_numbers(rows.column("object_key")),
        value=rows.column("value").fill_null(0).to_numpy(),
        term=as_numbers(rows.column("term")),
        word_count=as_numbers(rows.column("count")),
        entered=pc.equal(rows.column("event"), "entered").to_numpy(),
    )


def find_unpaired(changes: Changes, begins_later: bool) -> np.ndarray:
    """Return which rows enter what is in the answer, or leave it without having entered: bool[n].

    begins_later: old rows were removed, so that a row of a report may leave without an earlier row
    """
    identity = (changes.term, changes.ts, changes.object, changes.subscription)
    order = np.lexsort((changes.entered, changes.batch, *identity))
    follows = np.zeros(len(order), bool)
    follows[1:] = np.all([column[order][1:] == column[order][:-1] for column in identity], axis=0)
    entered = changes.entered[order]
    repeats = np.zeros(len(order), bool)
    repeats[1:] = entered[1:] == entered[:-1]
    lacks = ~entered & ~(changes.is_report[order] & begins_later)
    is_unpaired = np.zeros(len(order), bool)
    is_unpaired[order] = np.where(follows, repeats, lacks)
    return is_unpaired


def present_rows(rows: pa.Table, changes: Changes) -> Changes:
    """Return the rows that entered and have not left, of reports those of every tick, the best of an answer first."""
    present = changes.take(remaining_rows(rows, names.NO_TIME))
    worth = np.where(present.is_report, -present.word_count, present.value)
    ties = (np.where(present.is_report, present.term, -present.object), np.where(present.is_report, 0, -present.ts))
    return present.take(np.lexsort((*ties, worth, present.tick, present.subscription)))


def positions(present: Changes) -> np.ndarray:
    """Return the rank of each row of `present_rows` in its answer or report: int64[n], from 1."""
    is_first = np.ones(len(present.batch), bool)
    is_first[1:] = (np.diff(present.subscription) != 0) | (np.diff(present.tick) != 0)
    first = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(first, np.diff(first, append=len(is_first))) + 1


def find_misplaced(changes: Changes, limits: AnswerLimits) -> np.ndarray:
    """Return which rows have a rank above k or below 1, or that of another row of their batch: bool[n]."""
    is_known, place = limits.find(changes.subscription)
    k = limits.k[place] if len(limits.k) else place
    is_misplaced = (changes.rank < 1) | (is_known & (changes.rank > k))
    group = (changes.rank, changes.entered, changes.batch, changes.tick, changes.subscription)
    order = np.lexsort(group)
    same = np.all([column[order][1:] == column[order][:-1] for column in group], axis=0)
    is_misplaced[order[1:][same]] = True
    return is_misplaced


def find_wrong_ranks(changes: Changes, present: Changes, complete_from: int) -> np.ndarray:
    """Return which rows of `present` have another rank than the answer gives them: bool[n].

    Only rows of the last batch that changed their answer are known to have the rank of today.

    complete_from: the first batch of which no row was removed
    """
    count = len(changes.batch)
    subscription = np.concatenate([changes.subscription, present.subscription])
    tick = np.concatenate([changes.tick, present.tick])
    order = np.lexsort((tick, subscription))
    answer = np.empty(len(order), np.int64)
    begins = (np.diff(subscription[order], prepend=-1) != 0) | (np.diff(tick[order], prepend=0) != 0)
    answer[order] = np.cumsum(begins)
    last = np.zeros(len(order) + 1, np.int64)
    np.maximum.at(last, answer[:count], changes.batch)
    is_new = (present.batch == last[answer[count:]]) & (present.batch >= complete_from)
    return is_new & (present.rank != positions(present))


def find_dead(present: Changes, limits: AnswerLimits, stream_time: int, knows_all: bool) -> np.ndarray:
    """Return which rows belong to no live subscription, or to no tick of one: bool[n].

    knows_all: no request was erased, so that a subscription which the log lacks is none
    """
    is_known, place = limits.find(present.subscription)
    if not len(limits.key):
        return np.full(len(place), knows_all)
    is_tick = (present.ts % np.maximum(limits.step[place], 1) == 0) & (present.ts <= stream_time)
    is_tick &= (limits.created_at[place] <= present.ts) & (present.ts < limits.end_at[place])
    counts = np.where(present.is_report, is_tick & (limits.step[place] > 0), limits.live(stream_time)[place])
    return np.where(is_known, ~counts, knows_all)


def find_excess(present: Changes, limits: AnswerLimits) -> np.ndarray:
    """Return which rows come after the k first of their answer: bool[n]."""
    is_known, place = limits.find(present.subscription)
    if not len(limits.key):
        return is_known
    return is_known & (positions(present) > limits.k[place])


def find_differences(one: Values, other: Values) -> np.ndarray:
    """Return the keys of the subscriptions of rows that only one of two sides has: int64[m]."""
    columns = [np.concatenate(both) for both in zip(one, other, strict=True)]
    order = np.lexsort(columns)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    is_alone = np.ones(len(order), bool)
    is_alone[1:] &= ~same
    is_alone[:-1] &= ~same
    return columns[0][order][is_alone]
