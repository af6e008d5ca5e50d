"""Migration: subscriptions to their new workers, in the index that the plan before is still served from.

The rows that a new owner lacks are added first. They are harmless under the plan before: an object probes a worker only
for the (cell, term) pairs that the plan gives it, and of these the new rows have none. Then the row in `plans`
switches. Rows that an old owner no longer needs stay until `maintain` drops them; they are harmless for the same
reason. So a migration may be killed anywhere and made again: what is there already is not added twice.

While two plans are active the same holds of each of them, as each is probed only for the subscriptions that it serves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.domain.pieces import IDENTITY, first_clauses, number_pieces
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_moves import changed_cells
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import TaskContext, dispatch_index
from pststream.pipeline.index.build_index import PIECES, SIDES, write_rows
from pststream.routing.dispatch import DispatchIndex
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, commit
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, index_files
from pststream.state.plans import load_plan
from pststream.state.slices import BATCH_ROWS, Slice, read_slices, tasks_of

COLUMNS = [*PIECES.names, "batch_id"]


@dataclass(frozen=True)
class Taken:
    """What a worker takes over: rows, and the files with those of them that it did not hold."""

    rows: int
    files: list[DataFile]


def migrate(
    home: Home,
    settings: Settings,
    work: TaskContext,
    plan: PartitionPlan,
    origins: set[int],
    after_key: int,
    dry_run: bool,
) -> tuple[int, int]:
    """Add to the index of `work` what the workers of `plan` lack of the subscriptions with a key above `after_key`.

    `work`: of the plan before; origins: the workers that serve less than before, whose files hold all that others lack;
    so moving cells of one worker reads that one's files, and retiring a plan the files of that plan. Returns the rows
    that workers take over, and about how many bytes these are. A dry run counts the same rows and writes none.
    """
    held = [file for file in index_files(home, work.plan_version) if file.worker != names.EVERY_WORKER]
    changing = {version for version in work.plans if len(changed_cells(load_plan(home, version), plan))}
    leaving = [
        file for file in held
        if file.worker in origins and file.plan_version in changing and file.max_key > after_key
    ]  # fmt: skip
    taken = get_engine(settings).run_shuffled(
        tasks_of((file.path, file.rows) for file in leaving),
        partial(_leaving, work, tuple(leaving), plan),
        work.workers,
        partial(_arrive, home.table(names.WORKER_INDEX), work, tuple(held), dry_run),
    )
    files = [file for part in taken for file in part.files]
    if files:
        last = ledger_tables.last_transaction(home, names.WORKER_INDEX, "migrate")
        commit(home, names.WORKER_INDEX, files, application="migrate", transaction=last + 1)
    rows = sum(part.rows for part in taken)
    row_bytes = sum(file.bytes for file in held) / max(sum(file.rows for file in held), 1)
    return rows, round(rows * row_bytes)


def _leaving(
    work: TaskContext, held: tuple[IndexFile, ...], plan: PartitionPlan, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    """Stored pieces to each worker that is to hold them under the new plan and not under the one before."""
    after = DispatchIndex(plan)
    for part in slices:
        before = dispatch_index(work.home, next(file.plan_version for file in held if file.path == part.path))
        for rows in read_slices([part], COLUMNS):
            boxes = np.column_stack([rows.column(side).to_numpy() for side in SIDES])
            clauses = first_clauses(rows.column("clauses"))
            old, new = (_pairs(index.workers_of_pieces(boxes, *clauses), work.workers) for index in (before, after))
            added = np.setdiff1d(new, old, assume_unique=True)
            place, worker = np.divmod(added, work.workers)
            for target in np.unique(worker).tolist():
                yield target, 0, rows.take(pa.array(place[worker == target]))


def _pairs(served: tuple[np.ndarray, np.ndarray], workers: int) -> np.ndarray:
    """(piece, worker) as one number: int64, ascending."""
    offsets, worker = served
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) * np.int64(workers) + worker


def _arrive(
    root: str,
    work: TaskContext,
    held: tuple[IndexFile, ...],
    dry_run: bool,
    worker: int,
    received: ReceivedRows,
) -> Taken:
    """Write what a worker is sent: each piece once, though several workers may have held it."""
    sent = [rows for _, rows in received]
    if not sent:
        return Taken(0, [])
    rows = pa.concat_batches(sent)
    _, first = np.unique(number_pieces(rows)[0], return_index=True)
    rows = rows.take(pa.array(np.sort(first)))
    if dry_run:
        return Taken(rows.num_rows, [])
    mine = tuple(Slice(file.path, 0, 2**62) for file in held if file.worker == worker)
    keys = rows.column("subscription_key").unique()
    stored = [
        part.filter(pc.is_in(part.column("subscription_key"), keys)) for part in read_slices(mine, list(IDENTITY))
    ]
    wanted, *present = number_pieces(rows.select(IDENTITY), *stored)
    added = rows.filter(pa.array(~np.isin(wanted, np.concatenate([wanted[:0], *present]))))
    parts = (added.slice(start, BATCH_ROWS) for start in range(0, added.num_rows, BATCH_ROWS))
    return Taken(rows.num_rows, write_rows(root, work.index_version, worker, parts))
