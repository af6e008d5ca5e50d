"""SSTD's balancers PM, FM and FG, one or one after another: reallocate units by the differencing method.

PM reallocates the units of two workers, FM those of all, and FG the leaves of the plan's tree, of which it first splits
heavy ones and merges light ones.

Source: SSTD, sections 5.2 and 5.3.
"""

import heapq
from dataclasses import replace

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import (
    LOWER,
    Adjustment,
    BalancingTask,
    count_shared_pieces,
    loads_after,
    map_workers,
    measured_loads,
    movable_load,
    relabel_workers,
    share_out,
)
from pststream.planning.dispatch import TreeWalk
from pststream.planning.papers.karmarkar_karp import divide_evenly
from pststream.planning.papers.qt_tree_growth import GrowingTree, restore_tree
from pststream.planning.papers.quadtree import quarter
from pststream.planning.papers.query_statistics import collect_query_statistics
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import PartitionPlan, tree_plan
from pststream.plans.plan_moves import Move, changed_cells
from pststream.plans.plan_nodes import PlanNodes

EPSILON = 0.5
"""Greatest mean share of the queries of a leaf that touch a quarter of it, for which the leaf is split by space."""


def require_tree(plan: PartitionPlan) -> PlanNodes:
    """Return the tree of a plan; raises UsageError if it has none."""
    if plan.nodes is None:
        raise UsageError(
            "method fg needs a plan with a tree", "run: pststream plan --planner qt_tree, or choose another method"
        )
    return plan.nodes


def adjust_tree(task: BalancingTask, unit_seconds: np.ndarray) -> tuple[PartitionPlan, np.ndarray]:
    """Return the plan of the adjusted tree and the seconds of its units: float64[units].

    unit_seconds  float64[units]  measured seconds of the units of the plan

    The leaves are divided evenly among the workers, as by FM, and so that the most sampled boxes stay where they are.
    """
    plan, nodes = task.plan, require_tree(task.plan)
    sample = task.sample
    units = TreeWalk(plan, nodes).units_of_objects(sample.lon, sample.lat, sample.term_offsets, sample.terms)
    by_cell = np.argsort(plan.grid.cell(sample.lon, sample.lat), kind="stable")
    tree = restore_tree(collect_query_statistics(sample, plan.grid), nodes, units[by_cell])
    seconds = dict(zip(tree.leaves, unit_seconds[nodes.unit[tree.leaves]].tolist()))
    level_leaves(tree, seconds, plan.workers, task.target)
    of_leaves = np.array([seconds[leaf] for leaf in tree.leaves])
    part = divide_evenly(of_leaves, plan.workers)
    adjusted = tree_plan(plan.planner, plan.grid, tree.plan_nodes(), part, plan.workers, plan.options)
    return relabel_workers(adjusted, map_workers(count_shared_pieces(sample, plan, adjusted))), of_leaves


def level_leaves(tree: GrowingTree, seconds: dict[int, float], workers: int, target: float) -> None:
    """Split the heaviest leaf and merge the lightest children of one node, until the workers can be balanced.

    seconds  of each leaf, by its number; updated
    target   greatest load over the least that counts as balanced

    Ends too if the heaviest leaf cannot be split, if no node is left to merge, or if the lightest such node is heavier
    than the heaviest leaf. Departures: a leaf is split by space or by text, as `splits_by_space` says, with keyword
    lists from the sample, as the paper leaves open where it has the objects from; a split or a merge changes the
    measured seconds in proportion to the workloads of SSTD's Equation 2. Nodes that become parents of leaves by a split
    are not merged again.
    """
    parents = {tree.nodes[leaf].parent for leaf in tree.leaves} - {-1}
    heap = [(_merged_seconds(tree, seconds, number), number) for number in parents if tree.has_leaves_only(number)]
    greatest = max(seconds.values())
    heap = [entry for entry in heap if entry[0] < greatest]
    heapq.heapify(heap)
    while _split(tree, seconds):
        greatest = max(seconds.values())
        while heap and not tree.has_leaves_only(heap[0][1]):
            heapq.heappop(heap)
        if not heap or heap[0][0] > greatest:
            return
        merged, number = heapq.heappop(heap)
        for child in tree.nodes[number].children:
            del seconds[child]
        seconds[number] = merged
        tree.merge(number)
        parent = tree.nodes[number].parent
        if parent >= 0 and tree.has_leaves_only(parent):
            heapq.heappush(heap, (_merged_seconds(tree, seconds, parent), parent))
        loads = np.array(list(seconds.values()))
        if imbalance_of(np.bincount(divide_evenly(loads, workers), loads, workers)) <= target:
            return


def splits_by_space(tree: GrowingTree, number: int) -> bool:
    """Return whether a leaf is split by space: h of SSTD's Equation 3 is at most EPSILON.

    h is the mean, over the quarters of the leaf and the types of its queries, of the share of the queries that touch a
    quarter. The statistics of the sample are those of a quadtree with the quarters of the leaf, so its smallest node
    around the leaf is the leaf itself. Departures: they have two types, questions and subscriptions, not six; one that
    does not touch the leaf is left out. A single raster cell has no quarters.
    """
    node = tree.nodes[number]
    if node.rectangle.cells == 1:
        return False
    quarters = [tree.statistics.inside(node.rows, *part) for part in quarter(node.rectangle)]
    shares = [
        sum(len(one) for one in touching) / (len(quarters) * len(whole))
        for whole, touching in (
            (node.rows.pieces, [rows.pieces for rows in quarters]),
            (node.rows.asked, [rows.asked for rows in quarters]),
        )
        if len(whole)
    ]
    return sum(shares) <= EPSILON * len(shares)


def _split(tree: GrowingTree, seconds: dict[int, float]) -> bool:
    """Split the heaviest leaf, of equal ones the first; return whether it can be split."""
    number = max(sorted(seconds), key=lambda leaf: seconds[leaf])
    workload, by_space = tree.nodes[number].workload, splits_by_space(tree, number)
    if workload == 0.0 or not tree.split(number, by_space=by_space, by_text=not by_space):
        return False
    whole = seconds.pop(number)
    seconds |= {child: whole * tree.nodes[child].workload / workload for child in tree.nodes[number].children}
    return True


def _merged_seconds(tree: GrowingTree, seconds: dict[int, float], number: int) -> float:
    """Return the seconds of a node in place of its children."""
    children = tree.nodes[number].children
    together = sum(tree.nodes[child].workload for child in children)
    scale = tree.nodes[number].workload / together if together else 1.0
    return scale * sum(seconds[child] for child in children)


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
    before = measured_loads(task.sample, task.plan, task.cost, task.fixed_load)
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
