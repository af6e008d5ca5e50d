"""PM, FM, and PM then FM against SSTD's section 5.2 written out, and adjustments made of them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import Adjustment, BalancingTask, adjust
from pststream.planning.balancing.reallocate import list_moves, reallocate_units
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_moves import changed_cells
from tests.fuzz.cases import examples
from tests.oracles.sstd import differencing
from tests.paper_samples import paper_sample
from tests.plans import plans
from tests.routes import check_meetings

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 20))
def test_divides_as_the_paper_and_moves_the_fewest_subscriptions(seed: int, workers: int, units: int) -> None:
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, workers, units).astype(np.int32)
    loads, subscriptions = rng.integers(0, 20, units), rng.integers(0, 30, units)
    chosen = np.sort(rng.choice(workers, rng.integers(2, workers + 1), replace=False))
    made = reallocate_units(owner, loads.astype(np.float64), subscriptions.astype(np.float64), chosen)
    mine = [unit for unit in range(units) if owner[unit] in chosen]
    parts = [{mine[place] for place in part} for part in differencing(loads[mine].tolist(), len(chosen))]
    assert {frozenset(unit for unit in mine if made[unit] == worker) for worker in chosen.tolist()} - {frozenset()} == {
        frozenset(part) for part in parts
    }
    parts += [set[int]()] * (len(chosen) - len(parts))
    fewest = min(
        sum(subscriptions[unit] for worker, part in zip(order, parts) for unit in part if owner[unit] != worker)
        for order in permutations(chosen.tolist())
    )
    assert subscriptions[made != owner].sum() == fewest
    assert (made == owner)[~np.isin(owner, chosen)].all()


def test_the_example_of_the_paper() -> None:
    """Section 5.2: leaves 1, 2 and 4 at worker 0; 3 and 5 at worker 1; 6 and 7 at worker 2.

    With these loads the parts are {1, 3, 6}, {2, 5} and {4, 7}, as there; leaves 3 and 6 have few subscriptions.
    """
    owner = np.array([0, 0, 1, 0, 1, 2, 2], np.int32)
    loads = np.array([4.0, 9.0, 5.0, 11.0, 7.0, 8.0, 7.0])
    made = reallocate_units(owner, loads, np.array([90.0, 5.0, 1.0, 5.0, 80.0, 1.0, 70.0]), np.arange(3))
    assert {frozenset(np.flatnonzero(made == worker).tolist()) for worker in range(3)} == {
        frozenset({0, 2, 5}), frozenset({1, 4}), frozenset({3, 6})
    }  # fmt: skip
    assert made.tolist() == [0, 1, 0, 2, 1, 0, 2]


def world(method: str, workers: int = 4, planner: str = "quadtree", hot: float = 3.0) -> BalancingTask:
    """A plan for one stream, under which worker 1 was measured to take `hot` times its load."""
    sample = paper_sample("q1", 4000, 2000)
    plan = make_plan(planner, sample, workers, COST)
    rest, nothing = np.zeros(workers), np.zeros(workers)
    rest[1] = (hot - 1) * compute_worker_loads(sample, plan, COST).load[1]
    return BalancingTask(method, sample, plan, COST, 1.2, rest, nothing, 0.0)


def moved_workers(adjustment: Adjustment) -> set[int]:
    return {worker for move in adjustment.moves for worker in (move.origin, move.target)}


@pytest.mark.parametrize("method", ["pm", "fm", "pm_fm"])
@pytest.mark.parametrize("planner", ["quadtree", "grid", "hybrid", "r_tree"])
def test_lowers_the_greatest_load_and_each_pair_meets_once(method: str, planner: str) -> None:
    task = world(method, planner=planner)
    adjustment = adjust(task)
    if adjustment.moves:
        assert adjustment.after.max < adjustment.before.max
        check_meetings(adjustment.plan, task.sample)
    assert adjustment.after.load.sum() == pytest.approx(adjustment.before.load.sum())
    assert bool(adjustment.moves) or planner == "hybrid"


def test_pm_touches_two_workers_and_fm_balances_better() -> None:
    pm, fm = adjust(world("pm")), adjust(world("fm"))
    loads = pm.before.load
    assert moved_workers(pm) == {int(loads.argmax()), int(loads.argmin())}
    assert fm.after.imbalance < 1.2 < pm.after.imbalance < pm.before.imbalance


def test_pm_fm_stops_at_pm_where_that_is_enough() -> None:
    for target, methods in ((2.0, {"pm"}), (1.2, {"pm", "fm"})):
        assert set(adjust(replace(world("pm_fm"), target=target)).reasons) == methods


def test_one_unit_a_worker_leaves_nothing_to_reallocate() -> None:
    for method in ("pm", "fm", "pm_fm"):
        assert adjust(world(method, planner="kd_tree")).moves == []


def test_nothing_moves_within_the_target() -> None:
    assert adjust(replace(world("fm"), target=100.0)).moves == []


def test_load_under_a_retiring_plan_is_counted_and_stays() -> None:
    task = world("fm", hot=1.0)
    retiring = np.array([0.0, 2.0, 0.0, 0.0]) * compute_worker_loads(task.sample, task.plan, COST).max
    adjustment = adjust(replace(task, fixed_load=retiring, retiring_load=retiring))
    assert adjustment.before.imbalance > 2
    assert np.allclose((adjustment.after.load - retiring).sum(), (adjustment.before.load - retiring).sum())


@examples(100)
@given(plans(), st.integers(0, 2**32 - 1))
def test_moves_name_every_cell_that_changes_hands(plan: PartitionPlan, seed: int) -> None:
    new = np.random.default_rng(seed).integers(0, plan.workers, plan.units).astype(np.int32)
    moves = list_moves(plan, new)
    cells = np.unique(np.concatenate([np.empty(0, np.int64), *(move.cells for move in moves)]))
    assert set(changed_cells(plan, replace(plan, unit_worker=new)).tolist()) <= set(cells.tolist())
    assert all(move.origin != move.target for move in moves)


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(UsageError, match="'gf' is unknown"):
        adjust(world("gf"))
