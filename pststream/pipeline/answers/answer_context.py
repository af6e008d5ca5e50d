"""Define what the tasks of a batch need to know of subscriptions with memory: the batch, the one before, the files."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.answers.contract import BatchEnd
from pststream.base import names
from pststream.base.arrow_columns import micros
from pststream.base.utc_times import to_micros
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import cache_place
from pststream.kernels.compile import node_folder
from pststream.matching.verified_clauses import TEXT_COLUMNS
from pststream.pipeline.answers.bucket_snapshots import last_snapshot
from pststream.pipeline.answers.log_rows import slices_of
from pststream.pipeline.answers.standing_queries import StandingQueries, layout
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.plans.topk_plan import TopkPlan
from pststream.search.object_cache import group_request_files
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.open_snapshot import StoredSegments, list_segments
from pststream.search.stored_conditions import ATTRIBUTES, ConditionLog, list_conditions
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import count_removals
from pststream.state.home import Home
from pststream.state.plans import load_topk_plan, topk_version_of
from pststream.state.slices import KeyRange, Slice, read_places, read_slices, split_into_tasks
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.tables.delta_tables import describe_snapshot
from pststream.tables.ledgers import BatchRow, read_batches
from pststream.tables.log_events import WithdrawnRows, statistics_in_force, withdrawn_objects

UNITS = "units-"
"""How the names of the folders of units begin."""


@dataclass(frozen=True)
class Position:
    """The end of a batch in both logs; times in microseconds.

    stream_time  greatest ts of the objects, names.NO_TIME: no object
    started_at   start of the batch by the clock; 0: unknown
    """

    batch_id: int
    objects_to: int
    requests_after: int
    requests_to: int
    stream_time: int
    started_at: int = 0


@dataclass(frozen=True)
class AnswerContext:
    """What the tasks of a batch need to know of subscriptions with memory; small, since it travels with every task.

    states        name of the folder of its states in the node's cache
    buckets       number of buckets
    previous      end of the batch before
    starts        starts of the last batches by the clock, by their numbers; a state is rarely further behind
    stream_time   greatest ts of the objects up to there, without those that this batch withdraws too
    objects_to, requests_to   end of this batch
    request_files data files of `requests`, in groups
    messages      data files of `objects` with the objects of this batch; none if no subscription is of the kind `topk`
    segments      of stored objects, with the weights of words at the end of this batch
    withdrawn     objects that do not count in this batch
    withdrawn_before  objects that did not count in the batch before
    last_snapshot batch of the last snapshot of all buckets in `answers`, 0: none
    reevaluate    all answers may have changed: the batch withdraws objects, or rows were erased since the last one
    reweighed     the batch puts another version of the term statistics in force: all scores may have changed
    cache_dir, cache_bytes   as `task_context.cache_place` returns them
    removals      number of removals of rows before this batch
    topk_version  version of `topk_plans` in force; None: candidates of `topk` are found by bucket
    conditions    of the subscriptions
    """

    home: str
    states: str
    batch_id: int
    buckets: int
    previous: Position
    starts: Mapping[int, int]
    stream_time: int
    objects_to: int
    requests_to: int
    request_files: tuple[Paths, ...]
    messages: tuple[Slice, ...]
    segments: StoredSegments
    withdrawn: WithdrawnRows
    withdrawn_before: WithdrawnRows
    last_snapshot: int
    reevaluate: bool
    reweighed: bool
    cache_dir: str
    cache_bytes: int
    removals: int
    topk_version: int | None
    conditions: ConditionLog

    def end(self, latest: int) -> Position:
        """Return the end of this batch; latest: greatest ts of its objects, names.NO_TIME if it has none."""
        stream_time = max(self.stream_time, latest)
        return Position(self.batch_id, self.objects_to, self.previous.requests_to, self.requests_to, stream_time)

    def queries(self) -> StandingQueries:
        """Return the subscriptions with memory of the request log."""
        return open_queries(self.request_files, (self.cache_dir, self.cache_bytes))

    def batch_end(self, position: Position, windows: np.ndarray) -> BatchEnd:
        """Return the end of this batch or of the one before, with the boundaries of count windows (int64[w])."""
        boundaries = np.empty((len(windows), 2), np.int64)
        if len(windows):
            latest = position.stream_time, position.objects_to
            boundaries = self.snapshot(position).before_most_recent(windows.tolist(), *latest)
        return BatchEnd(
            position.batch_id, position.stream_time, position.objects_to, windows, boundaries, position.started_at
        )

    def snapshot(self, position: Position) -> ObjectSnapshot:
        """Return the stored objects without those that do not count at the end of this batch or the one before."""
        withdrawn = self.withdrawn if position.batch_id == self.batch_id else self.withdrawn_before
        return _open_segments(self.segments, withdrawn)

    def bucket_file(self, bucket: int) -> Path:
        """Return the file of the node's cache that has the state of a bucket."""
        return states_folder(self.cache_dir) / self.states / str(bucket)

    def index_folder(self, bucket: int) -> Path:
        """Return the folder of the node's cache that has the `topk` index of a bucket."""
        return states_folder(self.cache_dir) / self.states / f"{bucket}-topk"

    def units_folder(self) -> Path:
        """Return the folder of the node's cache that has the indexes of the units of the plan of `topk`, for the
        weights in force; after a removal of rows it is another one.
        """
        weights = self.segments.weights
        identity = short_digest((self.topk_version, weights.version, weights.files, self.removals))
        return states_folder(self.cache_dir) / self.states / f"{UNITS}{identity}"

    def topk_plan(self) -> TopkPlan | None:
        """Return the plan of `topk` subscriptions; None: candidates are found by bucket."""
        return None if self.topk_version is None else _topk_plan(self.home, self.topk_version)

    @property
    def seeks_scored(self) -> bool:
        """Whether candidates of `topk` are sought: not if all of its answers are evaluated."""
        return not (self.reevaluate or self.reweighed)

    def continues(self, batch_id: int, started_at: int) -> bool:
        """Whether data after a batch that started then is of this home, and the log has all that came later.

        After a restore the node may have data of a batch that is undone, also of one whose number has come again.
        """
        if not self.last_snapshot <= batch_id <= self.previous.batch_id:
            return False
        if batch_id in self.starts:
            return started_at == self.starts[batch_id]
        batches = read_batches(Home(self.home), batch_id - 1, batch_id)
        return started_at == (to_micros(batches[0]["started_at"]) if batches else 0)

    def read_messages(self, slices: Iterable[Slice]) -> Iterator[pa.RecordBatch]:
        """Yield the objects of this batch in slices that are not withdrawn: object_key, ts, lon, lat, terms; with
        conditions the attributes, and TEXT_COLUMNS if a scored subscription has phrases or exclusions.
        """
        keys = KeyRange("object_key", self.previous.objects_to, self.objects_to)
        columns = ["object_key", "ts", "lon", "lat", "terms", *([ATTRIBUTES] if self.conditions else [])]
        columns += TEXT_COLUMNS if self.queries().have_verified_scores() else ()
        for rows in map(self.conditions.project, read_places(slices, columns, keys)):
            yield rows.filter(pa.array(~self.withdrawn.contain(rows.column("object_key").to_numpy())))


