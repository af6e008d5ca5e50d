"""Measure the bytes of the arrays that dispatchers and workers hold for an index (PS2Stream, figures 9 and 10)."""

from dataclasses import dataclass

import numpy as np

from pststream.base import names
from pststream.engine.task_context import segment_cache
from pststream.matching.live_term_filter import LiveTermFilter
from pststream.planning.dispatch import make_dispatch
from pststream.plans.plan import PartitionPlan
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import index_files, segment_files


@dataclass(frozen=True)
class IndexMemory:
    """Bytes of the index under a plan.

    dispatcher  the arrays of the plan, and the Bloom filter of live terms (the map H2 of the paper)
    workers     float64[workers]: the segments of each worker
    """

    dispatcher: int
    workers: np.ndarray


def measure_index_memory(home: Home, settings: Settings, plan: PartitionPlan, version: int) -> IndexMemory:
    """Return the bytes of the index of a plan version; the segments are mapped, and built where they are not yet."""
    segments = segment_files(file for file in index_files(home, version) if file.worker != names.EVERY_WORKER)
    cache = segment_cache(settings.cache_dir, settings.cache_bytes)
    workers = np.zeros(plan.workers)
    for segment in segments:
        workers[segment.worker] += cache.segment(segment.paths).nbytes
    live_terms = LiveTermFilter()
    live_terms.update(frozenset(segment.paths for segment in segments), cache)
    return IndexMemory(make_dispatch(plan).nbytes + live_terms.arrays().words.nbytes, workers)
