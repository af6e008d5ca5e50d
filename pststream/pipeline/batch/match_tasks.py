"""What Python workers do in a micro-batch: route objects, match them. Arrow in, Arrow out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.kernels.planning.count_loads import count_units
from pststream.matching.matcher import Found, Probe, TooManyPairs, match_objects, pairs_of, probe_of
from pststream.matching.object_batch import sort_objects
from pststream.matching.segment_cache import SegmentCache
from pststream.matching.segments import Segment
from pststream.pipeline.engine.arrow_columns import csr, lists, micros
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.task_context import (
    TaskContext,
    deletions_of,
    dispatch_index,
    live_filter,
    portions,
    segment_cache,
)
from pststream.pipeline.engine.warm_up import load_kernels
from pststream.routing.dispatch import DispatchIndex
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.index_files import segment_files
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

COLUMNS = ["object_key", "object_id", "ts", "lon", "lat", "terms"]
MATCHES = TABLES[names.MATCHES].schema
CHUNK_OBJECTS = 65_536
CHUNK_PAIRS = 2_000_000
COUNTS = pa.schema(
    {
        "seen": pa.int64(),
        "discarded": pa.int64(),
        "seconds": pa.float64(),
        "built_by": pa.list_(pa.int64()),
        "built_seconds": pa.list_(pa.float64()),
    }
)
NEW, LATE, COUNTED = 0, 1, 2
"""Tags of received: objects of the batch, stored objects for its late subscriptions, what a routing task tells."""


@dataclass(frozen=True)
class Scan:
    """Objects that a task routes: rows of the slices within `rows`, with a time from `min_ts` (microseconds) on.

    LATE ones meet only subscriptions with a key above `after_key`.
    """

    slices: tuple[Slice, ...]
    rows: KeyRange
    tag: int
    min_ts: int = -(2**63)


@dataclass
class UnitCounts:
    """What a worker did for each unit of a plan: int64[units] each."""

    plan_version: int
    objects: np.ndarray
    candidates: np.ndarray
    matches: np.ndarray


@dataclass
class Tally:
    """What a worker did; `units`: for each plan that serves the index."""

    units: list[UnitCounts]
    objects: int = 0
    matches: int = 0
    cpu_seconds: float = 0.0


@dataclass
class Report:
    """What the task of a worker returns.

    index_seconds: CPU to map the worker's segments, and to build those that are new to the node. Of the routing tasks
    that it was told of: seen, discarded, numbers of objects; dispatch_seconds, CPU; built_seconds, CPU for the segments
    that they built before the task of their worker could, by worker.
    """

    worker: int
    subscriptions: int
    tally: Tally
    files: list[DataFile] = field(default_factory=list)
    index_seconds: float = 0.0
    seen: int = 0
    discarded: int = 0
    dispatch_seconds: float = 0.0
    built_seconds: dict[int, float] = field(default_factory=dict)

    def count(self, told: pa.RecordBatch) -> None:
        """Add what a routing task tells."""
        (row,) = told.to_pylist()
        self.seen += row["seen"]
        self.discarded += row["discarded"]
        self.dispatch_seconds += row["seconds"]
        for worker, seconds in zip(row["built_by"], row["built_seconds"]):
            self.built_seconds[worker] = self.built_seconds.get(worker, 0.0) + seconds


def route(work: TaskContext, after_key: int, scan: Scan) -> Iterator[SentRows]:
    """Objects to the workers that may hold a match."""
    load_kernels()
    began = time.thread_time()
    least = after_key if scan.tag == LATE else -1
    held = segment_files(file for file in work.files if file.max_key > least)
    worker_of = {segment.paths: segment.worker for segment in held}
    cache = segment_cache(work.cache_dir, work.cache_bytes)
    cache.take_built()
    routes = []
    for age, version in enumerate(work.plans):
        live = live_filter(work.home, age, scan.tag)
        live.update(frozenset(segment.paths for segment in held if segment.plan_version == version), cache)
        routes.append((dispatch_index(work.home, version), live))
    built = cache.take_built()
    seen = sent = 0
    for rows in read_slices(scan.slices, COLUMNS, scan.rows):
        objects = rows if scan.tag == NEW else rows.filter(pa.array(micros(rows.column("ts")) >= scan.min_ts))
        lon, lat = objects.column("lon").to_numpy(), objects.column("lat").to_numpy()
        offsets, terms = csr(objects.column("terms"))
        asked = [
            dispatch.route_objects(lon, lat, offsets, terms, live.live(lon, lat, offsets, terms))
            for dispatch, live in routes
        ]
        place, worker = _either(asked, work.workers)
        seen += objects.num_rows
        sent += len(place) and 1 + int(np.count_nonzero(np.diff(place)))
        yield from _by_worker(objects, place, worker, work.workers, scan.tag)
    new = int(scan.tag == NEW)
    counted = {
        "seen": [new * seen],
        "discarded": [new * (seen - sent)],
        "seconds": [time.thread_time() - began - sum(built.values())],
        "built_by": [[worker_of[paths] for paths in built]],
        "built_seconds": [list(built.values())],
    }
    yield 0, COUNTED, pa.RecordBatch.from_pydict(counted, schema=COUNTS)


def _either(asked: list[tuple[np.ndarray, np.ndarray]], workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Object and worker of each pair that some plan asks for, each once, as `route_objects` gives them."""
    if len(asked) == 1:
        return asked[0]
    pairs = np.concatenate([place.astype(np.int64) * workers + worker for place, worker in asked])
    return np.divmod(np.unique(pairs), workers)


