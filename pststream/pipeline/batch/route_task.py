"""Send new objects, and stored objects that late subscriptions may match, to their workers (before the shuffle).

A subscription is late if its `created_at` lies before objects of earlier batches. Each of its pieces is asked as a
question about the object segments, and the objects in the answers are routed and matched like new ones, so an answer
may have objects that do not match.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import csr, micros
from pststream.base.utc_times import to_micros
from pststream.engine.contract import SentRows
from pststream.engine.task_context import TaskContext, dispatch_index, live_term_filters, object_cache, segment_cache
from pststream.engine.warm_up import load_kernels
from pststream.kernels.routing.dispatch import group_by_worker
from pststream.matching.matcher import add_every_object
from pststream.matching.verified_clauses import TEXT_COLUMNS, with_phrases
from pststream.pipeline.batch.worker_parts import WorkerParts
from pststream.pipeline.index.build_index import PIECES, TASK_BYTES, make_pieces, read_requests, split_by_bytes
from pststream.queries.text.phrases import PhraseTable
from pststream.search.object_cache import ObjectFile, settled_groups
from pststream.search.object_segments import ObjectSegment, TooManyTerms
from pststream.search.stored_conditions import ATTRIBUTES, ConditionLog
from pststream.search.wanted_rows import (
    QUESTION_COLUMNS,
    PieceQuestions,
    find_wanted_rows,
    make_piece_questions,
    object_columns,
)
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import BATCH_ROWS, KeyRange, Slice, read_places, split_into_tasks, whole_file
from pststream.state.tables import TABLES
from pststream.storage.array_cache import Paths
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import NONE, WithdrawnRows, withdrawn_requests

COLUMNS = ["object_key", "object_id", "ts", "lon", "lat", "terms"]
"""Columns of `objects` that are routed; with conditions, their attributes too."""

SCHEMA = pa.schema([TABLES[names.OBJECTS].schema.field(name) for name in COLUMNS])


@dataclass(frozen=True)
class LateRequests:
    """The late subscriptions of a batch: insertions in the slices with keys in `keys`, created at `created_to`
    (microseconds) or before, without those that were set aside.
    """

    slices: tuple[Slice, ...]
    keys: KeyRange
    created_to: int
    withdrawn: WithdrawnRows


@lru_cache(maxsize=2)
def _questions(late: LateRequests, up_to_key: int) -> PieceQuestions:
    """Return the questions of the late subscriptions about objects with keys up to `up_to_key`."""
    pieces = [pa.RecordBatch.from_pylist([], pa.schema([PIECES.field(name) for name in QUESTION_COLUMNS]))]
    for rows in read_requests(late.slices, late.keys, late.withdrawn):
        created = rows.column("effective_at").cast(pa.int64())
        is_late = pc.and_(pc.equal(rows.column("op"), "insert"), pc.less_equal(created, late.created_to))
        pieces += [make_pieces(part).select(list(QUESTION_COLUMNS)) for part in split_by_bytes(rows.filter(is_late))]
    return make_piece_questions(pa.concat_batches(pieces), up_to_key)


NEW_OBJECTS, STORED_OBJECTS, ROUTE_COUNTS = 0, 1, 2
"""Tags of sent rows: objects of the batch; stored objects, for subscriptions of the batch; counts of a routing task."""

COUNTS = pa.schema(
    {
        "seen": pa.int64(),
        "discarded": pa.int64(),
        "latest": pa.int64(),
        "seconds": pa.float64(),
        "built_by": pa.list_(pa.int64()),
        "built_seconds": pa.list_(pa.float64()),
    }
)
"""Columns of ROUTE_COUNTS, one row a task: objects of the batch that it read, and that it discarded; the greatest ts of
those that are not withdrawn, names.NO_TIME if there are none; its CPU seconds; the workers whose segments it built, and
the CPU seconds of each.
"""

_Route = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Takes lon, lat, term_offsets and terms of objects; returns pairs as `DispatchIndex.route_objects` does."""


class _Routes(NamedTuple):
    """How to route objects under the plans that serve the index.

    by_plan    a function for each plan
    adds_term  whether objects get the term of subscriptions without keywords
    phrases    tables of the phrases whose terms objects get
    built      the worker, and the CPU seconds, of each segment that this task has built for the filters
    """

    by_plan: list[_Route]
    adds_term: bool
    phrases: list[PhraseTable]
    built: list[tuple[int, float]]


