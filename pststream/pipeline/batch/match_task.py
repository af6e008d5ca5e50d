"""Match the objects routed to workers with their subscriptions, and write rows of `matches` (after the shuffle).

A task serves neighbouring workers, or parts of them, and all its matches are in one file.

Pairs with subscriptions with memory are only candidates. They are not written but sent through a second shuffle.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
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
from pststream.matching.verified_clauses import VerifiedClauses
from pststream.pipeline.answers.fold_bucket import send_candidates, send_report
from pststream.pipeline.batch.route_task import ROUTE_COUNTS, STORED_OBJECTS
from pststream.planning.dispatch import DispatchIndex
from pststream.search.stored_conditions import ATTRIBUTES, ConditionLog
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.tables import TABLES


@dataclass
class UnitCounts:
    """Objects, candidates (postings checked) and matches of a worker for each unit of a plan: int64[units] each."""

    plan_version: int
    objects: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray

    def rows(self) -> pa.Table:
        """Return a row for each unit with objects: plan_version, unit, objects, candidates, matches."""
        unit = np.flatnonzero(self.objects)
        counts = {name: getattr(self, name)[unit] for name in ("objects", "candidates", "matches")}
        return pa.table({"plan_version": np.full(len(unit), self.plan_version), "unit": unit, **counts})


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
        segments = context.files.of_worker(worker).segments
        for version in context.plans:
            files = [segment for segment in segments if segment.plan_version == version]
            dispatch = dispatch_index(context.home, version)
            if worker >= dispatch.plan.workers:
                continue
            counts = UnitCounts(version, *(np.zeros(dispatch.plan.units, np.int64) for _ in range(3)))
            self.served.append(_ServedPlan(dispatch, [(s.max_key, cache.segment(s.paths)) for s in files], counts))
        self._adds_term = any(has_every_object(one) for served in self.served for _, one in served.segments)
        self._verified = VerifiedClauses.of_segments([one for served in self.served for _, one in served.segments])
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

        Terms ascend, and those of phrases are among them.
        Raises TooManyPairs before anything is counted.
        """
        lon, lat, ts = objects.column("lon").to_numpy(), objects.column("lat").to_numpy(), micros(objects.column("ts"))
        offsets, terms = of_objects = csr(objects.column("terms"))
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
        order, (offsets, keys) = batch.order, merge_pairs(pairs_of)
        if len(self._verified.keys):
            row = np.repeat(order, np.diff(offsets))
            holds = self._verified.hold(keys, row, of_objects)
            offsets, keys = np.append(0, np.cumsum(holds))[offsets], keys[holds]
        return FoundPairs(order, offsets, keys)

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

MAX_FILE_BYTES = 128 * 1024 * 1024
"""Greatest size of a file of `matches`."""

FIRST_WORKER = 0
"""The worker whose report has the counts of routing tasks; the first task always serves it."""

CHUNK_PAIRS = 2_000_000
"""Pairs that are written at a time, about."""


@dataclass
class WorkerReport:
    """What a matching task returns to the driver of one of its workers.

    subscriptions     pieces in the worker's index
    units             counts under each plan that serves the index (`UnitCounts.rows`); those of several tasks add up
    objects, matches  counts in all
    cpu_seconds       CPU seconds to find the pairs and to write the matches
    files             data files of `matches`, not yet committed: those of its task, or none if another report has them
    index_seconds     CPU seconds to map the worker's segments, and to build those that are new to the node

    Of the routing tasks whose counts this task received:
    seen, discarded   objects of the batch, and those that went to no worker
    dispatch_seconds  CPU seconds
    latest            greatest ts of these objects that are not withdrawn, microseconds; names.NO_TIME if there are none
    built_seconds     CPU seconds in which they built segments, by the worker of the segments
    """

    worker: int
    subscriptions: int
    units: list[pa.Table]
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
        sums = ("units", "objects", "matches", "cpu_seconds", "files", "index_seconds", "seen", "discarded")
        for name in (*sums, "dispatch_seconds"):
            setattr(whole, name, getattr(whole, name) + getattr(report, name))
        whole.latest = max(whole.latest, report.latest)
        for worker, seconds in report.built_seconds.items():
            whole.built_seconds[worker] = whole.built_seconds.get(worker, 0.0) + seconds
    return list(merged.values())


def match_workers(context: TaskContext, after_key: int, task: int, received: ReceivedRows) -> list[WorkerReport]:
    """Match the objects that were routed to the workers of a task, and write the matches as data files.

    after_key: stored objects meet only subscriptions with a greater key. The caller wants no candidates; they are
    divided among the buckets all the same, so that the CPU seconds are those of a batch.
    """
    matcher = _Matcher(context, after_key)
    buckets = Home(context.home).answer_buckets
    for candidates in matcher.match(received):
        deque(send_candidates(buckets, candidates), 0)
    return matcher.finish()


def match_and_send(context: TaskContext, after_key: int, buckets: int, received: ReceivedRows) -> Iterator[SentRows]:
    """Match as `match_workers` does, and send the candidates and the reports to the buckets of answers."""
    matcher = _Matcher(context, after_key)
    for candidates in matcher.match(received):
        yield from send_candidates(buckets, candidates)
    for report in matcher.finish():
        yield send_report(report)