def _by_worker(
    objects: pa.RecordBatch, place: np.ndarray, worker: np.ndarray, workers: int, tag: int
) -> Iterator[SentRows]:
    order = np.argsort(worker, kind="stable")
    borders = np.searchsorted(worker[order], np.arange(workers + 1))
    for number in range(workers):
        mine = place[order[borders[number] : borders[number + 1]]]
        if len(mine):
            yield number, tag, objects if len(mine) == objects.num_rows else objects.take(pa.array(mine))


def match_worker(work: TaskContext, after_key: int, worker: int, received: ReceivedRows) -> Report:
    """Match the objects that were routed to a worker, and write what matched as data files of `matches`."""
    matcher = _Matcher(work, worker, after_key)
    held: dict[int, list[pa.RecordBatch]] = {NEW: [], LATE: []}
    for tag, rows in received:
        if tag == COUNTED:
            matcher.report.count(rows)
            continue
        held[tag].append(rows)
        if sum(part.num_rows for part in held[tag]) >= CHUNK_OBJECTS:
            matcher.match(pa.concat_batches(held[tag]), tag)
            held[tag] = []
    for tag, rest in held.items():
        if rest:
            matcher.match(pa.concat_batches(rest), tag)
    return matcher.finish()


@dataclass
class _Served:
    """What a worker serves under one plan: segments, each with its greatest key; what that took; and, once asked for,
    the segments as objects of a tag probe them, by the greatest key that these pass over.
    """

    dispatch: DispatchIndex
    segments: list[tuple[int, Segment]]
    counts: UnitCounts
    probes: dict[int, list[Probe]] = field(default_factory=dict)


