"""Copy the index rows of moving subscriptions to their new workers, before the new plan is put in force.

The old and the new plan are served from the same index. First the rows that a new worker lacks are added. They change
no match under the old plan: an object probes a worker only for the (raster cell, term) pairs that the plan assigns to
the worker, and the added rows have no such pair; under a plan that shares by subscription a worker emits only the pairs
of the subscriptions that it owns. Then balance.py writes the row in `plans`, which puts the new plan in
force. Rows that an old worker no longer needs change no match for the same reason, and stay until `maintain` drops
them. So a migration may be killed anywhere and run again: stored rows are not added twice.

While two plans are active, the same holds for each plan, since each is probed only for its own subscriptions.

At last the segments that the next batch would otherwise build before it routes are built into the node's cache. Nothing
depends on them: a task builds what its node lacks, after a kill, after an eviction and on other nodes of a cluster.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.contract import SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, dispatch_index, segment_cache
from pststream.pipeline.index.build_index import PIECES
from pststream.pipeline.index.stored_pieces import WrittenPieces, write_missing
from pststream.planning.dispatch import make_dispatch
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import changed_cells
from pststream.settings import Settings
from pststream.state.data_files import commit_files
from pststream.state.home import Home
from pststream.state.index_files import (
    IndexFile,
    SegmentFiles,
    index_files,
    index_files_to_come,
    migration_application,
    segment_files,
)
from pststream.state.plans import Retiring, load_plan
from pststream.state.slices import Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.tables.delta_tables import last_transaction

COLUMNS = [*PIECES.names, "batch_id"]


def migrate(
    home: Home,
    settings: Settings,
    context: TaskContext,
    plan: PartitionPlan,
    origins: set[int],
    retiring: Retiring | None,
    dry_run: bool,
    progress: Progress,
) -> tuple[int, int]:
    """Add to the index the pieces that the workers of `plan` lack, and build the segments that are new with them.

    context   context of the plan before the adjustment
    origins   the workers that serve less than before: their files contain every piece that other workers lack. So a
              move of cells reads the files of the workers that lose cells, and a retirement those of the retiring plan.
    retiring  the plan that continues to serve older subscriptions; their pieces stay

    Returns the number of pieces that workers take over, and their approximate size in bytes. A dry run counts the same
    pieces and writes none.
    """
    after_key = retiring.to if retiring else -1
    files = [file for file in index_files(home, context.plan_version) if file.worker != names.EVERY_WORKER]
    changing = {version for version in context.plans if len(changed_cells(load_plan(home, version), plan))}
    leaving = [
        file for file in files
        if file.worker in origins and file.plan_version in changing and file.max_key > after_key
    ]  # fmt: skip
    # Before the shuffle `_send_pieces` runs on each group of slices of the leaving files; after it `write_missing`
    # runs on each worker's pieces.
    write = partial(write_missing, home.table(names.WORKER_INDEX), context, tuple(files), dry_run)
    tasks = split_into_tasks((file.path, file.rows) for file in leaving)
    counter = TaskCounter(
        progress,
        Counted("selecting pieces to move", "piece", rows_of_tasks(tasks)),
        Counted("counting moved pieces" if dry_run else "writing moved pieces", "worker", [1] * context.workers),
    )
    migrated: list[WrittenPieces] = get_engine(settings).run_shuffled(
        tasks, partial(_send_pieces, context, tuple(leaving), plan), [Stage(context.workers, write)], counter
    )
    added = [file for part in migrated for file in part.files]
    if added:
        # `check` reads from these transactions that workers may have pieces that the plan in force does not assign to
        # them: pieces from before a migration, and pieces of an adjustment that was killed before its plan
        # was in force.
        application = migration_application(context.index_version)
        last = last_transaction(home.table(names.WORKER_INDEX), application)
        commit_files(home, names.WORKER_INDEX, added, application=application, transaction=last + 1)
    if not dry_run:
        to_come = index_files_to_come(home, context.index_version, context.plan_version + 1, retiring)
        _build_new_segments(settings, context, segment_files(files), segment_files(to_come), progress)
    rows = sum(part.rows for part in migrated)
    row_bytes = sum(file.bytes for file in files) / max(sum(file.rows for file in files), 1)
    return rows, round(rows * row_bytes)


def _build_new_segments(
    settings: Settings,
    context: TaskContext,
    before: Iterable[SegmentFiles],
    after: Iterable[SegmentFiles],
    progress: Progress,
) -> None:
    """Build the segments that the index has after the adjustment and did not have before it."""
    known = {segment.paths for segment in before}
    new = [segment for segment in after if segment.paths not in known]
    counter = TaskCounter(progress, Counted("building segments", "piece", [segment.rows for segment in new]))
    get_engine(settings).run_tasks(new, partial(_build_segment, context), counter)


def _build_segment(context: TaskContext, segment: SegmentFiles) -> None:
    segment_cache(context.cache_dir, context.cache_bytes).segment(segment.paths)


def _send_pieces(
    context: TaskContext, leaving: tuple[IndexFile, ...], plan: PartitionPlan, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    """Send each stored piece to the workers that serve it under the new plan and not under the plan before."""
    after = make_dispatch(plan)
    for part in slices:
        version = next(file.plan_version for file in leaving if file.path == part.path)
        before = dispatch_index(context.home, version)
        for rows in read_slices([part], COLUMNS):
            old, new = (_pairs(index.workers_of_rows(rows), context.workers) for index in (before, after))
            added = np.setdiff1d(new, old, assume_unique=True)
            piece, worker = np.divmod(added, context.workers)
            for target in distinct_values(worker).tolist():
                yield target, 0, rows.take(pa.array(piece[worker == target]))


def _pairs(workers_of_pieces: tuple[np.ndarray, np.ndarray], workers: int) -> np.ndarray:
    """Return each (piece, worker) pair as one number, `piece * workers + worker`: int64, ascending."""
    offsets, worker = workers_of_pieces
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) * np.int64(workers) + worker
