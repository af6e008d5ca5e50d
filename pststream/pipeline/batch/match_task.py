"""Match the objects routed to one worker with its subscriptions, and write rows of `matches` (after the shuffle).

Pairs with subscriptions with memory are only candidates. They are not written but sent through a second shuffle.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import lists, micros
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.engine.task_context import TaskContext, chunk_size
from pststream.engine.warm_up import load_kernels
from pststream.matching.matcher import TooManyPairs
from pststream.pipeline.answers.fold_bucket import send_candidates, send_report
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ROUTE_COUNTS, STORED_OBJECTS
from pststream.pipeline.batch.worker_search import FoundPairs, UnitCounts, WorkerSearch
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.tables import TABLES

MATCHES = TABLES[names.MATCHES].schema
OBJECT_COLUMNS = ["object_key", "object_id", "ts"]
"""Columns of `matches` that are copied from the object."""

CANDIDATES = pa.schema(
    {
        "subscription_key": pa.int64(),
        "object_key": pa.int64(),
        "ts": pa.int64(),
        "lon": pa.float64(),
        "lat": pa.float64(),
    }
)
"""Columns of candidates: a subscription with memory, and an object that may enter its answer; ts in microseconds."""

CHUNK_OBJECTS = 65_536
"""Objects that a worker gathers before it matches them."""

CHUNK_PAIRS = 2_000_000
"""Pairs that are written at a time, about."""


@dataclass
class MatchCounts:
    """Counts of a worker: in all, and (`units`) under each plan that serves the index.

    cpu_seconds  CPU seconds to find the pairs and to write the matches
    """

    units: list[UnitCounts]
    objects: int = 0
    matches: int = 0
    cpu_seconds: float = 0.0


@dataclass
class WorkerReport:
    """The result that the matching task of one worker returns to the driver.

    subscriptions     pieces in the worker's index
    files             data files of `matches`, not yet committed
    index_seconds     CPU seconds to map the worker's segments, and to build those that are new to the node

    Of the routing tasks whose counts this task received:
    seen, discarded   objects of the batch, and those that went to no worker
    dispatch_seconds  CPU seconds
    latest            greatest ts of these objects that are not withdrawn, microseconds; names.NO_TIME if there are none
    built_seconds     CPU seconds in which they built segments, by the worker of the segments
    """

    worker: int
    subscriptions: int
    counts: MatchCounts
    files: list[DataFile] = field(default_factory=list)
    index_seconds: float = 0.0
    seen: int = 0
    discarded: int = 0
    dispatch_seconds: float = 0.0
    built_seconds: dict[int, float] = field(default_factory=dict)
    latest: int = names.NO_TIME

    def add_route_counts(self, rows: pa.RecordBatch) -> None:
        """Add the counts of a routing task (`route_task.COUNTS`)."""
        (row,) = rows.to_pylist()
        self.seen += row["seen"]
        self.discarded += row["discarded"]
        self.dispatch_seconds += row["seconds"]
        self.latest = max(self.latest, row["latest"])
        for worker, seconds in zip(row["built_by"], row["built_seconds"]):
            self.built_seconds[worker] = self.built_seconds.get(worker, 0.0) + seconds


def match_worker(context: TaskContext, after_key: int, worker: int, received: ReceivedRows) -> WorkerReport:
    """Match the objects that were routed to a worker, and write the matches as data files.

    after_key: stored objects meet only subscriptions with a greater key. The caller wants no candidates; they are
    divided among the buckets all the same, so that the CPU seconds are those of a batch.
    """
    matcher = _Matcher(context, worker, after_key)
    buckets = Home(context.home).answer_buckets if matcher.search.has_candidates else 0
    for candidates in _match_received(matcher, received):
        deque(send_candidates(buckets, candidates), 0)
    return matcher.finish()


def match_and_send(
    context: TaskContext, after_key: int, buckets: int, worker: int, received: ReceivedRows
) -> Iterator[SentRows]:
    """Match as `match_worker` does, and send the candidates and the report to the buckets of answers."""
    matcher = _Matcher(context, worker, after_key)
    for candidates in _match_received(matcher, received):
        yield from send_candidates(buckets, candidates)
    yield send_report(matcher.finish())


def _match_received(matcher: "_Matcher", received: ReceivedRows) -> Iterator[pa.RecordBatch]:
    """Match the received objects; yield the candidates (CANDIDATES)."""
    buffered: dict[int, list[pa.RecordBatch]] = {NEW_OBJECTS: [], STORED_OBJECTS: []}
    for tag, rows in received:
        if tag == ROUTE_COUNTS:
            matcher.report.add_route_counts(rows)
            continue
        buffered[tag].append(rows)
        if sum(batch.num_rows for batch in buffered[tag]) >= CHUNK_OBJECTS:
            yield from matcher.match(pa.concat_batches(buffered[tag]), tag)
            buffered[tag] = []
    for tag, rest in buffered.items():
        if rest:
            yield from matcher.match(pa.concat_batches(rest), tag)


class _Matcher:
    """Matches the objects of one worker, writes their matches and fills the report of the task."""

    def __init__(self, context: TaskContext, worker: int, after_key: int) -> None:
        load_kernels()
        began = time.thread_time()
        self.search = WorkerSearch(context, worker)
        self.context = context
        self.worker = worker
        self.after_key = after_key
        self.writer = FileWriter(Home(context.home).table(names.MATCHES), MATCHES)
        self.report = WorkerReport(worker, self.search.pieces, MatchCounts(self.search.counts))
        self.report.index_seconds = time.thread_time() - began

    def match(self, chunk: pa.RecordBatch, tag: int) -> Iterator[pa.RecordBatch]:
        """Match a chunk of routed objects in slices whose pairs fit into memory, and write the matches.

        Yields the candidates of each slice, if there are any.
        """
        began, start = time.thread_time(), 0
        size = chunk_size(self.context.home, self.worker)
        while start < chunk.num_rows:
            rows = chunk.slice(start, size.objects)
            try:
                pairs = self.search.find_pairs(rows, self.after_key if tag == STORED_OBJECTS else names.MIN_INT64)
            except TooManyPairs:
                size.shrink(rows.num_rows)
                continue
            size.record(rows.num_rows, len(pairs.keys))
            if self.search.has_candidates:
                pairs, candidates = _split_pairs(rows, pairs)
                if candidates.num_rows:
                    yield candidates
            for matched in self._rows_of_pairs(rows, *pairs):
                self.writer.write(matched)
            self.report.counts.matches += len(pairs.keys)
            start += rows.num_rows
        self.report.counts.cpu_seconds += time.thread_time() - began
        self.report.counts.objects += chunk.num_rows

    def finish(self) -> WorkerReport:
        """Close the data file, which writes the rows that it still buffers; return the report."""
        began = time.thread_time()
        file = self.writer.close()
        self.report.counts.cpu_seconds += time.thread_time() - began
        self.report.files = [file] if file else []
        return self.report

    def _rows_of_pairs(
        self, objects: pa.RecordBatch, order: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of `matches` of about CHUNK_PAIRS pairs each."""
        columns = objects.select(OBJECT_COLUMNS)
        matched = np.flatnonzero(np.diff(offsets))
        ends = offsets[matched + 1]
        start = 0
        while start < len(matched):
            before = offsets[matched[start]]
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, "right")))
            part = matched[start:stop]
            rows = columns.take(pa.array(order[part]))
            borders = np.append(offsets[part], ends[stop - 1]) - before
            yield match_rows(rows, lists(borders, keys[before : ends[stop - 1]]), self.context, self.worker)
            start = stop


