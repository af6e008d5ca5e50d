"""Local load adjustment: cells of the most loaded worker go to the least loaded one (PS2Stream section V-A)."""

from dataclasses import dataclass, field, replace

import numpy as np

from pststream.balancing.cell_selection import select_cells
from pststream.cost.block_loads import block_loads
from pststream.cost.cell_loads import cell_loads
from pststream.cost.load_model import CostModel, WorkerLoads, worker_loads
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_moves import Move, moved
from pststream.domain.planner_sample import WorkloadSample
from pststream.partitioning.rectangle_cuts import Rectangle
from pststream.partitioning.text_split import RegionTerms
from pststream.samples.sorted_sample import SortedSample, sort_sample

MOST_LOADED = 3
"""The paper's p: cells that phase I looks at."""

BLOCKS = 4
"""About so many blocks of cells are moved in phase II: the wider they are, the fewer subscriptions lie over the edge of
one and are copied; the more they are, the better they can be chosen.
"""

MOST_BLOCKS = 256
"""Blocks that the cells of a worker are dealt into at most."""

FINER = 4
"""So many times as many blocks are tried if no move of the wider ones helps."""

LOWER = 1.0 - 1e-9
"""Less than this much lower is no improvement."""


@dataclass(frozen=True)
class Adjustment:
    """What an adjustment does to a plan.

    moves                in the order in which they are made
    reasons              parallel: "split", "merge" (phase I) or the method of selection (phase II)
    before, after        loads of the sample under the plan, and under `plan`
    """

    plan: PartitionPlan
    moves: list[Move]
    reasons: list[str]
    before: WorkerLoads
    after: WorkerLoads


@dataclass
class _Course:
    """A plan on its way to balance."""

    sample: WorkloadSample
    cost: CostModel
    plan: PartitionPlan
    besides: np.ndarray
    loads: WorkerLoads
    moves: list[Move] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def tried(self, move: Move) -> tuple[PartitionPlan, WorkerLoads]:
        plan = moved(self.plan, move)
        return plan, _loads(self.sample, plan, self.cost, self.besides)

    def take(self, move: Move, reason: str, plan: PartitionPlan, loads: WorkerLoads) -> None:
        self.plan, self.loads = plan, loads
        self.moves.append(move)
        self.reasons.append(reason)


def adjust_locally(
    sample: WorkloadSample,
    plan: PartitionPlan,
    cost: CostModel,
    method: str,
    sigma: float,
    seed: int = 0,
    besides: np.ndarray | None = None,
) -> Adjustment:
    """Move cells until the greatest load is at most `sigma` times the least, or no move helps.

    sigma    at least 1; a load of 0 is taken as the smallest there is
    besides  float64[workers], seconds: load that no move changes, that of a plan being retired; None: none

    Each round looks at the most and the least loaded worker: phase I, then phase II if they are still out of balance.
    The paper does not say how much load to move: half of the difference, which would make the two equal. What a move
    costs is its subscriptions, each a row of about the same size. Departures: phase II moves blocks of cells
    (`block_loads`); a move of it that would not lower the greater load of the two is not made, and ends the adjustment;
    rounds are repeated, up to twice the number of workers, as one pair seldom balances all.
    """
    fixed = np.zeros(plan.workers) if besides is None else besides
    before = _loads(sample, plan, cost, fixed)
    course = _Course(sample, cost, plan, fixed, before)
    postings = sort_sample(sample, plan.grid)
    for _ in range(2 * plan.workers):
        if course.loads.imbalance <= sigma:
            break
        _phase_one(course, postings, sigma)
        if course.loads.imbalance > sigma and not _phase_two(course, method, seed):
            break
    return Adjustment(course.plan, course.moves, course.reasons, before, course.loads)


def _loads(sample: WorkloadSample, plan: PartitionPlan, cost: CostModel, besides: np.ndarray) -> WorkerLoads:
    loads = worker_loads(sample, plan, cost)
    return replace(loads, load=loads.load + besides)