class _Matcher:
    """One worker's segments and figures during a task."""

    def __init__(self, work: TaskContext, worker: int, after_key: int) -> None:
        load_kernels()
        began = time.thread_time()
        cache = segment_cache(work.cache_dir, work.cache_bytes)
        self.served = [_served(work, version, worker, cache) for version in work.plans]
        self.deleted = deletions_of(work.files, work.cache_dir, work.cache_bytes)
        self.work = work
        self.worker = worker
        self.after_key = after_key
        self.writer = FileWriter(Home(work.home).table(names.MATCHES), MATCHES)
        pieces = sum(segment.pieces for served in self.served for _, segment in served.segments)
        self.report = Report(worker, pieces, Tally([served.counts for served in self.served]))
        self.report.index_seconds = time.thread_time() - began

    def match(self, chunk: pa.RecordBatch, tag: int) -> None:
        """Match a chunk of routed objects and write what was found, a portion at a time."""
        began, start = time.thread_time(), 0
        sized = portions(self.work.home, self.worker)
        while start < chunk.num_rows:
            portion = chunk.slice(start, sized.objects)
            try:
                pairs = self._match(portion, self.after_key if tag == LATE else -1)
            except TooManyPairs:
                sized.too_many(portion.num_rows)
                continue
            sized.found(portion.num_rows, pairs)
            self.report.tally.matches += pairs
            start += portion.num_rows
        self.report.tally.cpu_seconds += time.thread_time() - began
        self.report.tally.objects += chunk.num_rows

    def finish(self) -> Report:
        """The report, with the files that were written."""
        file = self.writer.close()
        self.report.files = [file] if file else []
        return self.report

    def _match(self, chunk: pa.RecordBatch, after_key: int) -> int:
        order, offsets, keys = self._find(chunk, after_key)
        for rows in self._rows(chunk, order, offsets, keys):
            self.writer.write(rows)
        return len(keys)

    def _find(self, chunk: pa.RecordBatch, after_key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the chunk in the order of matching, and of each the subscriptions (keys above `after_key`) that it
        matches: offsets, keys. Raises TooManyPairs before anything is counted.
        """
        lon, lat, ts = chunk.column("lon").to_numpy(), chunk.column("lat").to_numpy(), micros(chunk.column("ts"))
        offsets, terms = csr(chunk.column("terms"))
        found, units_of = list[Found](), list[np.ndarray]()
        for served in self.served:
            units = served.dispatch.units_of_objects(lon, lat, offsets, terms)
            units = np.where(served.dispatch.arrays.unit_worker[units] == self.worker, units, np.int32(-1))
            batch = sort_objects(lon, lat, ts, offsets, terms, units)
            found.append(match_objects(batch, self._probes(served, after_key), served.dispatch.plan.units))
            units_of.append(units)
        for served, units, one in zip(self.served, units_of, found):
            if self._probes(served, after_key):
                count_units(offsets, units, served.counts.objects)
            served.counts.candidates += one.candidates
            served.counts.matches += one.matches
        return batch.order, *pairs_of(found)

    def _probes(self, served: "_Served", after_key: int) -> list[Probe]:
        if after_key not in served.probes:
            some = [segment for max_key, segment in served.segments if max_key > after_key]
            served.probes[after_key] = [probe_of(segment, self.deleted, after_key) for segment in some]
        return served.probes[after_key]

    def _rows(
        self, chunk: pa.RecordBatch, order: np.ndarray, offsets: np.ndarray, keys: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the objects that matched, in slices of about CHUNK_PAIRS pairs."""
        hit = np.flatnonzero(np.diff(offsets))
        ends = offsets[hit + 1]
        start = 0
        while start < len(hit):
            before = offsets[hit[start]]
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, "right")))
            part = hit[start:stop]
            rows = chunk.take(pa.array(order[part]))
            borders = np.append(offsets[part], ends[stop - 1]) - before
            yield match_rows(rows, lists(borders, keys[before : ends[stop - 1]]), self.work, self.worker)
            start = stop


def _served(work: TaskContext, version: int, worker: int, cache: SegmentCache) -> _Served:
    mine = [s for s in segment_files(work.files) if s.worker == worker and s.plan_version == version]
    dispatch = dispatch_index(work.home, version)
    counts = UnitCounts(version, *(np.zeros(dispatch.plan.units, np.int64) for _ in range(3)))
    return _Served(dispatch, [(s.max_key, cache.segment(s.paths)) for s in mine], counts)


def match_rows(
    objects: pa.RecordBatch, keys: pa.ListArray, work: TaskContext, worker: int, retracted: bool = False
) -> pa.RecordBatch:
    """Rows of `matches`: objects (object_key, object_id, ts) and the subscription keys of each."""
    count = objects.num_rows
    columns = {
        "object_key": objects.column("object_key"),
        "object_id": objects.column("object_id"),
        "ts": objects.column("ts"),
        "subscription_keys": keys,
        "retracted": pa.array(np.full(count, retracted)),
        "worker": pa.array(np.full(count, worker, np.int64)),
        "batch_id": pa.array(np.full(count, work.batch_id, np.int64)),
        "plan_version": pa.array(np.full(count, work.plan_version, np.int64)),
    }
    return pa.RecordBatch.from_arrays([columns[n].cast(MATCHES.field(n).type) for n in MATCHES.names], schema=MATCHES)
