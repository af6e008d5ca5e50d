"""What a Python worker process keeps between tasks: mapped segments, the dispatch index, the filter of live terms."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pststream import names
from pststream.matching.deletions import Deletions, merge_deletions
from pststream.matching.live_filter import LiveFilter
from pststream.matching.portion_size import Portions
from pststream.matching.segment_cache import SegmentCache
from pststream.routing.dispatch import DispatchIndex
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import IndexFile
from pststream.state.plans import Ranking, load_plan, load_ranking, plan_row, retiring_plan


@dataclass(frozen=True)
class TaskContext:
    """What a task is told; small, since it travels with every task.

    plans: versions that serve the index, the oldest first: `plan_version`, and before it the one that it retires.
    """

    home: str
    plan_version: int
    plans: tuple[int, ...]
    index_version: int
    workers: int
    batch_id: int
    files: tuple[IndexFile, ...]
    cache_dir: str
    cache_bytes: int


def make_task_context(home: Home, settings: Settings, version: int, batch_id: int = 0) -> TaskContext:
    """The work of a batch, or of none, under a stored plan; the files are for the caller to add."""
    row = plan_row(home, version)
    retiring = retiring_plan(row)
    plans = (retiring.plan_version, version) if retiring else (version,)
    place = (row["index_version"], row["workers"], batch_id)
    return TaskContext(home.path, version, plans, *place, (), *cache_place(settings))


def cache_place(settings: Settings) -> tuple[str, int]:
    """Folder of a node's cache, empty for the node's own choice, and the bytes that it may hold."""
    # What the driver's own environment says holds for its node; on each other one, what that node's says.
    folder = "" if settings.cache_dir == os.environ.get("PSTSTREAM_CACHE_DIR") else settings.cache_dir
    return folder, settings.cache_bytes


def deletions_of(files: Iterable[IndexFile], folder: str, max_bytes: int) -> Deletions:
    """The deletions among the files of an index."""
    return _deletions(tuple(file.path for file in files if file.worker == names.EVERY_WORKER), folder, max_bytes)


@lru_cache(maxsize=2)
def _deletions(paths: tuple[str, ...], folder: str, max_bytes: int) -> Deletions:
    cache = segment_cache(folder, max_bytes)
    return merge_deletions([cache.deletions(path) for path in paths])


@lru_cache(maxsize=4)
def segment_cache(folder: str, max_bytes: int) -> SegmentCache:
    """The process's cache of segments."""
    return SegmentCache(folder, max_bytes)


@lru_cache(maxsize=8)
def dispatch_index(home: str, plan_version: int) -> DispatchIndex:
    """The dispatch index of a plan."""
    return DispatchIndex(load_plan(Home(home), plan_version))


@lru_cache(maxsize=2)
def ranking(home: str, plan_version: int) -> Ranking:
    """Term frequencies of a plan's sample."""
    return load_ranking(Home(home), plan_version)


@lru_cache(maxsize=8)
def live_filter(home: str, age: int, tag: int) -> LiveFilter:
    """A filter of the live terms of a home's index, for objects of one tag; the caller brings it up to date.

    age: place of the plan among those that serve the index, the oldest first.
    """
    return LiveFilter()


@lru_cache(maxsize=64)
def portions(home: str, worker: int) -> Portions:
    """How many objects a worker matches at a time."""
    return Portions()
