"""What Python workers do in a micro-batch: route objects, match them. Arrow in, Arrow out."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import AccumulatorParam

from pststream import names
from pststream.matching.deletions import merge_deletions
from pststream.matching.matcher import Found, match_objects
from pststream.matching.objects import sort_objects
from pststream.pipeline.arrow import csr, micros
from pststream.pipeline.executor import Work, dispatch_index, live_filter, segment_cache
from pststream.routing.dispatch import DispatchIndex
from pststream.state.tables import IDS, TABLES, TIME

ROUTED = pa.schema(
    [
        ("worker", pa.int32()),
        ("copy", pa.int32()),
        ("object_key", pa.int64()),
        ("object_id", pa.string()),
        ("ts", TIME),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("terms", IDS),
    ]
)
"""An object on its way to a worker; `copy` counts its copies from 0."""

MATCHES = TABLES[names.MATCHES].schema
CHUNK_OBJECTS = 131_072
CHUNK_PAIRS = 2_000_000
Batches = Iterator[pa.RecordBatch]


class WorkerStats(AccumulatorParam[list[dict[str, Any]]]):
    """Collects what each matching task reports; Spark adds each result task's report once."""

    def zero(self, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Nothing yet."""
        return []

    def addInPlace(self, value1: list[dict[str, Any]], value2: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Both lists."""
        return value1 + value2


def route_task(work: Work) -> Callable[[Batches], Batches]:
    """Objects to one row for each worker that may hold a match."""

    def task(batches: Batches) -> Batches:
        dispatch = dispatch_index(work.home, work.plan_version)
        live = live_filter(work.home, work.plan_version)
        paths = frozenset(file.path for file in work.files if file.worker != names.EVERY_WORKER)
        live.update(paths, segment_cache(work.cache_dir, work.cache_bytes))
        for batch in batches:
            lon, lat = batch.column("lon").to_numpy(), batch.column("lat").to_numpy()
            offsets, terms = csr(batch.column("terms"))
            place, worker = dispatch.route_objects(lon, lat, offsets, terms, live.live(lon, lat, offsets, terms))
            if len(place):
                yield _routed(batch, place, worker)

    return task


def _routed(batch: pa.RecordBatch, place: np.ndarray, worker: np.ndarray) -> pa.RecordBatch:
    new = np.ones(len(place), bool)
    new[1:] = place[1:] != place[:-1]
    starts = np.flatnonzero(new)
    copy = np.arange(len(place)) - np.repeat(starts, np.diff(np.append(starts, len(place))))
    whole = len(place) == batch.num_rows and len(starts) == batch.num_rows
    rows = batch if whole else batch.take(pa.array(place))
    columns = [pa.array(worker), pa.array(copy.astype(np.int32)), *(rows.column(name) for name in ROUTED.names[2:])]
    return pa.RecordBatch.from_arrays([c.cast(t.type) for c, t in zip(columns, ROUTED, strict=True)], schema=ROUTED)


def match_task(work: Work, stats: Any) -> Callable[[Batches], Batches]:
    """Routed objects of one worker to rows of `matches`; reports the worker's figures to `stats`."""

    def task(batches: Batches) -> Batches:
        report: dict[str, Any] | None = None
        for chunk in _chunks(batches):
            worker = _only_worker(chunk)
            if report is None:
                matcher = _Matcher(work, worker)
                report = matcher.report
            yield from matcher.match(chunk)
        if report is not None:
            report["units"] = matcher.units()
            stats.add([report])

    return task


def _only_worker(chunk: pa.RecordBatch) -> int:
    """The worker of a partition's rows; two would mean that the shuffle did not part them as it must."""
    ends = pc.min_max(chunk.column("worker")).as_py()
    if ends["min"] != ends["max"]:
        raise RuntimeError(f"a partition holds rows of workers {ends['min']} to {ends['max']}")
    return int(ends["min"])


def _chunks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches joined to about CHUNK_OBJECTS rows: a segment is walked once a chunk."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= CHUNK_OBJECTS:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)


class _Matcher:
    """One worker's segments and figures during a task."""

    def __init__(self, work: Work, worker: int) -> None:
        cache = segment_cache(work.cache_dir, work.cache_bytes)
        mine = [f for f in work.files if f.worker == worker and f.max_key > work.after_key]
        deleted = [f for f in work.files if f.worker == names.EVERY_WORKER]
        self.segments = [cache.segment(file.path) for file in mine]
        self.deleted = merge_deletions([cache.deletions(file.path) for file in deleted])
        self.dispatch: DispatchIndex = dispatch_index(work.home, work.plan_version)
        self.work = work
        self.worker = worker
        self.unit_objects = np.zeros(self.dispatch.plan.units, np.int64)
        self.candidates = np.zeros(self.dispatch.plan.units, np.int64)
        self.matches = np.zeros(self.dispatch.plan.units, np.int64)
        self.report: dict[str, Any] = {
            "worker": worker, "after_key": work.after_key, "objects": 0, "routed": 0, "candidates": 0, "matches": 0,
            "retractions": 0, "subscriptions": sum(segment.pieces for segment in self.segments), "cpu_seconds": 0.0,
        }  # fmt: skip

    def match(self, chunk: pa.RecordBatch) -> Batches:
        """Rows of `matches` of a chunk of routed objects."""
        began = time.thread_time()
        order, found = self._find(chunk)
        self.report["cpu_seconds"] += time.thread_time() - began
        self.report["objects"] += chunk.num_rows
        self.report["routed"] += int((chunk.column("copy").to_numpy() == 0).sum())
        self.report["candidates"] += int(found.candidates.sum())
        self.report["matches"] += len(found.keys)
        self.candidates += found.candidates
        self.matches += found.matches
        yield from self._rows(chunk, order, found)

    def units(self) -> list[tuple[int, int, int, int]]:
        """(unit, objects, candidates, matches) of each unit that saw an object."""
        seen = np.flatnonzero(self.unit_objects)
        return [(int(u), int(self.unit_objects[u]), int(self.candidates[u]), int(self.matches[u])) for u in seen]

    def _find(self, chunk: pa.RecordBatch) -> tuple[np.ndarray, Found]:
        lon, lat = chunk.column("lon").to_numpy(), chunk.column("lat").to_numpy()
        offsets, terms = csr(chunk.column("terms"))
        units = self.dispatch.units_of_objects(lon, lat, offsets, terms)
        units = np.where(self.dispatch.arrays.unit_worker[units] == self.worker, units, np.int32(-1))
        self._count_objects(offsets, units)
        batch = sort_objects(lon, lat, micros(chunk.column("ts")), offsets, terms, units)
        found = match_objects(batch, self.segments, *self.deleted, self.dispatch.plan.units, self.work.after_key)
        return batch.order, found

    def _count_objects(self, offsets: np.ndarray, units: np.ndarray) -> None:
        """Book each object once to each of its units here."""
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[units >= 0]
        pairs = owner * np.int64(len(self.unit_objects)) + units[units >= 0]
        same = pairs[1:] == pairs[:-1]
        pairs = pairs[np.append(True, ~same)] if len(pairs) else pairs
        if self.dispatch.plan.terms.size or self.dispatch.plan.spread_unit.size:
            pairs = np.unique(pairs)
        self.unit_objects += np.bincount(pairs % len(self.unit_objects), minlength=len(self.unit_objects))

    def _rows(self, chunk: pa.RecordBatch, order: np.ndarray, found: Found) -> Batches:
        """Rows of the objects that matched, in slices of about CHUNK_PAIRS pairs."""
        hit = np.flatnonzero(np.diff(found.offsets))
        ends = found.offsets[hit + 1]
        start = 0
        while start < len(hit):
            before = found.offsets[hit[start]]
            stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK_PAIRS, "right")))
            part = hit[start:stop]
            rows = chunk.take(pa.array(order[part]))
            offsets = np.append(found.offsets[part], ends[stop - 1]) - before
            keys = pa.ListArray.from_arrays(
                pa.array(offsets.astype(np.int32)), pa.array(found.keys[before : ends[stop - 1]])
            )
            yield self._batch(rows, keys)
            start = stop

    def _batch(self, rows: pa.RecordBatch, keys: pa.ListArray) -> pa.RecordBatch:
        count = len(keys)
        columns = {
            "object_key": rows.column("object_key"),
            "object_id": rows.column("object_id"),
            "ts": rows.column("ts"),
            "subscription_keys": keys,
            "retracted": pa.array(np.zeros(count, bool)),
            "worker": pa.array(np.full(count, self.worker, np.int64)),
            "batch_id": pa.array(np.full(count, self.work.batch_id, np.int64)),
            "plan_version": pa.array(np.full(count, self.work.plan_version, np.int64)),
        }
        return pa.RecordBatch.from_arrays(
            [columns[n].cast(MATCHES.field(n).type) for n in MATCHES.names], schema=MATCHES
        )
