"""Upkeep of the worker index: small files merged, ended subscriptions dropped."""

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.matching.deletions import Deletions, merge_deletions
from pststream.pipeline.executor import deletions_of, dispatch_index
from pststream.pipeline.index import PIECES, served_by, with_ends, write_rows
from pststream.pipeline.spark_tasks import run_tasks
from pststream.settings import Settings
from pststream.state import control
from pststream.state.data_files import DataFile, commit, data_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import Ledger
from pststream.state.plans import index_version
from pststream.state.session import get_context
from pststream.state.slices import Slice, read_slices

SMALL_BYTES = 8 * 1024 * 1024
NOTHING = -(2**63)


@dataclass(frozen=True)
class Merge:
    """Files of a worker (paths) to be written as few.

    Rows that end at `bound` (microseconds) or before are dropped, and, under a `plan` (home, version), those that the
    worker does not serve.
    """

    root: str
    index_version: int
    worker: int
    paths: tuple[str, ...]
    deletions: Deletions
    bound: int = NOTHING
    plan: tuple[str, int] | None = None


def merge_small_files(home: Home, settings: Settings, index: int, batch_id: int) -> bool:
    """Merge each worker's small files if one has more than `settings.merge_files` of them; whether it did."""
    small = _by_worker(file for file in _files_of(home, index) if file.bytes < SMALL_BYTES)
    if max((len(files) for files in small.values()), default=0) <= settings.merge_files:
        return False
    root, none = home.table(names.WORKER_INDEX), merge_deletions([])
    merges = [
        Merge(root, index, worker, _paths(root, files), none) for worker, files in small.items() if len(files) > 1
    ]
    removed = [file for files in small.values() if len(files) > 1 for file in files]
    _replace(home, settings, merges, removed, f"merge-{index}", batch_id)
    return True


def upkeep(home: Home, settings: Settings, plan_version: int) -> int:
    """Write a plan's index anew: deletions worked in; left out what ended before any object still to come, and what
    migrations have left with workers that no longer serve it.

    Returns the rows dropped, deletions among them. Nothing must be unfinished: a batch's late subscriptions are still
    to meet stored objects, and its deletions to take pairs back.
    """
    horizon = Ledger(home).horizon(dt.timedelta(seconds=settings.lateness_seconds))
    index = index_version(home, plan_version)
    files = _by_worker(_files_of(home, index))
    root = home.table(names.WORKER_INDEX)
    before = sum(file.rows for held in files.values() for file in held)
    deletions = deletions_of(index_files(home, plan_version), settings.cache_dir, settings.cache_bytes)
    bound = NOTHING if horizon is None else control.micros_of(horizon)
    merges = [
        Merge(root, index, worker, _paths(root, held), deletions, bound, (home.path, plan_version))
        for worker, held in files.items()
        if worker != names.EVERY_WORKER
        and (len(held) > 1 or len(deletions[0]) or held[0].low["end_at"] <= bound or index != plan_version)
    ]
    removed = [file for merge in merges for file in files[merge.worker]] + files.get(names.EVERY_WORKER, [])
    kept = before - sum(file.rows for file in removed)
    last = control.last_transaction(home, names.WORKER_INDEX, "upkeep")
    added = _replace(home, settings, merges, removed, "upkeep", last + 1) if removed else []
    return before - kept - sum(file.rows for file in added)


def _replace(
    home: Home, settings: Settings, merges: list[Merge], removed: list[DataFile], application: str, transaction: int
) -> list[DataFile]:
    added = [file for part in run_tasks(get_context(settings), merges, _merge) for file in part]
    commit(home, names.WORKER_INDEX, added, removed, application=application, transaction=transaction)
    return added


def _merge(merge: Merge) -> list[DataFile]:
    return write_rows(merge.root, merge.index_version, merge.worker, _kept(merge))


def _kept(merge: Merge) -> Iterator[pa.RecordBatch]:
    columns = [*PIECES.names, "batch_id"]
    for rows in read_slices([Slice(path, 0, 2**62) for path in merge.paths], columns):
        pieces = with_ends(rows, merge.deletions)
        kept = pieces.column("end_at").to_numpy() > np.int64(merge.bound)
        if merge.plan:
            kept &= served_by(pieces, dispatch_index(*merge.plan), merge.worker)
        yield pieces.filter(pa.array(kept))


def _files_of(home: Home, index: int) -> list[DataFile]:
    return [f for f in data_files(home, names.WORKER_INDEX) if f.partition["index_version"] == index]


def _by_worker(files: Iterable[DataFile]) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.partition["worker"], []).append(file)
    return found


def _paths(root: str, files: list[DataFile]) -> tuple[str, ...]:
    return tuple(f"{root}/{file.path}" for file in files)
