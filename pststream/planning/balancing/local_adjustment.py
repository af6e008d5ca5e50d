"""PS2Stream's balancers GR, DP, SI and RA: move cells, terms or whole units from the most to the least loaded worker.

The methods select enough load at least migration cost. They return the moves and the plan after them; a migration
carries them out later. Source: PS2Stream section V-A, phase II, Definitions 3 and 4.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.base.texts import byte_size
from pststream.kernels.planning.cell_loads import (
    drop_redundant,
    find_cheapest_candidate,
    find_cheapest_subset,
    mark_candidate,
)
from pststream.planning.balancing.contract import (
    LOWER,
    Adjustment,
    BalancingTask,
    loads_after,
    measured_loads,
    movable_load,
    share_out,
)
from pststream.planning.balancing.reallocate import list_moves
from pststream.planning.cell_loads import compute_block_loads
from pststream.planning.live_terms import SortedSample, sort_sample
from pststream.planning.load_model import CostModel, WorkerLoads
from pststream.planning.planners.grow_tree import RegionTerms
from pststream.planning.planners.rectangle_cuts import rectangle_around
from pststream.plans.imbalance import imbalance_of
from pststream.plans.plan import ObjectPlan, PartitionPlan
from pststream.plans.plan_moves import Move, apply_move
from pststream.plans.planner_sample import WorkloadSample

MAX_BITS = 1 << 34
"""Maximum number of bits that dynamic programming keeps: 2 GiB."""

ROW_BITS = 64
"""Each entry of the table needs one bit per cell and these 64 bits for its load."""

MAX_ERROR = 0.01
"""With rounded sizes, dynamic programming may cost at most this share more than the optimum."""


def select_cells(method: str, loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """Select the cells to migrate.

    loads   float64[n]  load of each cell, at least 0
    sizes   int64[n]    bytes of the subscriptions of each cell, at least 0
    wanted  float64     load to migrate, above 0
    seed    of `ra`
    Returns indices int64[k], ascending; the loads of these cells add up to `wanted` or more. Raises UsageError for an
    unknown method, for more load than all the cells have, and if `dp` would need too much memory.
    """
    if method not in METHODS:
        raise UsageError(f"method {method!r} is unknown", "one of: " + ", ".join(METHODS))
    loaded = np.flatnonzero(loads > 0.0)
    if wanted > loads[loaded].sum():
        raise UsageError(f"a load of {wanted:g} is wanted, the cells have {loads[loaded].sum():g}", "take more cells")
    if wanted <= 0.0:
        return np.empty(0, np.int64)
    chosen = METHODS[method](loads[loaded].astype(np.float64), sizes[loaded].astype(np.int64), float(wanted), seed)
    return np.sort(loaded[chosen]).astype(np.int64)


def select_greedily(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """GR: add cells by size over load while the load stays below `wanted`; return the cheapest way to complete them.

    Departure from the paper: cells of the result that the others do not need are dropped, the largest first.

    A candidate is the cells added so far plus one cell that brings the load to `wanted`. The cheapest costs at most
    twice the optimum: an optimal solution contains a cell that completes a candidate; take the first such cell in the
    scan. This cell costs at most the optimum. The cells added before it together cost at most the optimum too, as the
    other cells of the solution bring more load at no smaller relative cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, _ = find_cheapest_candidate(order, loads, sizes, wanted)
    # All cells together may miss `wanted` by a rounding error of the sum.
    if last < 0:
        return order
    chosen = order[mark_candidate(order, loads, wanted, last)]
    chosen = chosen[np.argsort(-sizes[chosen], kind="stable")]
    return chosen[drop_redundant(chosen, loads, wanted)]


