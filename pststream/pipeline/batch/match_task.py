"""Match the objects routed to one worker with its subscriptions, and write rows of `matches` (after the shuffle).

Pairs with subscriptions with memory are only candidates. They are not written but sent through a second shuffle.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import csr, lists, micros
from pststream.engine.contract import ReceivedRows, SentRows
from pststream.engine.task_context import TaskContext, chunk_size, deletions_of, dispatch_index, segment_cache
from pststream.engine.warm_up import load_kernels
from pststream.matching.matcher import (
    MatchedPairs,
    SegmentProbe,
    TooManyPairs,
    add_every_object,
    has_every_object,
    make_probe,
    match_objects,
    merge_pairs,
    sort_objects,
)
from pststream.matching.segments import Segment
from pststream.pipeline.answers.fold_bucket import send_candidates, send_report
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ROUTE_COUNTS, STORED_OBJECTS
from pststream.planning.dispatch import DispatchIndex
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.index_files import segment_files
from pststream.state.tables import TABLES


@dataclass
class UnitCounts:
    """Objects, candidates (postings checked) and matches of a worker for each unit of a plan: int64[units] each."""

    plan_version: int
    objects: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray


class FoundPairs(NamedTuple):
    """Objects in the order of matching, and the subscriptions of each.

    order int64[n]: row of each object; offsets int64[n+1]: its slice of `keys`; keys int64[pairs]: subscription keys,
    negative (`~key`) for subscriptions with memory, of which a pair is only a candidate
    """

    order: np.ndarray
    offsets: np.ndarray
    keys: np.ndarray


@dataclass
class _ServedPlan:
    """The segments that a worker serves under one plan, each with its greatest subscription key, and their counts.

    probes: the segments prepared for matching, by the key up to which their subscriptions are left out
    """

    dispatch: DispatchIndex
    segments: list[tuple[int, Segment]]
    counts: UnitCounts
    probes: dict[int, list[SegmentProbe]] = field(default_factory=dict)


class WorkerSearch:
    """Searches the segments of one worker, under all plans that serve the index, and counts the work by unit.

    served: the segments under each plan, with the counts of all searches so far
    """

    def __init__(self, context: TaskContext, worker: int) -> None:
        cache = segment_cache(context.cache_dir, context.cache_bytes)
        self.worker = worker
        self.served: list[_ServedPlan] = []
        for version in context.plans:
            files = [s for s in segment_files(context.files) if s.worker == worker and s.plan_version == version]
            dispatch = dispatch_index(context.home, version)
            if worker >= dispatch.plan.workers:
                continue
            counts = UnitCounts(version, *(np.zeros(dispatch.plan.units, np.int64) for _ in range(3)))
            self.served.append(_ServedPlan(dispatch, [(s.max_key, cache.segment(s.paths)) for s in files], counts))
        self._adds_term = any(has_every_object(one) for served in self.served for _, one in served.segments)
        self._deletions = deletions_of(context.files, context.cache_dir, context.cache_bytes)

    @property
    def pieces(self) -> int:
        """The number of pieces in the segments."""
        return sum(segment.pieces for served in self.served for _, segment in served.segments)

    @property
    def has_candidates(self) -> bool:
        """Whether pairs may be candidates of subscriptions with memory."""
        return any(segment.has_candidates for served in self.served for _, segment in served.segments)

    def find_pairs(self, objects: pa.RecordBatch, after_key: int) -> FoundPairs:
        """Find the subscriptions with keys above `after_key` that each object (ts, lon, lat, terms) matches.

        Raises TooManyPairs before anything is counted.
        """
        lon, lat, ts = objects.column("lon").to_numpy(), objects.column("lat").to_numpy(), micros(objects.column("ts"))
        offsets, terms = csr(objects.column("terms"))
        if self._adds_term:
            offsets, terms = add_every_object(offsets, terms)
        pairs_of, objects_of = list[MatchedPairs](), list[np.ndarray]()
        for served in self.served:
            units, counts = served.dispatch.units_of_objects(lon, lat, offsets, terms, self.worker)
            batch = sort_objects(lon, lat, ts, offsets, terms, units)
            pairs_of.append(match_objects(batch, self._probes(served, after_key), served.dispatch.plan.units))
            objects_of.append(counts)
        for served, counts, pairs in zip(self.served, objects_of, pairs_of):
            if self._probes(served, after_key):
                served.counts.objects += counts
            served.counts.candidates += pairs.candidates
            served.counts.matches += pairs.matches
        return FoundPairs(batch.order, *merge_pairs(pairs_of))

    def _probes(self, served: _ServedPlan, after_key: int) -> list[SegmentProbe]:
        if after_key not in served.probes:
            newer = [segment for max_key, segment in served.segments if max_key > after_key]
            others = [served.dispatch.pieces_of_others(one.subscription_keys, one.units, self.worker) for one in newer]
            served.probes[after_key] = [
                make_probe(segment, self._deletions, after_key, of_others) for segment, of_others in zip(newer, others)
            ]
        return served.probes[after_key]


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
class WorkerReport:
    """The result that the matching task of one worker returns to the driver.

    subscriptions     pieces in the worker's index
    units             counts under each plan that serves the index
    objects, matches  counts in all
    cpu_seconds       CPU seconds to find the pairs and to write the matches
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
    units: list[UnitCounts]
    objects: int = 0
    matches: int = 0
    cpu_seconds: float = 0.0
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


def merge_reports(reports: Iterable[WorkerReport]) -> list[WorkerReport]:
    """Return one report for each worker, in order; a worker may have been matched by several tasks."""
    merged: dict[int, WorkerReport] = {}
    for report in sorted(reports, key=lambda one: one.worker):
        whole = merged.setdefault(report.worker, report)
        if whole is report:
            continue
        for units, more in zip(whole.units, report.units):
            units.objects += more.objects
            units.candidates += more.candidates
            units.matches += more.matches
        for name in ("objects", "matches", "cpu_seconds", "files", "index_seconds", "seen", "discarded"):
            setattr(whole, name, getattr(whole, name) + getattr(report, name))
        whole.dispatch_seconds += report.dispatch_seconds
        whole.latest = max(whole.latest, report.latest)
        for worker, seconds in report.built_seconds.items():
            whole.built_seconds[worker] = whole.built_seconds.get(worker, 0.0) + seconds
    return list(merged.values())


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
        self.report = WorkerReport(worker, self.search.pieces, [one.counts for one in self.search.served])
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
            self.report.matches += len(pairs.keys)
            start += rows.num_rows
        self.report.cpu_seconds += time.thread_time() - began
        self.report.objects += chunk.num_rows

    def finish(self) -> WorkerReport:
        """Close the data file, which writes the rows that it still buffers; return the report."""
        began = time.thread_time()
        file = self.writer.close()
        self.report.cpu_seconds += time.thread_time() - began
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
    same = {
        "retracted": retracted,
        "worker": worker,
        "batch_id": context.batch_id,
        "plan_version": context.plan_version,
    }
    columns = {name: objects.column(name) for name in OBJECT_COLUMNS} | {"subscription_keys": keys}
    columns |= {name: pa.repeat(value, objects.num_rows) for name, value in same.items()}
    return pa.RecordBatch.from_arrays([columns[n].cast(MATCHES.field(n).type) for n in MATCHES.names], schema=MATCHES)
