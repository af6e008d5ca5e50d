"""Tornado's balancer `shift`: split and merge rectangles, or shift their sides, until the workers are balanced."""

import numpy as np

from pststream.base.errors import UsageError
from pststream.base.sorted_keys import distinct_values
from pststream.planning.area_sums import build_area_sums
from pststream.planning.balancing.balancing_task import BalancingTask
from pststream.planning.balancing.local_adjustment import Adjustment
from pststream.planning.balancing.movable_loads import loads_after, measured_loads, movable_load, share_out
from pststream.planning.balancing.rectangle_operations import PartitionCosts, Partitions, choose_operation
from pststream.planning.cell_checks import count_cell_checks
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.region_counts import build_region_counts
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.plan_moves import Move, apply_move


def adjust(task: BalancingTask) -> Adjustment:
    """Make the best operation of `rectangle_operations` until the workers are balanced or none gains anything.

    Raises UsageError if some worker serves no rectangle whole. A worker without cells takes no part.

    Source: Tornado, sections 4.2 and 4.3. The gain C_r is the fall of the greatest cost, over a period as long as the
    batches whose load was measured; the overhead C_t is the time to write the subscriptions once. Departures: the cost
    of a cell is its checks (`cost.cell_checks`) times the seconds of a check, which are the measured seconds of its
    worker over the checks of its cells, as C_t is a time and the two are compared; so a partition costs what its worker
    was measured to take. Operations are repeated, up to twice the number of workers. As C_r is the fall of the greatest
    cost, none is left once the costliest partition can give to no neighbour (docs/planning.md shows how that happens).
    """
    grid, before = task.plan.grid, measured_loads(task)
    partitions = find_partitions(task.plan)
    owner = _cell_workers(task.plan)
    checks = count_cell_checks(task.sample, grid).ravel().astype(np.float64)
    seconds = share_out(movable_load(task, before), owner, checks)
    costs = PartitionCosts(
        seconds=build_area_sums(seconds.reshape(grid.rows, grid.columns)),
        counts=build_region_counts(task.sample, grid),
        transfer=task.transfer_seconds * task.sample.subscription_scale,
    )
    plan, moves, reasons = task.plan, list[Move](), list[str]()
    for _ in range(2 * plan.workers):
        operation = choose_operation(partitions, costs)
        if _imbalance(partitions, costs, task.retiring_load) <= task.target or operation is None:
            break
        for transfer in operation.transfers:
            moves.append(Move(transfer.origin, transfer.target, _list_cells(grid, transfer.cells)))
            reasons.append(operation.kind)
            plan = apply_move(plan, moves[-1])
        partitions = find_partitions(plan)
    loads = np.bincount(_cell_workers(plan), seconds, plan.workers)
    return Adjustment(plan, moves, reasons, before, loads_after(task, plan, loads) if moves else before)


def find_partitions(plan: PartitionPlan) -> Partitions:
    """Return the rectangle of each worker that has cells; raises UsageError if the plan has other leaves."""
    if (plan.leaf_unit >= 0).all():
        owner = _cell_workers(plan).reshape(plan.grid.rows, plan.grid.columns)
        partitions = {worker: _bound(owner == worker) for worker in distinct_values(owner).tolist()}
        if sum(rectangle.cells for rectangle in partitions.values()) == plan.grid.cells:
            return partitions
    raise UsageError(
        "method shift needs a plan that gives each worker one rectangle",
        "run: pststream plan --planner a_grid, or choose another method",
    )


def _cell_workers(plan: PartitionPlan) -> np.ndarray:
    """Return the worker of each raster cell of a plan without text leaves: int64[cells]."""
    return np.asarray(plan.unit_worker[plan.leaf_unit][plan.cell_leaf]).astype(np.int64)


def _bound(cells: np.ndarray) -> Rectangle:
    """Return the smallest rectangle around the marked cells (bool[rows, columns])."""
    column, row = np.flatnonzero(cells.any(axis=0)), np.flatnonzero(cells.any(axis=1))
    return Rectangle(int(column[0]), int(row[0]), int(column[-1]), int(row[-1]))


def _list_cells(grid: DispatchGrid, rectangle: Rectangle) -> np.ndarray:
    """List the raster cells of a rectangle, ascending: int64."""
    column, row = np.arange(rectangle.x0, rectangle.x1 + 1), np.arange(rectangle.y0, rectangle.y1 + 1)
    return (row[:, None] * grid.columns + column).ravel()


def _imbalance(partitions: Partitions, costs: PartitionCosts, retiring: np.ndarray) -> float:
    """Return the greatest load of a worker with a partition over the least, the load of a retiring plan included."""
    return imbalance_of(costs.cost(rectangle) + retiring[worker] for worker, rectangle in partitions.items())