def select_by_dynamic_programming(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """DP: return the cells of least cost. The result of GR bounds the total size.

    Departures from the paper, which keeps a table of n x P numbers: one row is updated for each cell, with a bit for
    each entry to follow the choices back. If the bits would not fit into memory, sizes are rounded up to steps, which
    may miss the least cost by one step for each cell. Raises UsageError if that could exceed MAX_ERROR of the cost.
    """
    order = _by_relative_cost(loads, sizes)
    last, bound = find_cheapest_candidate(order, loads, sizes, wanted)
    if last < 0:
        return order
    bits = len(loads) + ROW_BITS
    step = max(1, -(-bits * (bound + 1) // MAX_BITS))
    if step > 1 and len(loads) * step > MAX_ERROR * bound:
        raise UsageError(
            f"dp over {len(loads)} cells and {bound} bytes needs {byte_size(bits * bound / 8)},"
            f" and steps of {step} bytes could miss the least cost by more than {MAX_ERROR:.0%}",
            "use gr",
        )
    steps = -(-sizes // step)
    chosen = find_cheapest_subset(loads, steps, bound // step + (len(loads) if step > 1 else 0), wanted)
    return np.flatnonzero(chosen)


def select_largest_first(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """SI: return the largest cells, until their load is enough."""
    return _until_enough(np.argsort(-sizes, kind="stable"), loads, wanted)


def select_at_random(loads: np.ndarray, sizes: np.ndarray, wanted: float, seed: int = 0) -> np.ndarray:
    """RA: return cells in random order, until their load is enough."""
    return _until_enough(np.random.default_rng([seed, 3]).permutation(len(loads)), loads, wanted)


def _by_relative_cost(loads: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.argsort(sizes / loads, kind="stable")


def _until_enough(order: np.ndarray, loads: np.ndarray, wanted: float) -> np.ndarray:
    """Return the first cells of an order whose load reaches `wanted`."""
    enough = int(np.searchsorted(np.cumsum(loads[order]), wanted)) + 1
    return order[:enough]


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float, int], np.ndarray]] = {
    "gr": select_greedily,
    "dp": select_by_dynamic_programming,
    "si": select_largest_first,
    "ra": select_at_random,
}


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
        return plan, measured_loads(self.sample, plan, self.cost, self.fixed_load)

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
    before = measured_loads(sample, plan, cost, fixed)
    draft = _DraftPlan(sample, cost, plan, fixed, before)
    sorted_sample = sort_sample(sample, plan.grid)
    for _ in range(2 * plan.workers):
        if draft.loads.imbalance <= sigma:
            break
        _phase_one(draft, sorted_sample)
        if draft.loads.imbalance > sigma and not _phase_two(draft, method, seed):
            break
    return Adjustment(draft.plan, draft.moves, draft.reasons, before, draft.loads, draft.saved)


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
    shared = [one for one in distinct_values(leaf[by_text]).tolist() if target in np.append(*plan.text_workers(one))]
    if shared:
        yield Move(origin, target, cells[np.isin(leaf, shared)]), "merge"
    # Cells that are served whole are split: the target gets either group of terms.
    whole = cells[~by_text]
    if not len(whole):
        return
    y, x = np.divmod(whole, plan.grid.columns)
    groups = RegionTerms(rectangle_around(x, y), sorted_sample).cut(2, draft.cost.rates(draft.sample))
    for group in groups if len(groups) > 1 else []:
        yield Move(origin, target, whole, np.sort(sorted_sample.term_ids[group.terms])), "split"


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
    most, count = float(draft.loads.load[origin]), _block_count(draft)
    difference = most - float(draft.loads.load[target])
    while True:
        blocks = compute_block_loads(draft.sample, draft.plan, draft.cost.rates(draft.sample), origin, count)
        # Moving a block with as much load as the difference would only reverse the imbalance.
        small = np.flatnonzero(blocks.loads < difference * LOWER)
        chosen = _select(method, blocks.loads[small], blocks.subscriptions[small], difference, seed)
        if len(chosen):
            move = Move(origin, target, blocks.cells_of(small[chosen]))
            plan, after = draft.try_move(move)
            if _greater(after, origin, target) < most * LOWER:
                draft.apply_move(move, method, plan, after)
                return True
        if count == MAX_BLOCKS:
            return False
        count = min(FINER * count, MAX_BLOCKS)


def _greater(loads: WorkerLoads, one: int, other: int) -> float:
    return float(max(loads.load[one], loads.load[other]))


def _select(method: str, loads: np.ndarray, sizes: np.ndarray, difference: float, seed: int) -> np.ndarray:
    """Select cells or units with half of the difference of two loads, or with what they have (`select_cells`)."""
    return select_cells(method, loads, sizes, min(difference / 2, float(loads.sum()) * LOWER), seed)


def move_units(task: BalancingTask) -> Adjustment:
    """Move units until the workers are balanced or no move lowers the greater load of the two.

    Source: PS2Stream, section V-A, phase II, with units in place of cells: objects of a raster cell belong to several
    units, so cells do not move. For the same reason there is no phase I.
    """
    before = measured_loads(task.sample, task.plan, task.cost, task.fixed_load)
    seconds = share_out(movable_load(task, before), task.plan.unit_worker, before.unit_load)
    unit_worker, moves, reasons = task.plan.unit_worker, list[Move](), list[str]()
    for _ in range(2 * task.plan.workers):
        load = np.bincount(unit_worker, seconds, task.plan.workers) + task.retiring_load
        if imbalance_of(load) <= task.target:
            break
        # Move about half of the difference of two workers.
        origin, target = int(load.argmax()), int(load.argmin())
        difference = float(load[origin] - load[target])
        small = np.flatnonzero((unit_worker == origin) & (seconds < difference * LOWER))
        sizes = before.unit_subscriptions[small].astype(np.int64)
        moved = unit_worker.copy()
        moved[small[_select(task.method, seconds[small], sizes, difference, task.seed)]] = target
        if (np.bincount(moved, seconds, task.plan.workers) + task.retiring_load).max() >= load.max() * LOWER:
            break
        moves += list_moves(replace(task.plan, unit_worker=unit_worker), moved)
        reasons += [task.method] * (len(moves) - len(reasons))
        unit_worker = moved
    plan = replace(task.plan, unit_worker=unit_worker)
    load = np.bincount(unit_worker, seconds, plan.workers)
    return Adjustment(plan, moves, reasons, before, loads_after(task, plan, load) if moves else before)


def adjust(task: BalancingTask) -> Adjustment:
    """Return the moves of `adjust_locally`; of a plan that shares by object, those of `move_units`."""
    if isinstance(task.plan, ObjectPlan):
        return move_units(task)
    return adjust_locally(task.sample, task.plan, task.cost, task.method, task.target, task.seed, task.fixed_load)
