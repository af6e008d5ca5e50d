"""Tornado's balancer `shift`: list split-merges and shifts of rectangles, and make the best until loads balance."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import (
    Adjustment,
    BalancingTask,
    loads_after,
    measured_loads,
    movable_load,
    share_out,
)
from pststream.planning.cell_loads import count_cell_checks
from pststream.planning.planners.rectangle_cuts import COLUMNS_APART, ROWS_APART, Rectangle, rectangle_around
from pststream.planning.region_counts import RegionCounts, build_area_sums, build_region_counts, sum_area
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import Move, apply_move

Partitions = dict[int, Rectangle]
"""The rectangle of each worker; together they cover the raster."""


@dataclass(frozen=True)
class PartitionCosts:
    """What any rectangle costs, and what it takes to transfer its subscriptions.

    seconds   float64[rows+1, columns+1]  area sums (`region_counts`) of the cost of each raster cell, in seconds
    counts    counts the sampled subscriptions of a rectangle
    transfer  seconds to transfer one of these, the paper's beta

    Departure: the paper keeps sums by row and by column for each partition and changes them when cells move. They are
    differences of these area sums, which stay as they are.
    """

    seconds: np.ndarray
    counts: RegionCounts
    transfer: float

    def cost(self, rectangle: Rectangle) -> float:
        """Return the cost of a rectangle (Equation 2)."""
        return float(sum_area(self.seconds, *rectangle))

    def subscriptions(self, rectangle: Rectangle) -> int:
        """Return the number of sampled subscriptions of a rectangle."""
        return int(self.counts.subscriptions(*rectangle))

    def overhead(self, *moving: Rectangle) -> float:
        """Return the seconds to transfer the subscriptions of rectangles (C_t)."""
        return self.transfer * sum(map(self.subscriptions, moving))

    def cost_before(self, rectangle: Rectangle, axis: int) -> np.ndarray:
        """Return the cost of the first 1, 2, .. columns (or rows) of a rectangle, without the last: float64[n]."""
        return sum_area(self.seconds, *rectangle.cut(axis, rectangle.lines(axis)[:-1])[0])


class Transfer(NamedTuple):
    """Raster cells that one worker hands over to another."""

    origin: int
    target: int
    cells: Rectangle


@dataclass(frozen=True)
class Operation:
    """A possible operation.

    kind       "split_merge", "shift" or "corner_shift"
    gain       C_r, seconds: by how much the greater cost of the workers that take part falls
    overhead   C_t, seconds
    transfers  in the order in which they are made; none yet for a shift, whose coordinate is found when it is chosen
    others     the workers that take part besides the most loaded one, ascending for split and merge
    """

    kind: str
    gain: float
    overhead: float
    transfers: tuple[Transfer, ...]
    others: tuple[int, ...]


def choose_operation(partitions: Partitions, costs: PartitionCosts) -> Operation | None:
    """Return the operation with the greatest gain among those whose gain is greater than their overhead.

    Among equals, the one with the least overhead, then the least worker numbers; None if there is no such operation.

    Departures: X, the partition that is split or gives cells away, is the costliest one, as the paper says of split and
    merge; the cost of any other lowers no maximum. Of X1 and X2, and of Y and Z, the one with fewer subscriptions
    moves. A shift whose best coordinate does not lower the greater cost of the two is passed over: its gain was an
    estimate.
    """
    costliest = max(partitions, key=lambda worker: (costs.cost(partitions[worker]), -worker))
    operations = [*_list_split_merges(costliest, partitions, costs), *_list_shifts(costliest, partitions, costs)]
    for operation in sorted(operations, key=lambda one: (-one.gain, one.overhead, one.others)):
        if operation.gain <= operation.overhead:
            continue
        if operation.transfers:
            return operation
        transfer = _find_shift(costliest, operation.others[0], partitions, costs)
        if transfer is not None:
            return Operation("shift", operation.gain, operation.overhead, (transfer,), operation.others)
    return None


def _list_split_merges(x: int, partitions: Partitions, costs: PartitionCosts) -> Iterator[Operation]:
    """Yield a split of X with a merge of each pair of others that share an entire side (Equations 4 and 5)."""
    halves = split_evenly(partitions[x], costs)
    if halves is None:
        return
    costlier_half = max(costs.cost(half) for half in halves)
    moving_half = min(reversed(halves), key=costs.subscriptions)
    workers = sorted(set(partitions) - {x})
    for index, one in enumerate(workers):
        for other in workers[index + 1 :]:
            if not share_a_side(partitions[one], partitions[other]):
                continue
            z, y = sorted((other, one), key=lambda worker: costs.subscriptions(partitions[worker]))
            merged = costs.cost(partitions[y]) + costs.cost(partitions[z])
            yield Operation(
                "split_merge",
                costs.cost(partitions[x]) - max(costlier_half, merged),
                costs.overhead(moving_half, partitions[z]),
                (Transfer(z, y, partitions[z]), Transfer(x, z, moving_half)),
                (one, other),
            )


def _list_shifts(a: int, partitions: Partitions, costs: PartitionCosts) -> Iterator[Operation]:
    """Yield the shifts from A to each other worker B.

    Across an entirely shared side, gain and overhead are estimates. A corner shift moves the strip of A that continues
    B, which is flush with one end of a side of A.
    """
    own = costs.cost(partitions[a])
    for b in sorted(set(partitions) - {a}):
        taking = costs.cost(partitions[b])
        gain = (own - taking) / 2
        if gain > 0.0 and share_a_side(partitions[a], partitions[b]):
            yield Operation("shift", gain, costs.overhead(partitions[a]) * gain / own, (), (b,))
        if strip := _find_strip(partitions[a], partitions[b]):
            cost = costs.cost(strip)
            gain = own - max(own - cost, taking + cost)
            yield Operation("corner_shift", gain, costs.overhead(strip), (Transfer(a, b, strip),), (b,))


def split_evenly(rectangle: Rectangle, costs: PartitionCosts) -> tuple[Rectangle, Rectangle] | None:
    """Return the halves of a rectangle whose costs differ least; None for a single cell.

    Among equals, columns apart, then the first such column or row.
    """
    cuts = []
    total = costs.cost(rectangle)
    for axis in (COLUMNS_APART, ROWS_APART):
        before = costs.cost_before(rectangle, axis)
        if len(before):
            best = int(np.argmin(np.abs(2 * before - total)))
            cuts.append((abs(2 * float(before[best]) - total), axis, best))
    if not cuts:
        return None
    _, axis, best = min(cuts)
    return rectangle.cut(axis, rectangle[axis] + best)


def share_a_side(one: Rectangle, other: Rectangle) -> bool:
    """Whether two disjoint rectangles share an entire side, so that together they are a rectangle."""
    columns_apart = (one.y0, one.y1) == (other.y0, other.y1) and (one.x1 + 1 == other.x0 or other.x1 + 1 == one.x0)
    rows_apart = (one.x0, one.x1) == (other.x0, other.x1) and (one.y1 + 1 == other.y0 or other.y1 + 1 == one.y0)
    return columns_apart or rows_apart


def _find_shift(a: int, b: int, partitions: Partitions, costs: PartitionCosts) -> Transfer | None:
    """Return the columns or rows of A next to B after whose transfer the two costs differ least; None if that is none.

    A keeps at least one column or row. Among equals, the fewest cells move.
    """
    giving, taking = partitions[a], partitions[b]
    axis = COLUMNS_APART if (giving.y0, giving.y1) == (taking.y0, taking.y1) else ROWS_APART
    low_side = taking[axis] < giving[axis]
    before, own = costs.cost_before(giving, axis), costs.cost(giving)
    # The cost of the first 1, 2, .. columns or rows next to B, and how much the two would differ without them.
    strips = before if low_side else own - before[::-1]
    excess = own - costs.cost(taking)
    differences = np.abs(excess - 2 * strips)
    if not len(strips) or differences.min() >= excess:
        return None
    count = int(np.argmin(differences)) + 1
    low, high = giving.cut(axis, giving[axis] + count - 1 if low_side else giving[axis + 2] - count)
    return Transfer(a, b, low if low_side else high)


def _find_strip(a: Rectangle, b: Rectangle) -> Rectangle | None:
    """Return the strip of A that makes B a larger rectangle, if B is flush with one end of a side and shorter."""
    if a.x1 + 1 == b.x0 or b.x1 + 1 == a.x0:
        inside = a.y0 <= b.y0 and b.y1 <= a.y1
        flush = (a.y0 == b.y0) != (a.y1 == b.y1)
        return Rectangle(a.x0, b.y0, a.x1, b.y1) if inside and flush else None
    if a.y1 + 1 == b.y0 or b.y1 + 1 == a.y0:
        inside = a.x0 <= b.x0 and b.x1 <= a.x1
        flush = (a.x0 == b.x0) != (a.x1 == b.x1)
        return Rectangle(b.x0, a.y0, b.x1, a.y1) if inside and flush else None
    return None


def adjust(task: BalancingTask) -> Adjustment:
    """Make the best operation until the workers are balanced or none gains anything.

    Raises UsageError if some worker serves no rectangle whole. A worker without cells takes no part.

    Source: Tornado, sections 4.2 and 4.3. The gain C_r is the fall of the greatest cost, over a period as long as the
    batches whose load was measured; the overhead C_t is the time to write the subscriptions once. Departures: the cost
    of a cell is its checks (`count_cell_checks`) times the seconds of a check, which are the measured seconds of its
    worker over the checks of its cells, as C_t is a time and the two are compared; so a partition costs what its worker
    was measured to take. Operations are repeated, up to twice the number of workers. As C_r is the fall of the greatest
    cost, none is left once the costliest partition can give to no neighbour (docs/planning.md shows how that happens).
    """
    grid, before = task.plan.grid, measured_loads(task.sample, task.plan, task.cost, task.fixed_load)
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
        worker_loads = (costs.cost(rectangle) + task.retiring_load[worker] for worker, rectangle in partitions.items())
        if imbalance_of(worker_loads) <= task.target or operation is None:
            break
        for transfer in operation.transfers:
            row, column = transfer.cells.lines(ROWS_APART), transfer.cells.lines(COLUMNS_APART)
            cells = (row[:, None] * grid.columns + column).ravel()
            moves.append(Move(transfer.origin, transfer.target, cells))
            reasons.append(operation.kind)
            plan = apply_move(plan, moves[-1])
        partitions = find_partitions(plan)
    loads = np.bincount(_cell_workers(plan), seconds, plan.workers)
    return Adjustment(plan, moves, reasons, before, loads_after(task, plan, loads) if moves else before)


def find_partitions(plan: PartitionPlan) -> Partitions:
    """Return the rectangle of each worker that has cells; raises UsageError if the plan has other leaves."""
    if (plan.leaf_unit >= 0).all():
        owner = _cell_workers(plan).reshape(plan.grid.rows, plan.grid.columns)
        partitions = {}
        for worker in distinct_values(owner).tolist():
            y, x = np.nonzero(owner == worker)
            partitions[worker] = rectangle_around(x, y)
        if sum(rectangle.cells for rectangle in partitions.values()) == plan.grid.cells:
            return partitions
    raise UsageError(
        "method shift needs a plan that gives each worker one rectangle",
        "run: pststream plan --planner a_grid, or choose another method",
    )


def _cell_workers(plan: PartitionPlan) -> np.ndarray:
    """Return the worker of each raster cell of a plan without text leaves: int64[cells]."""
    return np.asarray(plan.unit_worker[plan.leaf_unit][plan.cell_leaf]).astype(np.int64)