@dataclass(frozen=True)
class ObjectScan:
    """The objects that a task routes: rows of the slices with a key in `keys` and a ts from `min_ts` (microseconds) on.

    tag: NEW_OBJECTS meet all subscriptions, STORED_OBJECTS only those with a key above `after_key` of `route_objects`.
    withdrawn: objects that go to no worker
    late: late subscriptions; the slices are then the files of one object segment, and only objects that may match one
          of these subscriptions are routed
    """

    slices: tuple[Slice, ...]
    keys: KeyRange
    tag: int
    min_ts: int = names.NO_TIME
    withdrawn: WithdrawnRows = NONE
    late: LateRequests | None = None


def route_objects(context: TaskContext, after_key: int, parts: WorkerParts, scan: ObjectScan) -> Iterator[SentRows]:
    """Send each object once to each worker that may match it, by the task that matches it there.

    The rows that a task receives have a further column `worker`, by which they are ordered. At the end the counts of
    this task go to the first one.

    after_key: the key of the last request before the batch
    """
    load_kernels()
    segment = None
    if scan.late is not None:
        paths = tuple(one.path for one in scan.slices)
        with suppress(TooManyTerms):  # then all objects are read
            segment = object_cache(context.cache_dir, context.cache_bytes).segment(paths)
    began = time.thread_time()
    routes = _prepare_routes(context, scan.tag, after_key)
    seen, sent, latest = 0, 0, names.NO_TIME
    for objects in _read_objects(scan, segment, routes.phrases, context.conditions):
        seen += objects.num_rows
        if scan.withdrawn:
            objects = objects.filter(pa.array(~scan.withdrawn.contain(objects.column("object_key").to_numpy())))
        latest = max(latest, int(micros(objects.column("ts")).max(initial=names.NO_TIME)))
        position, worker = _find_workers(objects, routes, context.workers)
        sent += len(position) and 1 + int(np.count_nonzero(np.diff(position)))
        grouped, slices = group_by_worker(position, worker, context.workers)
        for task, rows in parts.divide(objects, grouped, slices):
            yield task, scan.tag, rows

    new = int(scan.tag == NEW_OBJECTS)
    counts = {
        "seen": [new * seen],
        "discarded": [new * (seen - sent)],
        "latest": [latest if new else names.NO_TIME],
        "seconds": [time.thread_time() - began - sum(seconds for _, seconds in routes.built)],
        "built_by": [[worker for worker, _ in routes.built]],
        "built_seconds": [[seconds for _, seconds in routes.built]],
    }
    yield 0, ROUTE_COUNTS, pa.RecordBatch.from_pydict(counts, schema=COUNTS)


def _prepare_routes(context: TaskContext, tag: int, after_key: int) -> _Routes:
    """Bring the filters of live terms up to the segments that objects with this tag may meet."""
    least = after_key if tag == STORED_OBJECTS else -1
    segments = context.files.above(least).segments if least >= 0 else context.files.segments
    worker_of = {segment.paths: segment.worker for segment in segments}
    cache = segment_cache(context.cache_dir, context.cache_bytes)
    cache.take_built()
    by_plan, adds_term, phrases = list[_Route](), False, list[PhraseTable]()
    for plan_position, version in enumerate(context.plans):
        dispatch = dispatch_index(context.home, version)
        filters = live_term_filters(context.home, plan_position, tag, dispatch.filters)
        of_filters = [set[Paths]() for _ in filters]
        for segment in segments:
            if segment.plan_version == version:
                of_filters[dispatch.filter_of(segment.worker)].add(segment.paths)
        for live, paths in zip(filters, of_filters):
            live.update(frozenset(paths), cache)
        by_plan.append(partial(dispatch.route_objects, live=[live.arrays() for live in filters]))
        adds_term |= any(live.has_every_object for live in filters)
        phrases += [table for live in filters for table in live.phrases]
    return _Routes(
        by_plan, adds_term, phrases, [(worker_of[paths], seconds) for paths, seconds in cache.take_built().items()]
    )


