"""Rewrite the worker index as fewer files: small files in a batch, all files without ended rows in `maintain`."""

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
from pststream.pipeline.index.build_index import PIECES, apply_deletions, is_served_by, write_index_rows
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.state.index_files import SMALL_BYTES, FileOfPlan, files_of_plan, index_files
from pststream.state.plans import index_version
from pststream.state.slices import Slice, read_slices
from pststream.utc_times import to_micros

NO_BOUND = -(2**63)


@dataclass(frozen=True)
class Compaction:
    """Files of a worker (paths) to rewrite as few files; one plan serves all of them.

    Rows that end at `bound` (microseconds) or before are dropped. With a `plan` (home, version), rows that the worker
    does not serve are dropped too.
    """

    root: str
    index_version: int
    worker: int
    paths: tuple[str, ...]
    deletions: Deletions
    bound: int = NO_BOUND
    plan: tuple[str, int] | None = None


def compact_small_files(home: Home, settings: Settings, plan_version: int, batch_id: int) -> bool:
    """Compact small files if a worker has more than `settings.merge_files` under a plan; return whether it did."""
    small = _group_files(file for file in files_of_plan(home, plan_version) if file.data.bytes < SMALL_BYTES)
    if max((len(files) for files in small.values()), default=0) <= settings.merge_files:
        return False
    root, index, none = home.table(names.WORKER_INDEX), index_version(home, plan_version), merge_deletions([])
    compactions = [
        Compaction(root, index, worker, _paths(root, files), none)
        for (worker, _), files in small.items()
        if len(files) > 1
    ]
    removed = [file for files in small.values() if len(files) > 1 for file in files]
    _replace(home, settings, compactions, removed, f"merge-{index}", batch_id)
    return True


def compact_index(home: Home, settings: Settings, plan_version: int) -> int:
    """Rewrite a plan's index: apply deletions, and drop rows that no object still to be matched can match.

    These are rows that ended before all such objects, and rows that migrations have left at workers that no longer
    serve them. Returns the number of rows dropped, deletions included. Call it only while no batch is unfinished: the
    late subscriptions of a batch must still meet stored objects, and its deletions must still retract matches.
    """
    horizon = Ledger(home).horizon(dt.timedelta(seconds=settings.lateness_seconds))
    index = index_version(home, plan_version)
    groups = _group_files(files_of_plan(home, plan_version))
    root = home.table(names.WORKER_INDEX)
    before = sum(file.rows for files in groups.values() for file in files)
    deletions = deletions_of(index_files(home, plan_version), settings.cache_dir, settings.cache_bytes)
    bound = NO_BOUND if horizon is None else to_micros(horizon)
    compactions = {
        (worker, plan): Compaction(root, index, worker, _paths(root, files), deletions, bound, (home.path, plan))
        for (worker, plan), files in groups.items()
        if worker != names.EVERY_WORKER
        and (len(files) > 1 or len(deletions[0]) or files[0].low["end_at"] <= bound or index != plan_version)
    }
    replaced = [key for key in groups if key in compactions or key[0] == names.EVERY_WORKER]
    removed = [file for key in replaced for file in groups[key]]
    kept = before - sum(file.rows for file in removed)
    last = ledger_tables.last_transaction(home, names.WORKER_INDEX, "upkeep")
    added = _replace(home, settings, list(compactions.values()), removed, "upkeep", last + 1) if removed else []
    return before - kept - sum(file.rows for file in added)


def _replace(
    home: Home,
    settings: Settings,
    compactions: list[Compaction],
    removed: list[DataFile],
    application: str,
    transaction: int,
) -> list[DataFile]:
    added = [file for part in get_engine(settings).run_tasks(compactions, _compact_files) for file in part]
    commit_files(home, names.WORKER_INDEX, added, removed, application=application, transaction=transaction)
    return added


def _compact_files(compaction: Compaction) -> list[DataFile]:
    return write_index_rows(compaction.root, compaction.index_version, compaction.worker, _kept_rows(compaction))


def _kept_rows(compaction: Compaction) -> Iterator[pa.RecordBatch]:
    columns = [*PIECES.names, "batch_id"]
    for rows in read_slices([Slice(path, 0, 2**62) for path in compaction.paths], columns):
        pieces = apply_deletions(rows, compaction.deletions)
        kept = pieces.column("end_at").to_numpy() > np.int64(compaction.bound)
        if compaction.plan:
            kept &= is_served_by(pieces, dispatch_index(*compaction.plan), compaction.worker)
        yield pieces.filter(pa.array(kept))


def _group_files(files: Iterable[FileOfPlan]) -> dict[tuple[int, int], list[DataFile]]:
    """Group files by worker and plan: the files of the two plans of an index stay apart."""
    groups: dict[tuple[int, int], list[DataFile]] = {}
    for file in files:
        groups.setdefault((file.worker, file.plan_version), []).append(file.data)
    return groups


def _paths(root: str, files: list[DataFile]) -> tuple[str, ...]:
    return tuple(f"{root}/{file.path}" for file in files)
