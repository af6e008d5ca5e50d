"""Define what the driver sends with each task (home, plan, index), and cache what a process reuses across tasks.

A process caches mapped segments of the index and of objects, deletions, dispatch indexes, term frequencies, filters of
live terms and chunk sizes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pststream.base import names
from pststream.matching.matcher import ChunkSize, LiveTermFilter
from pststream.matching.segments import Deletions, SegmentCache, merge_deletions
from pststream.planning.dispatch import DispatchIndex, make_dispatch
from pststream.search.object_cache import ObjectCache
from pststream.search.stored_conditions import ConditionLog, list_conditions
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import NO_FILES, IndexFiles
from pststream.state.plans import (
    TermFrequencies,
    load_plan,
    load_term_frequencies,
    numbers_in_index,
    read_plan_row,
    retiring_plan,
)


@dataclass(frozen=True)
class TaskContext:
    """The home, plan and index that a task works with.

    plans          versions that serve the index, the oldest first: the retiring plan, if any, then `plan_version`
    workers        of the plan with the most of them
    batch_id       0 outside of a batch
    files          data files of the index
    cache_dir      folder of the node's cache, empty for the node's own choice
    index_numbers  number under which the index has the rows of each worker of the plan that rows are written for
    conditions     of the subscriptions
    """

    home: str
    plan_version: int
    plans: tuple[int, ...]
    index_version: int
    workers: int
    batch_id: int
    files: IndexFiles
    cache_dir: str
    cache_bytes: int
    index_numbers: Sequence[int] = ()
    conditions: ConditionLog = field(default_factory=ConditionLog)

    def index_number(self, worker: int) -> int:
        """Return the number under which the index has the rows of a worker; one without rows may have none."""
        return self.index_numbers[worker] if worker < len(self.index_numbers) else worker


def make_task_context(home: Home, settings: Settings, version: int, batch_id: int = 0) -> TaskContext:
    """Return the context for a stored plan, without index files: the caller adds those that its tasks need."""
    row = read_plan_row(home, version)
    retiring = retiring_plan(row)
    plans = (retiring.plan_version, version) if retiring else (version,)
    workers = max(len(numbers_in_index(home, plan)) for plan in plans)
    return TaskContext(
        home.path, version, plans, row["index_version"], workers, batch_id, NO_FILES, *cache_place(settings),
        numbers_in_index(home, version), list_conditions(home, *cache_place(settings)),
    )  # fmt: skip


def cache_place(settings: Settings) -> tuple[str, int]:
    """Return the folder of the node's cache, empty for the node's own choice, and its greatest size in bytes."""
    # The driver's environment holds for its own node; on another node that node's environment does.
    folder = "" if settings.cache_dir == os.environ.get("PSTSTREAM_CACHE_DIR") else settings.cache_dir
    return folder, settings.cache_bytes


def deletions_of(files: IndexFiles, folder: str, max_bytes: int) -> Deletions:
    """Return the deletions among the files of an index; folder, max_bytes: as `cache_place` returns them."""
    return _deletions(tuple(file.path for file in files.of_worker(names.EVERY_WORKER)), folder, max_bytes)


@lru_cache(maxsize=2)
def _deletions(paths: tuple[str, ...], folder: str, max_bytes: int) -> Deletions:
    cache = segment_cache(folder, max_bytes)
    return merge_deletions([cache.deletions(path) for path in paths])


@lru_cache(maxsize=4)
def segment_cache(folder: str, max_bytes: int) -> SegmentCache:
    """Return the process's cache of segments; folder, max_bytes: as `cache_place` returns them."""
    return SegmentCache(folder, max_bytes)


@lru_cache(maxsize=4)
def object_cache(folder: str, max_bytes: int) -> ObjectCache:
    """Return the process's cache of object segments; folder, max_bytes: as `cache_place` returns them."""
    return ObjectCache(folder, max_bytes)


@lru_cache(maxsize=8)
def dispatch_index(home: str, plan_version: int) -> DispatchIndex:
    """Return the dispatch index of a plan."""
    return make_dispatch(load_plan(Home(home), plan_version))


@lru_cache(maxsize=2)
def term_frequencies(home: str, plan_version: int) -> TermFrequencies:
    """Return the term frequencies of a plan's sample."""
    return load_term_frequencies(Home(home), plan_version)


@lru_cache(maxsize=8)
def live_term_filters(home: str, plan_position: int, tag: int, filters: int) -> tuple[LiveTermFilter, ...]:
    """Return the process's filters of live terms for objects of one tag; the caller updates them to the index.

    plan_position: position of the plan in `TaskContext.plans`, so that a filter lives on when a new plan comes
    filters: their number, `DispatchIndex.filters`
    """
    return tuple(LiveTermFilter() for _ in range(filters))


@lru_cache(maxsize=64)
def chunk_size(home: str, worker: int) -> ChunkSize:
    """Return the number of objects that a worker matches at a time, which adapts from slice to slice."""
    return ChunkSize()
