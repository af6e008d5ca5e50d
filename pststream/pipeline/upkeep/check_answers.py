"""Compare the answers of subscriptions with memory with the changes of all batches, the request log and the snapshot.

A task has one bucket. The changes of a bucket are looked at in rounds of subscriptions, so that the memory of a task is
bounded by its state and ROUND_ROWS rows. Old changes that `maintain` has removed are no fault: what is left adds up to
the answers too. Once rows of reports were erased (docs/operation.md), their number and the ranks of the others are not
known, and are not compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.bucket_file import read_buffers
from pststream.answers.contract import OLD_CHANGES, Thresholds, Values, as_numbers, bucket_of, remaining_rows
from pststream.base import names
from pststream.base.arrays import distinct_values, find_among, is_among
from pststream.base.arrow_columns import integers
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.running_engine import get_engine
from pststream.input.expectations import FIGURES, TableFaults
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.bucket_snapshots import last_snapshot, read_snapshot
from pststream.pipeline.answers.fold_bucket import open_previous_state
from pststream.pipeline.answers.log_rows import CHANGE
from pststream.pipeline.index.build_index import ending_requests
from pststream.pipeline.upkeep.check_index import EXAMPLES
from pststream.queries.kinds.registry import kinds_with_answers, ranked_answers
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import removed_rows
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import BatchRow, read_batches


class AnswerLimits(NamedTuple):
    """What bounds the answers of subscriptions with memory, by ascending key: int64[n] each. Times are microseconds.

    key         request key
    k           most rows of an answer, or of a report
    step        of `frequent_terms`; 0: of another kind
    created_at  start of validity
    end_at      its end (exclusive): the earliest of expiry and deletions; names.NEVER_US: none
    """

    key: np.ndarray
    k: np.ndarray
    step: np.ndarray
    created_at: np.ndarray
    end_at: np.ndarray


def read_limits(requests: Sequence[Slice], up_to: int, bucket: int, buckets: int) -> AnswerLimits:
    """Read the subscriptions of a bucket from the requests with keys up to `up_to`."""
    inserted, deleted = [np.empty((5, 0), np.int64)], [np.empty((2, 0), np.int64)]
    columns = ["request_key", "op", "kind", "subscription_key", "replaced_key", "effective_at", "expires_at", "k"]

    def of_bucket(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(bucket_of(integers(rows, "subscription_key"), buckets) == bucket))

    for rows in read_slices(requests, [*columns, "step_us"], KeyRange("request_key", -1, up_to)):
        gone = of_bucket(ending_requests(rows))
        deleted.append(np.stack([integers(gone, "subscription_key"), integers(gone, "effective_at")]))
        kinds = pa.array([kind.name for kind in kinds_with_answers()])
        new = of_bucket(rows.filter(pc.is_in(rows.column("kind"), kinds)))
        names_ = (("request_key", 0), ("k", 0), ("step_us", 0), ("effective_at", 0), ("expires_at", names.NEVER_US))
        inserted.append(np.stack([integers(new, name, null) for name, null in names_]))
    limits_of = np.concatenate(inserted, axis=1)
    limits = AnswerLimits(*limits_of[:, np.argsort(limits_of[0], kind="stable")])
    keys, times = np.concatenate(deleted, axis=1)
    index, is_known = find_among(keys, limits.key)
    np.minimum.at(limits.end_at, index[is_known], times[is_known])
    return limits


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

    def take(self, rows: np.ndarray) -> "Changes":
        """Return some rows."""
        return Changes(*(column[rows] for column in self))

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
    index, is_known = find_among(changes.subscription, limits.key)
    k = limits.k[index] if len(limits.k) else index
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
    index, is_known = find_among(present.subscription, limits.key)
    if not len(limits.key):
        return np.full(len(index), knows_all)
    is_tick = (present.ts % np.maximum(limits.step[index], 1) == 0) & (present.ts <= stream_time)
    is_tick &= (limits.created_at[index] <= present.ts) & (present.ts < limits.end_at[index])
    is_live = (limits.created_at[index] <= stream_time) & (stream_time < limits.end_at[index])
    counts = np.where(present.is_report, is_tick & (limits.step[index] > 0), is_live)
    return np.where(is_known, ~counts, knows_all)


def find_excess(present: Changes, limits: AnswerLimits) -> np.ndarray:
    """Return which rows come after the k first of their answer: bool[n]."""
    index, is_known = find_among(present.subscription, limits.key)
    if not len(limits.key):
        return is_known
    return is_known & (positions(present) > limits.k[index])


def find_differences(one: Values, other: Values) -> np.ndarray:
    """Return the keys of the subscriptions of rows that only one of two sides has: int64[m]."""
    columns = [np.concatenate(both) for both in zip(one, other, strict=True)]
    order = np.lexsort(columns)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    is_alone = np.ones(len(order), bool)
    is_alone[1:] &= ~same
    is_alone[:-1] &= ~same
    return columns[0][order][is_alone]


ROUND_ROWS = 2_000_000
"""Changes, or entries of a snapshot, that a task compares at a time, about; some 300 bytes each while it does."""

SCHEMA = pa.schema([field_ for field_ in TABLES[names.ANSWER_LOG].schema if field_.name != "part"])


@dataclass(frozen=True)
class AnswerCheck:
    """What the tasks need to know.

    context        of a batch after the last one
    snapshot       the same after the batch of the last snapshot, whose states are built again from the snapshot before
                   it; None: there is no snapshot, or a check has passed a batch after it
    requests       the data files of `requests`
    changes        the data files of `answer_log` with changes, and `rounds` by which they are looked at
    complete_from  the first batch of which no change was removed
    has_reports    whether no row of a report was erased, so that the numbers and ranks of all are known
    knows_all      whether no request was erased
    """

    context: AnswerContext
    snapshot: AnswerContext | None
    requests: tuple[Slice, ...]
    changes: tuple[tuple[DataFile, Slice], ...]
    rounds: int
    complete_from: int
    has_reports: bool
    knows_all: bool

    @property
    def batch_id(self) -> int:
        """The last batch that is done."""
        return self.context.previous.batch_id


@dataclass
class BucketFaults:
    """The faults of a bucket: by figure, how many rows and some keys of subscriptions; changes of each batch.

    changes  int64[batch_id + 1], of objects and, if no row of a report was erased, of reports
    """

    changes: np.ndarray
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[int]] = field(default_factory=dict)

    def add(self, figure: str, subscriptions: np.ndarray) -> None:
        """Add a row of each of these subscriptions to a figure."""
        self.counts[figure] = self.counts.get(figure, 0) + len(subscriptions)
        some = [*self.examples.get(figure, []), *distinct_values(subscriptions)[:EXAMPLES].tolist()]
        self.examples[figure] = sorted(set(some))[:EXAMPLES]


def count_answer_faults(home: Home, settings: Settings, batch_id: int, passed: int, progress: Progress) -> TableFaults:
    """Return the figures of the check `answers` (input/expectations.py) after a batch that is done.

    passed: the last batch that such a check has passed, 0: look at everything
    """
    check = _make_check(home, settings, read_batches(home, batch_id - 1, batch_id)[0], passed)
    buckets = range(home.answer_buckets)
    counter = TaskCounter(progress, Counted("answers", "bucket", len(buckets)))
    faults = get_engine(settings, home).run_tasks(buckets, partial(_check_bucket, check), counter)
    counts: dict[str, int | None] = {
        figure: sum(one.counts.get(figure, 0) for one in faults) for figure in FIGURES["answers"]
    }
    examples = {
        figure: sorted({key for one in faults for key in one.examples.get(figure, [])})[:EXAMPLES] for figure in counts
    }
    logged = sum((one.changes for one in faults), np.zeros(batch_id + 1, np.int64))
    changes_off = 0
    for batch in read_batches(home, check.complete_from - 1, check.batch_id):
        if batch["changes"] is not None:
            kinds = dict(batch["changes"])
            expected = sum(count for kind, count in kinds.items() if check.has_reports or kind in ranked_answers())
            changes_off += int(expected != logged[batch["batch_id"]])
    counts["changes_off"] = changes_off
    if check.snapshot is None:
        counts["snapshot_off"] = None
    return TableFaults(counts, examples, tuple(_list_skipped(check)))


def _list_skipped(check: AnswerCheck) -> Iterator[str]:
    """Yield what is not compared because rows were removed."""
    if check.complete_from > 1:
        yield f"changes of the batches up to {check.complete_from - 1:,}: `keep` has replaced them by their sum"
    if not check.has_reports:
        yield "the number and the ranks of words of reports: some were removed"
    if not check.knows_all:
        yield "whether the subscriptions of all answers are live: some were erased"


def _make_check(home: Home, settings: Settings, last: BatchRow, passed: int) -> AnswerCheck:
    removed = set(removed_rows(home).column("table_name").to_pylist())
    logged = KeyRange("batch_id", -1, last["batch_id"]).files(list_data_files(home, names.ANSWER_LOG))
    files = [file for file in logged if file.partition["part"] == CHANGE]
    rows = sum(file.rows for file in files)
    return AnswerCheck(
        context_after(home, settings, last),
        _context_of_snapshot(home, settings, passed),
        tuple(slice_ for _, slice_ in _slices(home, names.REQUESTS, list_data_files(home, names.REQUESTS))),
        tuple(_slices(home, names.ANSWER_LOG, files)),
        1 + rows // (ROUND_ROWS * home.answer_buckets),
        last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES) + 1,
        names.ANSWER_LOG not in removed,
        names.REQUESTS not in removed,
    )


def _context_of_snapshot(home: Home, settings: Settings, passed: int) -> AnswerContext | None:
    """Return the context after the batch of the last snapshot, to build its states from the snapshot before it."""
    batch_id = last_snapshot(home)
    # A check of the same batch may have been made before the snapshot was written.
    if batch_id == 0 or batch_id < passed:
        return None
    context = context_after(home, settings, read_batches(home, batch_id - 1, batch_id)[0])
    batches = {file.high["batch_id"] for file in list_data_files(home, names.ANSWERS)}
    before = max((one for one in batches if one < batch_id), default=0)
    return replace(context, states=f"{context.states}-check", last_snapshot=before)


def _slices(home: Home, name: str, files: Iterable[DataFile]) -> Iterator[tuple[DataFile, Slice]]:
    for file, (path, rows) in zip(files, addresses_and_rows(home, name, files), strict=True):
        yield file, whole_file(path, rows)


def _check_bucket(check: AnswerCheck, bucket: int) -> BucketFaults:
    context = check.context
    faults = BucketFaults(np.zeros(check.batch_id + 1, np.int64))
    limits = read_limits(check.requests, context.previous.requests_to, bucket, context.buckets)
    with open_previous_state(context, bucket, context.queries()) as state:
        of_state = _best(read_buffers(state).entries, limits)
    for round_ in range(check.rounds):
        rows = _read_changes(check, bucket, round_)
        _find_faults(check, rows, _of_round(of_state, check.rounds, round_), limits, faults)
    if check.snapshot is not None:
        faults.add("snapshot_off", _compare_snapshot(check.snapshot, bucket, limits))
    return faults


def _best(entries: Values, limits: AnswerLimits) -> Values:
    """Return the answers in the buffers (by subscription, the best first) of subscriptions that the log has."""
    index, is_known = find_among(entries.subscription, limits.key)
    first = np.searchsorted(entries.subscription, entries.subscription)
    is_known[is_known] &= (np.arange(len(index)) - first)[is_known] < limits.k[index[is_known]]
    return Values(*(column[is_known] for column in entries))


def _read_changes(check: AnswerCheck, bucket: int, round_: int) -> pa.Table:
    """Read the changes of the subscriptions of a bucket in a round."""
    batches = KeyRange("batch_id", -1, check.batch_id)
    slices = [one for file, one in check.changes if file.may_contain("bucket", bucket, bucket)]

    def of_round() -> Iterator[pa.RecordBatch]:
        for rows in read_slices(slices, SCHEMA.names, batches):
            keys = rows.column("subscription_key").to_numpy()
            chosen = (rows.column("bucket").to_numpy() == bucket) & (keys % check.rounds == round_)
            yield rows.filter(pa.array(chosen)).cast(SCHEMA)

    return pa.Table.from_batches(of_round(), SCHEMA)


def _find_faults(
    check: AnswerCheck, rows: pa.Table, of_state: Values, limits: AnswerLimits, faults: BucketFaults
) -> None:
    """Add the faults of changes, and of the answers that they add up to."""
    changes = to_changes(rows)
    present = present_rows(rows, changes)
    previous = check.context.previous
    counted = changes.batch[check.has_reports | ~changes.is_report]
    faults.changes += np.bincount(counted, minlength=len(faults.changes))
    is_misranked = find_wrong_ranks(changes, present, check.complete_from)
    is_misranked &= check.has_reports | ~present.is_report
    begins_later = check.complete_from > 1
    for figure, side, is_fault in (
        ("unpaired", changes, find_unpaired(changes, begins_later)),
        ("ranks_off", changes, find_misplaced(changes, limits)),
        ("ranks_off", present, is_misranked),
        ("dead", present, find_dead(present, limits, previous.stream_time, check.knows_all)),
        ("excess", present, find_excess(present, limits)),
    ):
        faults.add(figure, side.subscription[is_fault])
    answers = present.take(np.flatnonzero(~present.is_report & is_among(present.subscription, limits.key)))
    answered = Values(answers.subscription, answers.object, answers.ts, answers.value)
    faults.add("sums_off", find_differences(answered, of_state))


def _compare_snapshot(context: AnswerContext, bucket: int, known: AnswerLimits) -> np.ndarray:
    """Return the subscriptions of rows that only one has, the snapshot of a bucket or its state built again.

    known: the subscriptions that the log has; others are left out
    """
    home, path = Home(context.home), context.bucket_file(bucket)
    path.unlink(missing_ok=True)
    try:
        with open_previous_state(context, bucket, context.queries()) as state:
            entries, limits, _ = read_buffers(state)
        stored, stored_limits, _ = read_snapshot(home, context.previous.batch_id, bucket)
    finally:
        path.unlink(missing_ok=True)
    rounds, differences = 1 + len(entries.subscription) // ROUND_ROWS, [np.empty(0, np.int64)]
    for built, read in ((entries, stored), (_values(limits), _values(stored_limits))):
        for round_ in range(rounds):
            sides = (_of_round(side, rounds, round_) for side in (built, read))
            differences.append(find_differences(*sides))
    subscriptions = np.concatenate(differences)
    return subscriptions[is_among(subscriptions, known.key)]


def _of_round(values: Values, rounds: int, round_: int) -> Values:
    chosen = values.subscription % rounds == round_
    return Values(*(column[chosen] for column in values))


def _values(limits: Thresholds) -> Values:
    return Values(limits.subscription, limits.object, limits.ts, limits.value)
