"""PS2Stream's balancers GR, DP, SI and RA: move cells, terms or whole units to the least loaded worker."""

from dataclasses import replace

import numpy as np

from pststream.planning.balancing.cell_selection import select_cells
from pststream.planning.balancing.contract import BalancingTask, loads_after, measured_loads, movable_load, share_out
from pststream.planning.balancing.local_adjustment import LOWER, Adjustment, adjust_locally
from pststream.planning.balancing.reallocate import list_moves
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import ObjectPlan
from pststream.plans.plan_moves import Move


def move_units(task: BalancingTask) -> Adjustment:
    """Move units until the workers are balanced or no move lowers the greater load of the two.

    Source: PS2Stream, section V-A, phase II, with units in place of cells: objects of a raster cell belong to several
    units, so cells do not move. For the same reason there is no phase I.
    """
    before = measured_loads(task)
    seconds = share_out(movable_load(task, before), task.plan.unit_worker, before.unit_load)
    unit_worker, moves, reasons = task.plan.unit_worker, list[Move](), list[str]()
    for _ in range(2 * task.plan.workers):
        load = np.bincount(unit_worker, seconds, task.plan.workers) + task.retiring_load
        if imbalance_of(load) <= task.target:
            break
        moved = _move_some(task, unit_worker, seconds, before.unit_subscriptions, load)
        if (np.bincount(moved, seconds, task.plan.workers) + task.retiring_load).max() >= load.max() * LOWER:
            break
        moves += list_moves(replace(task.plan, unit_worker=unit_worker), moved)
        reasons += [task.method] * (len(moves) - len(reasons))
        unit_worker = moved
    plan = replace(task.plan, unit_worker=unit_worker)
    load = np.bincount(unit_worker, seconds, plan.workers)
    return Adjustment(plan, moves, reasons, before, loads_after(task, plan, load) if moves else before)


def _move_some(
    task: BalancingTask, unit_worker: np.ndarray, seconds: np.ndarray, subscriptions: np.ndarray, load: np.ndarray
) -> np.ndarray:
    """Return the worker of each unit after a move of about half the difference of two workers: int32[units]."""
    origin, target = int(load.argmax()), int(load.argmin())
    difference = float(load[origin] - load[target])
    small = np.flatnonzero((unit_worker == origin) & (seconds < difference * LOWER))
    wanted = min(difference / 2, float(seconds[small].sum()) * (1 - 1e-9))
    sizes = subscriptions[small].astype(np.int64)
    moved = unit_worker.copy()
    moved[small[select_cells(task.method, seconds[small], sizes, wanted, task.seed)]] = target
    return moved


def adjust(task: BalancingTask) -> Adjustment:
    """Return the moves of `local_adjustment.adjust_locally`; of a plan that shares by object, those of `move_units`."""
    if isinstance(task.plan, ObjectPlan):
        return move_units(task)
    return adjust_locally(task.sample, task.plan, task.cost, task.method, task.target, task.seed, task.fixed_load)