def _extremes(course: _Course) -> tuple[int, int]:
    return int(np.argmax(course.loads.load)), int(np.argmin(course.loads.load))


def _phase_one(course: _Course, postings: SortedSample, sigma: float) -> None:
    """Split one of the most loaded cells by text, or give one by text to the worker that shares it, if that lowers the
    sum of all loads.

    Departures from the paper: of such moves the best one is made, as the rounds come back for others; and only if it
    lowers the greater load of the two workers.
    """
    origin, target = _extremes(course)
    cells = cell_loads(course.sample, course.plan, course.cost.rates(course.sample), origin)
    best: tuple[float, Move, str, PartitionPlan, WorkerLoads] | None = None
    for place in np.argsort(-cells.loads, kind="stable")[:MOST_LOADED].tolist():
        found = _candidate(course, postings, int(cells.cells[place]), origin, target)
        if found is None:
            continue
        move, reason = found
        plan, loads = course.tried(move)
        helps = loads.total < course.loads.total and _greater(loads, origin, target) < course.loads.load[origin]
        if helps and (best is None or loads.total < best[0]):
            best = loads.total, move, reason, plan, loads
    if best is not None:
        course.take(*best[1:])


def _candidate(course: _Course, postings: SortedSample, cell: int, origin: int, target: int) -> tuple[Move, str] | None:
    """The move that phase I would make of a cell."""
    plan, cells = course.plan, np.array([cell], np.int64)
    leaf = int(plan.cell_leaf[cell])
    if plan.leaf_unit[leaf] < 0:
        units = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
        units = np.append(units, plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]])
        shared = (plan.unit_worker[units] == target).any()
        return (Move(origin, target, cells), "merge") if shared else None
    y, x = divmod(cell, plan.grid.columns)
    parts = RegionTerms(Rectangle(x, y, x, y), postings).cut(2, course.cost.rates(course.sample))
    if len(parts) < 2:
        return None
    smaller = min(parts, key=lambda part: part.subscriptions)
    return Move(origin, target, cells, np.sort(postings.term_ids[smaller.terms])), "split"


def _phase_two(course: _Course, method: str, seed: int) -> bool:
    """Move the blocks of cells that minimum cost migration selects; whether that helped. If wide ones do not, ever
    smaller ones are tried.
    """
    origin, target = _extremes(course)
    difference = float(course.loads.load[origin] - course.loads.load[target])
    parts = max(1, int(min(BLOCKS * float(course.loads.load[origin]) / (difference / 2), MOST_BLOCKS)))
    while not _moved_blocks(course, method, seed, origin, target, parts):
        if parts == MOST_BLOCKS:
            return False
        parts = min(FINER * parts, MOST_BLOCKS)
    return True


def _moved_blocks(course: _Course, method: str, seed: int, origin: int, target: int, parts: int) -> bool:
    """Move some of about so many blocks of the origin; whether that helped."""
    most, least = float(course.loads.load[origin]), float(course.loads.load[target])
    difference = most - least
    blocks = block_loads(course.sample, course.plan, course.cost.rates(course.sample), origin, parts)
    # A block with as much load as the difference would only turn it round.
    small = np.flatnonzero(blocks.loads < difference * LOWER)
    loads, sizes = blocks.loads[small], blocks.subscriptions[small]
    chosen = select_cells(method, loads, sizes, min(difference / 2, float(loads.sum()) * (1 - 1e-9)), seed)
    if not len(chosen):
        return False
    move = Move(origin, target, blocks.cells_of(small[chosen]))
    plan, after = course.tried(move)
    if _greater(after, origin, target) >= most * LOWER:
        return False
    course.take(move, method, plan, after)
    return True


def _greater(loads: WorkerLoads, one: int, other: int) -> float:
    return float(max(loads.load[one], loads.load[other]))