def _find_workers(objects: pa.RecordBatch, routes: _Routes, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs of an object and a worker that it is sent to, as `DispatchIndex.route_objects` does."""
    lon, lat = objects.column("lon").to_numpy(), objects.column("lat").to_numpy()
    offsets, terms = csr(objects.column("terms"))
    if routes.adds_term:
        offsets, terms = add_every_object(offsets, terms)
    routed = [route(lon, lat, offsets, terms) for route in routes.by_plan]
    if len(routed) == 1:
        return routed[0]
    pairs = np.concatenate([position.astype(np.int64) * workers + worker for position, worker in routed])
    position, worker = np.divmod(distinct_values(pairs), workers)
    return position.astype(np.int32), worker.astype(np.int32)


def _read_objects(
    scan: ObjectScan, segment: ObjectSegment | None, phrases: list[PhraseTable], conditions: ConditionLog
) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a scan, with the terms of phrases and the attributes of conditions; from a segment, only
    those that its late subscriptions may match.
    """
    keys: np.ndarray | None = None
    if segment is not None and scan.late is not None:
        wanted = find_wanted_rows(segment, _questions(scan.late, scan.keys.up_to))
        if wanted is not None:  # otherwise it is less work to read all objects
            if not phrases and not conditions:
                for first in range(0, len(wanted), BATCH_ROWS):
                    known = object_columns(segment, wanted[first : first + BATCH_ROWS])
                    yield pa.RecordBatch.from_pydict(known, schema=SCHEMA)
                return
            keys = np.sort(segment.keys[wanted])
    columns = [*COLUMNS, *(TEXT_COLUMNS if phrases else ()), *([ATTRIBUTES] if conditions else ())]
    for rows in map(conditions.project, read_places(scan.slices, columns, scan.keys)):
        if keys is not None:
            rows = rows.filter(pa.array(is_among(rows.column("object_key").to_numpy(), keys)))
        if scan.tag != NEW_OBJECTS:
            rows = rows.filter(pa.array(micros(rows.column("ts")) >= scan.min_ts))
        yield with_phrases(rows, phrases) if phrases else rows


OBJECT_BYTES = 150
"""About the bytes of an object in a segment."""

CACHE_SHARE = 0.5
"""Share of the node's cache that the asked segments take at most, so that they stay there."""


def stored_scans(
    home: Home, batch: dict[str, Any], ledger: Ledger, withdrawn: WithdrawnRows, cache_bytes: int
) -> list[ObjectScan]:
    """Return scans of the stored objects that the late subscriptions of a batch may match.

    The scans ask object segments. They read data files instead if these will soon be built into one segment with newer
    files, or if the late subscriptions or the segments are too large for the node.

    ledger: as it was before the batch; cache_bytes: bound of the node's cache
    """
    first = ledger.min_request_time(batch["requests_after"], batch["requests_to"])
    last = ledger.max_matched_ts(batch["objects_after"])
    if first is None or last is None or first > last:
        return []
    since, stored = to_micros(first), KeyRange("object_key", -1, batch["objects_after"])
    files = list_data_files(home, names.OBJECTS)
    rows = dict(addresses_and_rows(home, names.OBJECTS, files))
    wanted = [file for file in stored.files(files) if file.may_contain("ts", since, names.NEVER_US)]
    read = dict(addresses_and_rows(home, names.OBJECTS, wanted))
    scans = []
    late = _late_requests(home, batch, ledger, to_micros(last))
    if late is not None:
        places = zip(files, rows.items())
        stored_files = [ObjectFile(*place, file.low.get("object_key", -1), file.bytes) for file, place in places]
        for group in _asked_groups(stored_files, read.keys(), cache_bytes):
            whole = tuple(whole_file(file.address) for file in group)
            scans.append(ObjectScan(whole, stored, STORED_OBJECTS, since, withdrawn, late))
            for file in group:
                read.pop(file.address, None)
    scans += [ObjectScan(slices, stored, STORED_OBJECTS, since, withdrawn) for slices in split_into_tasks(read.items())]
    return scans


def _late_requests(home: Home, batch: dict[str, Any], ledger: Ledger, created_to: int) -> LateRequests | None:
    """Return the late subscriptions of a batch; None if they are too many for the memory of a task."""
    keys = KeyRange("request_key", batch["requests_after"], batch["requests_to"])
    files = keys.files(list_data_files(home, names.REQUESTS))
    requests, rows = ledger.accepted_requests(keys.after, keys.up_to), sum(file.rows for file in files)
    if sum(file.bytes for file in files) * requests > TASK_BYTES * rows:
        return None
    slices = (whole_file(path) for path, _ in addresses_and_rows(home, names.REQUESTS, files))
    return LateRequests(tuple(slices), keys, created_to, withdrawn_requests(home))


def _asked_groups(
    files: list[ObjectFile], wanted: Collection[str], cache_bytes: int
) -> Iterator[tuple[ObjectFile, ...]]:
    """Yield the groups of files, a segment each, that are asked: the newest, as many as the cache keeps."""
    left = CACHE_SHARE * cache_bytes
    for group in reversed(settled_groups(files)):
        if any(file.address in wanted for file in group):
            left -= OBJECT_BYTES * sum(file.rows for file in group)
            if left < 0:
                return
            yield group
