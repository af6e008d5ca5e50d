"""Find the pairs of the objects that were routed to one worker and the subscriptions of its segments."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import csr, micros
from pststream.engine.task_context import TaskContext, deletions_of, dispatch_index, segment_cache
from pststream.matching.every_object import add_every_object, posts_every_object
from pststream.matching.matcher import MatchedPairs, SegmentProbe, make_probe, match_objects, merge_pairs
from pststream.matching.object_batch import sort_objects
from pststream.matching.segment_cache import SegmentCache
from pststream.matching.segments import Segment
from pststream.planning.dispatch import DispatchIndex
from pststream.state.index_files import segment_files


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
    """Searches the segments of one worker, under all plans that serve the index, and counts the work by unit."""

    def __init__(self, context: TaskContext, worker: int) -> None:
        cache = segment_cache(context.cache_dir, context.cache_bytes)
        self.worker = worker
        self._served = [_map_segments(context, version, worker, cache) for version in context.plans]
        self._adds_term = posts_every_object(one for served in self._served for _, one in served.segments)
        self._deletions = deletions_of(context.files, context.cache_dir, context.cache_bytes)

    @property
    def pieces(self) -> int:
        """The number of pieces in the segments."""
        return sum(segment.pieces for served in self._served for _, segment in served.segments)

    @property
    def has_candidates(self) -> bool:
        """Whether pairs may be candidates of subscriptions with memory."""
        return any(segment.has_candidates for served in self._served for _, segment in served.segments)

    @property
    def counts(self) -> list[UnitCounts]:
        """The counts of all searches so far, under each plan."""
        return [served.counts for served in self._served]

    def find_pairs(self, objects: pa.RecordBatch, after_key: int) -> FoundPairs:
        """Find the subscriptions with keys above `after_key` that each object (ts, lon, lat, terms) matches.

        Raises TooManyPairs before anything is counted.
        """
        lon, lat, ts = objects.column("lon").to_numpy(), objects.column("lat").to_numpy(), micros(objects.column("ts"))
        offsets, terms = csr(objects.column("terms"))
        if self._adds_term:
            offsets, terms = add_every_object(offsets, terms)
        pairs_of, objects_of = list[MatchedPairs](), list[np.ndarray]()
        for served in self._served:
            units, counts = served.dispatch.units_of_objects(lon, lat, offsets, terms, self.worker)
            batch = sort_objects(lon, lat, ts, offsets, terms, units)
            pairs_of.append(match_objects(batch, self._probes(served, after_key), served.dispatch.plan.units))
            objects_of.append(counts)
        for served, counts, pairs in zip(self._served, objects_of, pairs_of):
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


def _map_segments(context: TaskContext, version: int, worker: int, cache: SegmentCache) -> _ServedPlan:
    """Map the segments that a worker serves under a plan."""
    files = [s for s in segment_files(context.files) if s.worker == worker and s.plan_version == version]
    dispatch = dispatch_index(context.home, version)
    counts = UnitCounts(version, *(np.zeros(dispatch.plan.units, np.int64) for _ in range(3)))
    return _ServedPlan(dispatch, [(s.max_key, cache.segment(s.paths)) for s in files], counts)
