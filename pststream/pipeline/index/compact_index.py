"""Upkeep of the worker index: small files merged, ended subscriptions dropped."""

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.ledgers.log_end import Ledger
from pststream.matching.deletions import Deletions, merge_deletions
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import deletions_of, dispatch_index
from pststream.pipeline.index.build_index import PIECES, served_by, with_ends, write_rows
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, commit
from pststream.state.home import Home
from pststream.state.index_files import SMALL_BYTES, ServedFile, index_files, served_files
from pststream.state.plans import index_version
from pststream.state.slices import Slice, read_slices

NOTHING = -(2**63)


@dataclass(frozen=True)
class Merge:
    """Files of a worker (paths) to be written as few; all of them served under one plan.

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


def merge_small_files(home: Home, settings: Settings, plan_version: int, batch_id: int) -> bool:
    """Merge small files of the index, if a worker has more than `settings.merge_files` under a plan; whether it did."""
    small = _grouped(file for file in served_files(home, plan_version) if file.data.bytes < SMALL_BYTES)
    if max((len(files) for files in small.values()), default=0) <= settings.merge_files:
        return False
    root, index, none = home.table(names.WORKER_INDEX), index_version(home, plan_version), merge_deletions([])
    merges = [
        Merge(root, index, worker, _paths(root, files), none) for (worker, _), files in small.items() if len(files) > 1
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
    groups = _grouped(served_files(home, plan_version))
    root = home.table(names.WORKER_INDEX)
    before = sum(file.rows for held in groups.values() for file in held)
    deletions = deletions_of(index_files(home, plan_version), settings.cache_dir, settings.cache_bytes)
    bound = NOTHING if horizon is None else ledger_tables.micros_of(horizon)
    merges = {
        (worker, plan): Merge(root, index, worker, _paths(root, held), deletions, bound, (home.path, plan))
        for (worker, plan), held in groups.items()
        if worker != names.EVERY_WORKER
        and (len(held) > 1 or len(deletions[0]) or held[0].low["end_at"] <= bound or index != plan_version)
    }
    gone = [key for key in groups if key in merges or key[0] == names.EVERY_WORKER]
    removed = [file for key in gone for file in groups[key]]
    kept = before - sum(file.rows for file in removed)
    last = ledger_tables.last_transaction(home, names.WORKER_INDEX, "upkeep")
    added = _replace(home, settings, list(merges.values()), removed, "upkeep", last + 1) if removed else []
    return before - kept - sum(file.rows for file in added)


def _replace(
    home: Home, settings: Settings, merges: list[Merge], removed: list[DataFile], application: str, transaction: int
) -> list[DataFile]:
    added = [file for part in get_engine(settings).run_tasks(merges, _merge) for file in part]
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


def _grouped(files: Iterable[ServedFile]) -> dict[tuple[int, int], list[DataFile]]:
    """By worker and plan: what the two plans of an index serve stays in files of its own."""
    found: dict[tuple[int, int], list[DataFile]] = {}
    for file in files:
        found.setdefault((file.worker, file.plan_version), []).append(file.data)
    return found


def _paths(root: str, files: list[DataFile]) -> tuple[str, ...]:
    return tuple(f"{root}/{file.path}" for file in files)