def short_digest(made_for: tuple[object, ...]) -> str:
    """Return a name for the folder of an index by what it was made for."""
    return hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]


def states_folder(cache_dir: str) -> Path:
    """Return the folder of the node's cache that has the states of buckets, by home; empty: the default of the node."""
    return (Path(cache_dir) if cache_dir else node_folder()) / "answers"


def states_of_home(home: Home) -> str:
    """Return the name of the folder of a home's states: another home may have been at the path before, and a restored
    home has the tables of another one.
    """
    table_id = describe_snapshot(home.table(names.ANSWER_LOG)).partition("@")[0]
    return hashlib.sha256(f"{home.path}\n{table_id}".encode()).hexdigest()[:32]


@lru_cache(maxsize=4)
def _query_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, layout())


@lru_cache(maxsize=2)
def _topk_plan(home: str, version: int) -> TopkPlan:
    return load_topk_plan(Home(home), version)


@lru_cache(maxsize=2)
def _open_segments(segments: StoredSegments, withdrawn: WithdrawnRows) -> ObjectSnapshot:
    snapshot = segments.open()
    return snapshot.without(withdrawn.keys) if withdrawn else snapshot


def make_answer_context(
    home: Home,
    settings: Settings,
    batch: Mapping[str, Any],
    before: Sequence[BatchRow],
    previous: Position,
    stream_time: int,
) -> AnswerContext:
    """Return the context of a batch (a row of `batches`).

    before: the last batches before it, in order; previous, stream_time: see AnswerContext
    """
    withdrawn = withdrawn_objects(home, up_to=batch["objects_to"])
    withdrawn_before = withdrawn_objects(home, up_to=batch["objects_after"])
    messages: Iterable[DataFile] = ()
    if has_standing_queries(home, batch["requests_to"], is_weighed=True):
        keys = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
        messages = keys.files(list_data_files(home, names.OBJECTS))
    version, before_version = (statistics_in_force(home, at) for at in (batch["requests_to"], previous.requests_to))
    is_erased = bool(before) and count_removals(home) > before[-1]["removals"]
    cache_dir, cache_bytes = cache_place(settings)
    return AnswerContext(
        home=home.path,
        states=states_of_home(home),
        batch_id=batch["batch_id"],
        buckets=home.answer_buckets,
        previous=previous,
        starts={one["batch_id"]: to_micros(one["started_at"]) for one in before},
        stream_time=stream_time,
        objects_to=batch["objects_to"],
        requests_to=batch["requests_to"],
        request_files=group_requests(home, batch["requests_to"]),
        messages=tuple(slices_of(home, messages, names.OBJECTS)),
        segments=list_segments(home, cache_dir, cache_bytes, up_to=batch["requests_to"]),
        withdrawn=withdrawn,
        withdrawn_before=withdrawn_before,
        last_snapshot=last_snapshot(home),
        reevaluate=withdrawn != withdrawn_before or is_erased,
        reweighed=version != before_version,
        cache_dir=cache_dir,
        cache_bytes=cache_bytes,
        removals=batch["removals"],
        topk_version=topk_version_of(home, batch["plan_version"]) if "plan_version" in batch else None,
        conditions=list_conditions(home, cache_dir, cache_bytes, batch["requests_to"]),
    )


