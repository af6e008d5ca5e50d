"""Assign the parts of a new plan to the numbers of workers in the index so that the fewest bytes move.

Source: PS2Stream section V-B does not say how to assign them; SSTD maps partitions to workers by the Hungarian method.
The bytes are those of the stored pieces. The parts that a plan of more workers has left over get new numbers; a plan of
fewer workers gives up the numbers that have least of what it needs.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from pststream.base import names
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, dispatch_index, make_task_context
from pststream.pipeline.index.build_index import workers_by_row
from pststream.pipeline.index.stored_pieces import PIECE_COLUMNS, bytes_of_rows
from pststream.planning.balancing.contract import relabel_workers
from pststream.planning.dispatch import make_dispatch
from pststream.plans.plan import PartitionPlan
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, index_files
from pststream.state.plans import numbers_in_index
from pststream.state.slices import Slice, read_slices, rows_of_tasks, split_into_tasks


def assign_workers(
    home: Home, settings: Settings, version: int, plan: PartitionPlan, progress: Progress
) -> tuple[PartitionPlan, int]:
    """Return the plan with its workers numbered so that the fewest bytes move from the index under plan `version`, and
    these bytes, uncompressed.
    """
    context = make_task_context(home, settings, version)
    files = tuple(file for file in index_files(home, version) if file.worker != names.EVERY_WORKER)
    tasks = split_into_tasks((file.path, file.rows) for file in files)
    counter = TaskCounter(progress, Counted("comparing with the index", "piece", rows_of_tasks(tasks)))
    numbers = np.unique(np.concatenate([numbers_in_index(home, one) for one in context.plans]))
    stored, needed = np.zeros((len(numbers), plan.workers)), 0.0
    measure = partial(_measure, context, files, plan)
    for of_numbers, of_all in get_engine(settings).run_tasks(tasks, measure, counter):
        needed += of_all
        for number, size in of_numbers.items():
            stored[np.searchsorted(numbers, number)] += size
    kept, part = linear_sum_assignment(stored, maximize=True)
    given = np.full(plan.workers, -1)
    given[part] = numbers[kept]
    unused = np.setdiff1d(np.arange(len(numbers) + plan.workers), numbers)
    given[given < 0] = unused[: np.count_nonzero(given < 0)]
    ascending = np.sort(given)
    is_own = np.array_equal(ascending, np.arange(plan.workers))
    plan = relabel_workers(plan, np.searchsorted(ascending, given))
    least = round(needed - float(stored[kept, part].sum()))
    return replace(plan, index_workers=ascending[: 0 if is_own else None]), least


def _measure(
    context: TaskContext, files: tuple[IndexFile, ...], plan: PartitionPlan, slices: tuple[Slice, ...]
) -> tuple[dict[int, np.ndarray], float]:
    """Return the bytes that each number in the index has of what each worker of the plan needs (float64[workers] by
    number), and the bytes that all of them need.
    """
    home, after = Home(context.home), make_dispatch(plan)
    stored, needed = dict[int, np.ndarray](), 0.0
    for part in slices:
        file = next(file for file in files if file.path == part.path)
        number = numbers_in_index(home, file.plan_version)[file.worker]
        for rows in read_slices([part], PIECE_COLUMNS):
            offsets, workers = dispatch_index(context.home, file.plan_version).workers_of_rows(rows)
            row = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
            is_served = np.bincount(row[workers == file.worker], minlength=rows.num_rows) > 0
            is_first = workers[offsets[:-1]] == file.worker  # each piece counts once in what is needed
            row, target = workers_by_row(rows, after)
            size = bytes_of_rows(rows)[row]
            stored[number] = stored.get(number, 0.0) + np.bincount(target, size * is_served[row], plan.workers)
            needed += float((size * is_first[row]).sum())
    return stored, needed