def _split_pairs(objects: pa.RecordBatch, pairs: FoundPairs) -> tuple[FoundPairs, pa.RecordBatch]:
    """Return the pairs that are matches, and the candidates (CANDIDATES)."""
    order, offsets, keys = pairs
    is_candidate = keys < 0
    rows = np.repeat(order, np.diff(offsets))[is_candidate]
    columns = {name: objects.column(name).to_numpy()[rows] for name in ("object_key", "lon", "lat")}
    columns |= {"subscription_key": ~keys[is_candidate], "ts": micros(objects.column("ts"))[rows]}
    candidates = pa.RecordBatch.from_pydict(columns, schema=CANDIDATES)
    kept = np.concatenate([[0], np.cumsum(~is_candidate)])
    return FoundPairs(order, kept[offsets], keys[~is_candidate]), candidates


def match_rows(
    objects: pa.RecordBatch, keys: pa.ListArray, context: TaskContext, worker: int, retracted: bool = False
) -> pa.RecordBatch:
    """Return rows of `matches`: objects (object_key, object_id, ts) and the subscription keys of each."""
    count = objects.num_rows
    columns = {
        "object_key": objects.column("object_key"),
        "object_id": objects.column("object_id"),
        "ts": objects.column("ts"),
        "subscription_keys": keys,
        "retracted": pa.array(np.full(count, retracted)),
        "worker": pa.array(np.full(count, worker, np.int64)),
        "batch_id": pa.array(np.full(count, context.batch_id, np.int64)),
        "plan_version": pa.array(np.full(count, context.plan_version, np.int64)),
    }
    return pa.RecordBatch.from_arrays([columns[n].cast(MATCHES.field(n).type) for n in MATCHES.names], schema=MATCHES)