def context_after(home: Home, settings: Settings, last: BatchRow) -> AnswerContext:
    """Return the context of an empty batch after a batch that is done."""
    batch = {
        "batch_id": last["batch_id"] + 1,
        "objects_after": last["objects_to"],
        "objects_to": last["objects_to"],
        "requests_to": last["requests_to"],
        "removals": 0,
    }
    previous = read_previous([last])
    return make_answer_context(home, settings, batch, [last], previous, previous.stream_time)


def group_requests(home: Home, requests_to: int) -> tuple[Paths, ...]:
    """Return the data files of `requests` up to a key, in the groups whose arrays the node's cache keeps."""
    files = KeyRange("request_key", -1, requests_to).files(list_data_files(home, names.REQUESTS))
    return group_request_files(files, addresses_and_rows(home, names.REQUESTS, files))


def open_queries(groups: tuple[Paths, ...], cache: tuple[str, int]) -> StandingQueries:
    """Return the subscriptions with memory in groups of files; cache: as `task_context.cache_place` returns it."""
    return StandingQueries(groups, _query_cache(*cache))


def read_previous(before: Sequence[BatchRow]) -> Position:
    """Return the end of the batch before a batch; before: the last batches before it, in order."""
    if not before:
        return Position(0, 0, 0, 0, names.NO_TIME)
    last = before[-1]
    return Position(
        **{name: last[name] for name in ("batch_id", "objects_to", "requests_after", "requests_to")},
        stream_time=names.NO_TIME if last["stream_time"] is None else to_micros(last["stream_time"]),
        started_at=to_micros(last["started_at"]),
    )


def find_stream_time(home: Home, settings: Settings, up_to: int, withdrawn: WithdrawnRows) -> int:
    """Return the greatest ts of the objects up to a key, without withdrawn ones; names.NO_TIME without objects."""
    objects = KeyRange("object_key", -1, up_to)
    files = objects.files(list_data_files(home, names.OBJECTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    times = get_engine(settings, home).run_tasks(tasks, partial(_greatest_ts_of, objects, withdrawn))
    return max(times, default=names.NO_TIME)


def _greatest_ts_of(objects: KeyRange, withdrawn: WithdrawnRows, slices: tuple[Slice, ...]) -> int:
    latest = names.NO_TIME
    for rows in read_slices(slices, ["object_key", "ts"], objects):
        counts = ~withdrawn.contain(rows.column("object_key").to_numpy())
        latest = max(latest, int(micros(rows.column("ts"))[counts].max(initial=names.NO_TIME)))
    return latest
