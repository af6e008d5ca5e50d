"""Plan a local load adjustment: choose cells or terms to move from the most to the least loaded worker.

Returns the moves and the plan after them; a migration carries them out later. Source: PS2Stream section V-A.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.planning.balancing.cell_selection import select_cells
from pststream.planning.cell_loads import compute_block_loads
from pststream.planning.live_terms import SortedSample, sort_sample
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners.grow_tree import RegionTerms
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import Move, apply_move
from pststream.plans.planner_sample import WorkloadSample

LOADED_BLOCKS = 3
"""Number of blocks of cells that phase I looks at, the p of the paper."""

BLOCKS = 4
"""Approximate number of blocks of cells that phase II moves.

The wider blocks are, the fewer subscriptions lie over an edge and are copied; the more blocks, the better the choice.
"""

MAX_BLOCKS = 256
"""Maximum number of blocks into which the cells of a worker are divided."""

FINER = 4
"""Factor by which the number of blocks grows if no move of the wider ones helps."""

PHASE_ONE = ("split", "merge")
"""Reasons of the moves of phase I."""

LOWER = 1.0 - 1e-9
"""Factor below which a load must fall to count as an improvement."""


@dataclass(frozen=True)
class Adjustment:
    """The moves of an adjustment, and the plan after them.

    moves                in the order in which they are made
    reasons              parallel to moves: "split", "merge" (phase I) or the method of selection (phase II)
    before, after        loads of the sample under the plan before the moves, and under `plan`
    saved                parallel to moves: seconds that each takes off the sum of all loads, negative if it adds to it;
                         empty for adjustments that are not local
    """

    plan: PartitionPlan
    moves: list[Move]
    reasons: list[str]
    before: WorkerLoads
    after: WorkerLoads
    saved: list[float] = field(default_factory=list)


@dataclass
class _DraftPlan:
    """A plan, its loads, and the moves that were applied so far."""

    sample: WorkloadSample
    cost: CostModel
    plan: PartitionPlan
    fixed_load: np.ndarray
    loads: WorkerLoads
    moves: list[Move] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)

    def try_move(self, move: Move) -> tuple[PartitionPlan, WorkerLoads]:
        """Return the plan after a move, and its loads."""
        plan = apply_move(self.plan, move)
        return plan, _loads(self.sample, plan, self.cost, self.fixed_load)

    def apply_move(self, move: Move, reason: str, plan: PartitionPlan, loads: WorkerLoads) -> None:
        """Replace the plan by the one after a move."""
        self.saved.append(self.loads.total - loads.total)
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
    fixed_load: np.ndarray | None = None,
) -> Adjustment:
    """Move cells until the greatest load is at most `sigma` times the least, or no move helps.

    sigma       at least 1; a load of 0 counts as the smallest positive load
    fixed_load  float64[workers], seconds: load that no move changes, which is the load of a retiring plan; None: none

    Each round looks at the most and the least loaded worker: phase I, then phase II if they are still out of balance.
    The paper does not say how much load to move; here it is half of the difference, which would make the two equal. The
    cost of a move is the number of its subscriptions, each a row of about the same size. Departures: both phases look
    at blocks of cells, whose load the worker loses with them (planning/cell_loads.py). A move of phase II that
    would not lower the greater load of the two is not made, and ends the adjustment. Rounds are repeated, up to twice
    the number of workers, as one pair seldom balances all.
    """
    fixed = np.zeros(plan.workers) if fixed_load is None else fixed_load
    before = _loads(sample, plan, cost, fixed)
    draft = _DraftPlan(sample, cost, plan, fixed, before)
    sorted_sample = sort_sample(sample, plan.grid)
    for _ in range(2 * plan.workers):
        if draft.loads.imbalance <= sigma:
            break
        _phase_one(draft, sorted_sample)
        if draft.loads.imbalance > sigma and not _phase_two(draft, method, seed):
            break
    return Adjustment(draft.plan, draft.moves, draft.reasons, before, draft.loads, draft.saved)


def _loads(sample: WorkloadSample, plan: PartitionPlan, cost: CostModel, fixed_load: np.ndarray) -> WorkerLoads:
    """Return the loads of a plan, with the fixed load of each worker added."""
    loads = compute_worker_loads(sample, plan, cost)
    return replace(loads, load=loads.load + fixed_load)


def _extremes(draft: _DraftPlan) -> tuple[int, int]:
    """Return the most and the least loaded worker."""
    return int(np.argmax(draft.loads.load)), int(np.argmin(draft.loads.load))


def _phase_one(draft: _DraftPlan, sorted_sample: SortedSample) -> None:
    """Split one of the most loaded blocks by text, or move a block by text to a worker that shares it.

    The move must lower the sum of all loads. Departures from the paper, which looks at cells: the blocks are as wide as
    those of phase II; both halves of a split are tried, not only the smaller one; only the best move is made in a
    round, and only if it lowers the greater load of the two workers.
    """
    origin, target = _extremes(draft)
    blocks = compute_block_loads(draft.sample, draft.plan, draft.cost.rates(draft.sample), origin, _block_count(draft))
    best: tuple[float, Move, str, PartitionPlan, WorkerLoads] | None = None
    for block in np.argsort(-blocks.loads, kind="stable")[:LOADED_BLOCKS].tolist():
        cells = blocks.cells_of(np.array([block]))
        for move, reason in _candidates(draft, sorted_sample, cells, origin, target):
            plan, loads = draft.try_move(move)
            helps = loads.total < draft.loads.total and _greater(loads, origin, target) < draft.loads.load[origin]
            if helps and (best is None or loads.total < best[0]):
                best = loads.total, move, reason, plan, loads
    if best is not None:
        draft.apply_move(*best[1:])


def _candidates(
    draft: _DraftPlan, sorted_sample: SortedSample, cells: np.ndarray, origin: int, target: int
) -> Iterator[tuple[Move, str]]:
    """Yield the moves that phase I tries with a block of cells (int64[n], ascending), and the reason of each.

    Terms are divided by the rows of the rectangle around the block; the loads of each move are then counted exactly.
    """
    plan = draft.plan
    leaf = plan.cell_leaf[cells]
    # Cells by text go to the target as a whole where the target has some of their terms.
    by_text = plan.leaf_unit[leaf] < 0
    shared = [one for one in distinct_values(leaf[by_text]).tolist() if target in _workers_of_leaf(plan, one)]
    if shared:
        yield Move(origin, target, cells[np.isin(leaf, shared)]), "merge"
    # Cells that are served whole are split: the target gets either group of terms.
    whole = cells[~by_text]
    if not len(whole):
        return
    y, x = np.divmod(whole, plan.grid.columns)
    around = Rectangle(int(x.min()), int(y.min()), int(x.max()), int(y.max()))
    groups = RegionTerms(around, sorted_sample).cut(2, draft.cost.rates(draft.sample))
    for group in groups if len(groups) > 1 else []:
        yield Move(origin, target, whole, np.sort(sorted_sample.term_ids[group.terms])), "split"


def _workers_of_leaf(plan: PartitionPlan, leaf: int) -> set[int]:
    """Return the workers that share a leaf by text."""
    units = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]]
    units = np.append(units, plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]])
    return set(plan.unit_worker[units].tolist())


def _block_count(draft: _DraftPlan) -> int:
    """Return the number of blocks of the origin of which BLOCKS have the load to move."""
    origin, target = _extremes(draft)
    difference = float(draft.loads.load[origin] - draft.loads.load[target])
    return max(1, int(min(BLOCKS * float(draft.loads.load[origin]) / (difference / 2), MAX_BLOCKS)))


def _phase_two(draft: _DraftPlan, method: str, seed: int) -> bool:
    """Move the blocks of cells that minimum cost migration selects; return whether that helped.

    If no move of wide blocks helps, smaller ones are tried.
    """
    origin, target = _extremes(draft)
    count = _block_count(draft)
    while not _move_blocks(draft, method, seed, origin, target, count):
        if count == MAX_BLOCKS:
            return False
        count = min(FINER * count, MAX_BLOCKS)
    return True


def _move_blocks(draft: _DraftPlan, method: str, seed: int, origin: int, target: int, count: int) -> bool:
    """Divide the cells of the origin into about `count` blocks, and move some; return whether that helped."""
    most, least = float(draft.loads.load[origin]), float(draft.loads.load[target])
    difference = most - least
    blocks = compute_block_loads(draft.sample, draft.plan, draft.cost.rates(draft.sample), origin, count)
    # Moving a block with as much load as the difference would only reverse the imbalance.
    small = np.flatnonzero(blocks.loads < difference * LOWER)
    loads, sizes = blocks.loads[small], blocks.subscriptions[small]
    chosen = select_cells(method, loads, sizes, min(difference / 2, float(loads.sum()) * (1 - 1e-9)), seed)
    if not len(chosen):
        return False
    move = Move(origin, target, blocks.cells_of(small[chosen]))
    plan, after = draft.try_move(move)
    if _greater(after, origin, target) >= most * LOWER:
        return False
    draft.apply_move(move, method, plan, after)
    return True


def _greater(loads: WorkerLoads, one: int, other: int) -> float:
    """Return the greater load of two workers."""
    return float(max(loads.load[one], loads.load[other]))