class _Matcher:
    """Matches the objects of the workers of a task, one worker after the other, writes their matches and reports."""

    def __init__(self, context: TaskContext, after_key: int) -> None:
        load_kernels()
        self.context, self.after_key = context, after_key
        self.reports: list[WorkerReport] = []
        self.files: list[DataFile] = []
        self.write_seconds, self._bytes = 0.0, 0
        self._writer = FileWriter(Home(context.home).table(names.MATCHES), MATCHES)

    def _close_file(self) -> None:
        """Close the file and prepare the next one."""
        file, self._bytes = self._writer.close(), 0
        self.files += [file] if file else []
        self._writer = FileWriter(Home(self.context.home).table(names.MATCHES), MATCHES)

    def _write(self, rows: pa.RecordBatch) -> None:
        """Add rows to the file; begin another one if it may become too large. In a file rows are smaller than here."""
        began = time.thread_time()
        if self._bytes + rows.nbytes > MAX_FILE_BYTES:
            self._close_file()
        self._writer.write(rows)
        self._bytes += rows.nbytes
        self.write_seconds += time.thread_time() - began

    def match(self, received: ReceivedRows) -> Iterator[pa.RecordBatch]:
        """Match the received objects; yield the candidates (CANDIDATES)."""
        counts, of_workers = _split_by_worker(received)
        while of_workers:
            worker, objects = of_workers.popitem()
            began = time.thread_time()
            search = WorkerSearch(self.context, worker)
            report = WorkerReport(worker, search.pieces, [])
            report.index_seconds = time.thread_time() - began
            self.reports.append(report)
            for tag, batches in objects.items():
                yield from self._match_objects(search, report, pa.concat_batches(batches), tag)
            report.units = [served.counts.rows() for served in search.served]
            while worker == FIRST_WORKER and counts:
                report.add_route_counts(counts.pop())

    def _match_objects(
        self, search: WorkerSearch, report: WorkerReport, objects: pa.RecordBatch, tag: int
    ) -> Iterator[pa.RecordBatch]:
        """Match objects of one worker in slices whose pairs fit into memory, and write the matches.

        Yields the candidates of each slice, if there are any.
        """
        began, start, written = time.thread_time(), 0, self.write_seconds
        size = chunk_size(self.context.home, search.worker)
        while start < objects.num_rows:
            rows = objects.slice(start, size.objects)
            try:
                pairs = search.find_pairs(rows, self.after_key if tag == STORED_OBJECTS else names.MIN_INT64)
            except TooManyPairs:
                size.shrink(rows.num_rows)
                continue
            size.record(rows.num_rows, len(pairs.keys))
            if self.context.conditions:
                pairs = _that_meet_conditions(rows, pairs, self.context.conditions)
            if search.has_candidates:
                pairs, candidates = _split_pairs(rows, pairs)
                if candidates.num_rows:
                    yield candidates
            for matched in self._rows_of_pairs(search.worker, rows, *pairs):
                self._write(matched)
            report.matches += len(pairs.keys)
            start += rows.num_rows
        report.cpu_seconds += time.thread_time() - began - (self.write_seconds - written)
        report.objects += objects.num_rows

    def finish(self) -> list[WorkerReport]:
        """Close the data file and return the reports: each worker has its share of the seconds of writing, by pairs."""
        began, pairs = time.thread_time(), sum(report.matches for report in self.reports)
        self._close_file()
        self.write_seconds += time.thread_time() - began
        for report in self.reports:
            report.cpu_seconds += self.write_seconds * report.matches / max(pairs, 1)
        for report in self.reports[:1]:
            report.files = self.files
        return self.reports

    def _rows_of_pairs(
        self, worker: int, objects: pa.RecordBatch, order: np.ndarray, offsets: np.ndarray, keys: np.ndarray
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
            yield match_rows(rows, lists(borders, keys[before : ends[stop - 1]]), self.context, worker)
            start = stop


def _split_by_worker(received: ReceivedRows) -> tuple[list[pa.RecordBatch], dict[int, dict[int, list[pa.RecordBatch]]]]:
    """Return the counts of routing tasks, and the objects of each worker, by tag."""
    counts = list[pa.RecordBatch]()
    of_workers: dict[int, dict[int, list[pa.RecordBatch]]] = {}
    for tag, rows in received:
        if tag == ROUTE_COUNTS:
            counts.append(rows)
            of_workers.setdefault(FIRST_WORKER, {})
            continue
        worker, objects = rows.column("worker").to_numpy(), rows.drop_columns(["worker"])
        borders = [0, *(np.flatnonzero(np.diff(worker)) + 1).tolist(), len(worker)]
        for start, stop in pairwise(borders):
            of_worker = of_workers.setdefault(int(worker[start]), {})
            of_worker.setdefault(tag, []).append(objects.slice(start, stop - start))
    return counts, of_workers


def _that_meet_conditions(objects: pa.RecordBatch, pairs: FoundPairs, conditions: ConditionLog) -> FoundPairs:
    """Return the pairs whose objects satisfy the conditions of the subscriptions on attributes."""
    order, offsets, keys = pairs
    rows = np.repeat(order, np.diff(offsets)).astype(np.int64)
    met = conditions.are_met(np.where(keys < 0, ~keys, keys), rows, objects.column(ATTRIBUTES))
    return FoundPairs(order, np.append(0, np.cumsum(met))[offsets], keys[met])


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
