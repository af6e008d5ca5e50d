"""SSTD's balancers PM, FM and FG, one or one after another: reallocate units by the differencing method.

PM reallocates the units of two workers, FM those of all, and FG those of an adjusted tree (`adjust_tree.py`).

Source: SSTD, sections 5.2 and 5.3.
"""

from dataclasses import replace

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.planning.balancing.adjust_tree import adjust_tree, require_tree
from pststream.planning.balancing.contract import BalancingTask, loads_after, measured_loads, movable_load, share_out
from pststream.planning.balancing.local_adjustment import LOWER, Adjustment
from pststream.planning.balancing.worker_mapping import map_workers
from pststream.planning.papers.karmarkar_karp import divide_evenly
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import Move, changed_cells


def adjust(task: BalancingTask) -> Adjustment:
    """Reallocate units between workers by one or more methods, of which a later one is used if those before it do not
    balance; method: `pm`, `fm`, `fg`, `pm_fm` or `pm_fm_fg`.

    Raises UsageError for FG of a plan without a tree.

    Departures: a unit of the plan takes the place of a leaf, so the units of a leaf by text move one by one. The load
    of a unit is that of the calibrated model, not of Equation 2, scaled so that the units of a worker have its measured
    seconds. A reallocation that would not lower the greatest load is not made. The imbalance that counts as balanced is
    the home's setting, not 6. Load under a retiring plan stays where it is.
    """
    methods = task.method.split("_")
    if "fg" in methods:
        require_tree(task.plan)
    before = measured_loads(task)
    seconds = share_out(movable_load(task, before), task.plan.unit_worker, before.unit_load)
    plan, moves, reasons = task.plan, list[Move](), list[str]()
    for method in methods:
        load = np.bincount(plan.unit_worker, seconds, plan.workers) + task.retiring_load
        if imbalance_of(load) <= task.target:
            break
        adjusted, of_units, made = _reallocate(task, method, plan, seconds, before.unit_subscriptions)
        after = np.bincount(adjusted.unit_worker, of_units, plan.workers) + task.retiring_load
        if after.max() >= load.max() * LOWER:
            continue
        plan, seconds = adjusted, of_units
        moves, reasons = moves + made, reasons + [method] * len(made)
    load = np.bincount(plan.unit_worker, seconds, plan.workers)
    return Adjustment(plan, moves, reasons, before, loads_after(task, plan, load) if moves else before)


def _reallocate(
    task: BalancingTask, method: str, plan: PartitionPlan, seconds: np.ndarray, subscriptions: np.ndarray
) -> tuple[PartitionPlan, np.ndarray, list[Move]]:
    """Return the plan after one method, the seconds of its units, and what changes hands.

    seconds, subscriptions  float64[units] of `plan`, which is that of the task after earlier methods
    """
    if method == "fg":
        adjusted, of_units = adjust_tree(task, seconds)
        return adjusted, of_units, [Move(-1, -1, changed_cells(task.plan, adjusted))]
    load = np.bincount(plan.unit_worker, seconds, plan.workers) + task.retiring_load
    workers = np.array([load.argmax(), load.argmin()]) if method == "pm" else np.arange(plan.workers)
    unit_worker = reallocate_units(plan.unit_worker, seconds, subscriptions, workers)
    return replace(plan, unit_worker=unit_worker), seconds, list_moves(plan, unit_worker)


def reallocate_units(
    unit_worker: np.ndarray, loads: np.ndarray, subscriptions: np.ndarray, workers: np.ndarray
) -> np.ndarray:
    """Divide the units of some workers among them again, evenly, with the fewest subscriptions moved.

    unit_worker           int32[units]
    loads, subscriptions  float64[units]
    workers               int64[m], distinct
    Returns the new worker of each unit: int32[units].
    """
    index = np.full(int(max(unit_worker.max(), workers.max())) + 1, -1)
    index[workers] = np.arange(len(workers))
    units = np.flatnonzero(index[unit_worker] >= 0)
    part = divide_evenly(loads[units], len(workers))
    stays = np.zeros((len(workers), len(workers)))
    np.add.at(stays, (index[unit_worker[units]], part), subscriptions[units])
    moved = unit_worker.copy()
    moved[units] = workers[map_workers(stays)][part]
    return moved


def list_moves(plan: PartitionPlan, unit_worker: np.ndarray) -> list[Move]:
    """List what changes hands: for each pair of workers the cells of leaves served whole, and those of leaves by text.

    The second kind names the terms that the units list; a unit of the terms that no unit lists has none. A unit that
    has a part of the objects of its leaf counts with the cells of the leaf.
    """
    leaf = plan.leaf_of_units()
    whole = np.ones(plan.units, bool)
    whole[plan.term_unit] = whole[plan.spread_unit] = False
    pairs = np.column_stack([plan.unit_worker, unit_worker, ~whole]).astype(np.int64)
    changed = np.flatnonzero(plan.unit_worker != unit_worker)
    moves = []
    for origin, target, by_text in np.unique(pairs[changed], axis=0).tolist():
        units = changed[(pairs[changed] == (origin, target, by_text)).all(axis=1)]
        cells = np.flatnonzero(np.isin(plan.cell_leaf, leaf[units]))
        terms = distinct_values(plan.terms[np.isin(plan.term_unit, units)]) if by_text else None
        moves.append(Move(origin, target, cells, terms))
    return moves
