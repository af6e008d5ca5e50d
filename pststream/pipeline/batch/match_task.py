"""Match the objects routed to one worker with its subscriptions, and write rows of `matches` (after the shuffle)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.kernels.planning.count_loads import count_units
from pststream.matching.matcher import MatchedPairs, SegmentProbe, TooManyPairs, make_probe, match_objects, merge_pairs
from pststream.matching.object_batch import sort_objects
from pststream.matching.segment_cache import SegmentCache
from pststream.matching.segments import Segment
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ROUTE_COUNTS, STORED_OBJECTS
from pststream.pipeline.engine.arrow_columns import csr, lists, micros
from pststream.pipeline.engine.contract import ReceivedRows
from pststream.pipeline.engine.task_context import (
    TaskContext,
    chunk_size,
    deletions_of,
    dispatch_index,
    segment_cache,
)
from pststream.pipeline.engine.warm_up import load_kernels
from pststream.routing.dispatch import DispatchIndex
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.index_files import segment_files
from pststream.state.tables import TABLES

MATCHES = TABLES[names.MATCHES].schema
OBJECT_COLUMNS = ["object_key", "object_id", "ts"]
"""Columns of `matches` that are copied from the object."""

CHUNK_OBJECTS = 65_536
"""Objects that a worker gathers before it matches them."""

CHUNK_PAIRS = 2_000_000
"""Pairs that are written at a time, about."""


@dataclass
class UnitCounts:
    """Objects, candidates (postings checked) and matches of a worker for each unit of a plan: int64[units] each."""

    plan_version: int
    objects: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray


@dataclass
class MatchCounts:
    """Counts of a worker: in all, and (`units`) under each plan that serves the index."""

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
    built_seconds     CPU seconds for segments that they built before the task of their worker could, by worker
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

    def add_route_counts(self, rows: pa.RecordBatch) -> None:
        """Add the counts of a routing task (`route_task.COUNTS`)."""
        (row,) = rows.to_pylist()
        self.seen += row["seen"]
        self.discarded += row["discarded"]
        self.dispatch_seconds += row["seconds"]
        for worker, seconds in zip(row["built_by"], row["built_seconds"]):
            self.built_seconds[worker] = self.built_seconds.get(worker, 0.0) + seconds


def match_worker(context: TaskContext, after_key: int, worker: int, received: ReceivedRows) -> WorkerReport:
    """Match the objects that were routed to a worker, and write the matches as data files.

    after_key: stored objects meet only subscriptions with a greater key
    """
    matcher = _Matcher(context, worker, after_key)
    buffered: dict[int, list[pa.RecordBatch]] = {NEW_OBJECTS: [], STORED_OBJECTS: []}
    for tag, rows in received:
        if tag == ROUTE_COUNTS:
            matcher.report.add_route_counts(rows)
            continue
        buffered[tag].append(rows)
        if sum(batch.num_rows for batch in buffered[tag]) >= CHUNK_OBJECTS:
            matcher.match(pa.concat_batches(buffered[tag]), tag)
            buffered[tag] = []
    for tag, rest in buffered.items():
        if rest:
            matcher.match(pa.concat_batches(rest), tag)
    return matcher.finish()


@dataclass
class _ServedPlan:
    """The segments that a worker serves under one plan, each with its greatest subscription key, and their counts.

    probes: the segments prepared for matching, by the key up to which their subscriptions are left out
    """

    dispatch: DispatchIndex
    segments: list[tuple[int, Segment]]
    counts: UnitCounts
    probes: dict[int, list[SegmentProbe]] = field(default_factory=dict)


class _Matcher:
    """The segments of one worker, and its report, during a task."""

    def __init__(self, context: TaskContext, worker: int, after_key: int) -> None:
        load_kernels()
        began = time.thread_time()
        cache = segment_cache(context.cache_dir, context.cache_bytes)
        self.served = [_map_segments(context, version, worker, cache) for version in context.plans]
        self.deletions = deletions_of(context.files, context.cache_dir, context.cache_bytes)
        self.context = context
        self.worker = worker
        self.after_key = after_key
        self.writer = FileWriter(Home(context.home).table(names.MATCHES), MATCHES)
        pieces = sum(segment.pieces for served in self.served for _, segment in served.segments)
        self.report = WorkerReport(worker, pieces, MatchCounts([served.counts for served in self.served]))
        self.report.index_seconds = time.thread_time() - began

    def match(self, chunk: pa.RecordBatch, tag: int) -> None:
        """Match a chunk of routed objects in slices whose pairs fit into memory, and write the matches."""
        began, start = time.thread_time(), 0
        size = chunk_size(self.context.home, self.worker)
        while start < chunk.num_rows:
            rows = chunk.slice(start, size.objects)
            try:
                pairs = self._match_slice(rows, self.after_key if tag == STORED_OBJECTS else -1)
            except TooManyPairs:
                size.shrink(rows.num_rows)
                continue
            size.record(rows.num_rows, pairs)
            self.report.counts.matches += pairs
            start += rows.num_rows
        self.report.counts.cpu_seconds += time.thread_time() - began
        self.report.counts.objects += chunk.num_rows

    def finish(self) -> WorkerReport:
        """Close the data file; return the report."""
        file = self.writer.close()
        self.report.files = [file] if file else []
        return self.report

    def _match_slice(self, objects: pa.RecordBatch, after_key: int) -> int:
        order, offsets, keys = self._find_pairs(objects, after_key)
        for rows in self._rows_of_pairs(objects, order, offsets, keys):
            self.writer.write(rows)
        return len(keys)

    def _find_pairs(self, objects: pa.RecordBatch, after_key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows in the order of matching, and the subscriptions (keys above `after_key`) that each matches:
        order, offsets, keys. Raises TooManyPairs before anything is counted.
        """
        lon, lat, ts = objects.column("lon").to_numpy(), objects.column("lat").to_numpy(), micros(objects.column("ts"))
        offsets, terms = csr(objects.column("terms"))
        pairs_of, units_of = list[MatchedPairs](), list[np.ndarray]()
        for served in self.served:
            units = served.dispatch.units_of_objects(lon, lat, offsets, terms)
            units = np.where(served.dispatch.arrays.unit_worker[units] == self.worker, units, np.int32(-1))
            batch = sort_objects(lon, lat, ts, offsets, terms, units)
            pairs_of.append(match_objects(batch, self._probes(served, after_key), served.dispatch.plan.units))
            units_of.append(units)
        for served, units, pairs in zip(self.served, units_of, pairs_of):
            if self._probes(served, after_key):
                count_units(offsets, units, served.counts.objects)
            served.counts.candidates += pairs.candidates
            served.counts.matches += pairs.matches
        return batch.order, *merge_pairs(pairs_of)

    def _probes(self, served: _ServedPlan, after_key: int) -> list[SegmentProbe]:
        if after_key not in served.probes:
            newer = [segment for max_key, segment in served.segments if max_key > after_key]
            served.probes[after_key] = [make_probe(segment, self.deletions, after_key) for segment in newer]
        return served.probes[after_key]

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


def _map_segments(context: TaskContext, version: int, worker: int, cache: SegmentCache) -> _ServedPlan:
    """Map the segments that a worker serves under a plan."""
    files = [s for s in segment_files(context.files) if s.worker == worker and s.plan_version == version]
    dispatch = dispatch_index(context.home, version)
    counts = UnitCounts(version, *(np.zeros(dispatch.plan.units, np.int64) for _ in range(3)))
    return _ServedPlan(dispatch, [(s.max_key, cache.segment(s.paths)) for s in files], counts)


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
