"""Blocks of cells against their slow twin, and how well a sample predicts their load."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.cell_loads import BlockLoads, compute_block_loads
from pststream.planning.load_model import CostModel, LoadRates, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.plans.plan_moves import Move, apply_move
from pststream.plans.planner_sample import WorkloadSample
from tests.oracles import dispatch as slow
from tests.paper_samples import paper_sample
from tests.plans import make_sample, plans, samples, unpack

RATES = LoadRates(pair=0.25, object=3.0, subscription=5.0, read=2.0)


def blocks_of(blocks: BlockLoads) -> list[list[int]]:
    return unpack(blocks.offsets, blocks.cells)


@settings(max_examples=150, deadline=None)
@given(samples(), plans(), st.integers(0, 4), st.sampled_from([1, 3, 64]))
def test_equals_the_slow_twin(sample: WorkloadSample, plan: PartitionPlan, worker: int, parts: int) -> None:
    blocks = compute_block_loads(sample, plan, RATES, worker, parts)
    units = {cell: units_of(plan, cell) for cell in range(plan.grid.cells)}
    assert sorted(blocks.cells.tolist()) == [c for c in units if worker in {int(plan.unit_worker[u]) for u in units[c]}]
    posts = unpack(sample.post_offsets, sample.post_terms)
    live = {term for terms in posts for term in terms}

    def count(cells: list[int]) -> tuple[int, int, int]:
        """Return the objects, stored boxes and reads of the worker in some cells."""
        objects = reads = 0
        for i, terms in enumerate(unpack(sample.term_offsets, sample.terms)):
            cell = slow.cell_of(plan.grid, float(sample.lon[i]), float(sample.lat[i]))
            mine = [t for t, term in enumerate(terms) if plan.unit_worker[slow.owner(plan, cell, term)] == worker]
            mine = [t for t in mine if terms[t] in live] if cell in cells else []
            objects += bool(mine)
            reads += sum(int(sample.reads[int(sample.term_offsets[i]) + t]) for t in mine)
        stored = sum(
            any(
                plan.unit_worker[slow.owner(plan, cell, term)] == worker
                for cell in slow.cells_of(plan.grid, tuple(box))
                if cell in cells
                for term in terms
            )
            for box, terms in zip(sample.boxes.tolist(), posts)
        )
        return objects, stored, reads

    all_objects, all_stored, _ = count(blocks.cells.tolist())
    for block, cells in enumerate(blocks_of(blocks)):
        objects, stored, reads = count(cells)
        assert (blocks.objects[block], blocks.subscriptions[block]) == (objects, stored)
        pairs = all_objects * all_stored - (all_objects - objects) * (all_stored - stored)
        assert blocks.loads[block] == pytest.approx(0.25 * pairs + 3 * objects + 5 * stored + 2 * reads)
    if len(blocks.loads) > 1 and blocks.objects.any():
        assert blocks.objects.min() >= max(1, blocks.objects.sum() // parts)


def units_of(plan: PartitionPlan, cell: int) -> list[int]:
    leaf = int(plan.cell_leaf[cell])
    if plan.leaf_unit[leaf] >= 0:
        return [int(plan.leaf_unit[leaf])]
    named = plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]].tolist()
    return named + plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]].tolist()


def test_blocks_are_runs_of_the_curve_and_leave_no_cell_out() -> None:
    grid = DispatchGrid(0.0, 0.0, 4.0, 4.0, 4, 4)
    plan = space_plan("half", grid, np.arange(16) // 8, np.arange(2), 2)
    points = [(0.5, 0.5)] * 3 + [(3.5, 0.5)] * 2 + [(2.5, 1.5)]
    sample = make_sample(points, [[1]] * 6, [(0, 0, 4, 4)], [[1]])
    blocks = compute_block_loads(sample, plan, RATES, 0, 2)
    # Along the curve the row below goes 0 1 | 5 4, then 6 7 3 2 or its like: three objects each.
    assert blocks.objects.tolist() == [3, 3] and blocks.subscriptions.tolist() == [1, 1]
    assert sorted(blocks.cells.tolist()) == list(range(8))


def test_a_worker_without_units_has_no_blocks() -> None:
    sample = make_sample([(1, 1)], [[1]], [(0, 0, 2, 2)], [[1]])
    grid = DispatchGrid(0.0, 0.0, 4.0, 4.0, 4, 4)
    blocks = compute_block_loads(
        sample, space_plan("all", grid, np.zeros(16, np.int64), np.zeros(1, np.int64), 2), RATES, 1, 8
    )
    assert blocks_of(blocks) == [] and len(blocks.loads) == 0


def test_blocks_move_as_much_of_the_next_batch_as_the_sample_predicts() -> None:
    """The next objects are in the same blocks as those of a sample, though not in the same cells."""
    cost = CostModel(2e-12, 2e-6, 2e-6, 5e-7, 2e-8)
    sample, following = paper_sample("q1", 20_000, 5_000), paper_sample("q1", 20_000, 5_000, seed=2)
    plan = make_plan("kd_tree", sample, 4, cost)
    blocks = compute_block_loads(sample, plan, cost.rates(sample), 0, 64)
    chosen = np.argsort(blocks.subscriptions / blocks.loads)[: len(blocks.loads) // 3]
    after = apply_move(plan, Move(0, 1, blocks.cells_of(np.sort(chosen))))
    expected, actual = (
        1 - compute_worker_loads(one, after, cost).objects[0] / compute_worker_loads(one, plan, cost).objects[0]
        for one in (sample, following)
    )
    assert expected > 0.2
    assert actual == pytest.approx(expected, abs=0.05)


def test_without_objects_cells_are_divided_evenly() -> None:
    """Subscriptions alone can load a worker, so it must have blocks to move."""
    grid = DispatchGrid(0.0, 0.0, 16.0, 16.0, 16, 16)
    sample = make_sample([], [], [(0, 0, 16, 16), (1, 1, 1, 1)], [[1], [2]])
    blocks = compute_block_loads(
        sample, space_plan("all", grid, np.zeros(256, np.int64), np.zeros(1, np.int64), 1), RATES, 0, 32
    )
    assert np.diff(blocks.offsets).tolist() == [8] * 32
    assert blocks.subscriptions.sum() == 32 + 1
