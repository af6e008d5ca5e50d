"""FG against SSTD's section 5.3 written out with sets and fractions, and adjustments made of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.errors import UsageError
from pststream.planning.balancing.contract import BalancingTask, adjust
from pststream.planning.balancing.reallocate import level_leaves
from pststream.planning.dispatch import TreeWalk
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.papers.qt_tree_growth import restore_tree
from pststream.planning.papers.query_statistics import collect_query_statistics
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan_moves import changed_cells
from pststream.plans.plan_nodes import PlanNodes
from pststream.plans.plan_rows import validate
from pststream.plans.planner_sample import WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import sstd
from tests.plans import asked_samples
from tests.routes import check_meetings
from tests.unit.planning.test_qt_tree import MIXED, lists_of, ordered_objects, topics

COST = CostModel(5e-8, 2e-6, 2e-6, 5e-7)


def as_adjusted(
    nodes: PlanNodes, things: list[list[sstd.Thing]], lists: list[list[set[int]]]
) -> dict[int, sstd.Adjusted]:
    """The tree of a plan as the oracle takes it; things: the objects of each unit."""
    first, number = nodes.child_slices()
    tree = {}
    for node in range(nodes.count):
        units = nodes.unit[nodes.below(node)]
        mine = [thing for unit in units[units >= 0].tolist() for thing in things[unit]]
        children = list(range(int(first[node]), int(first[node] + number[node])))
        part = tuple(nodes.rectangle[node].tolist())
        tree[node] = sstd.Adjusted(int(nodes.parent[node]), part, mine, children, lists[node])
    return tree


@examples(150)
@given(
    asked_samples(), asked_samples(), st.sampled_from(("qt_tree", "text")), st.integers(1, 30), st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_splits_and_merges_as_the_paper(
    planned: WorkloadSample, seen: WorkloadSample, planner: str, theta: int, workers: int, seed: int
) -> None:
    plan = make_plan(planner, planned, workers, COST, {"columns": 16, "rows": 11, "theta": theta})
    nodes, statistics = plan.nodes, collect_query_statistics(seen, plan.grid)
    assert nodes is not None
    units = TreeWalk(plan, nodes).units_of_objects(seen.lon, seen.lat, seen.term_offsets, seen.terms)
    tree = restore_tree(statistics, nodes, units[np.argsort(plan.grid.cell(seen.lon, seen.lat), kind="stable")])
    has_load = np.array([tree.nodes[leaf].workload > 0 for leaf in tree.leaves])
    powers = np.random.default_rng(seed).uniform(0, np.where(has_load, 30, 10))
    seconds = dict(zip(tree.leaves, np.exp2(powers).round().tolist()))
    order = ordered_objects(seen, plan)
    things = [[order[at] for at in tree.nodes[leaf].rows.objects.tolist()] for leaf in tree.leaves]
    by_unit = dict(zip(nodes.unit[tree.leaves].tolist(), things))
    lists = [lists_of(plan, node)[1] if nodes.by_text[node] else [] for node in range(nodes.count)]
    expected = as_adjusted(nodes, [by_unit[unit] for unit in range(nodes.units)], lists)
    for leaf, value in seconds.items():
        expected[leaf].seconds = Fraction(value)
    shares = replace(nodes, queries=statistics.queries)
    tree = restore_tree(statistics, shares, units[np.argsort(plan.grid.cell(seen.lon, seen.lat), kind="stable")])
    sstd.adjust_tree(sstd.Statistics(seen, plan.grid), expected, workers, 1.01, list(order.values()))
    level_leaves(tree, seconds, workers, 1.01)
    assert tree.leaves == [number for number, node in sorted(expected.items()) if not node.children]
    for number, node in expected.items():
        made = tree.nodes[number]
        assert (made.parent, tuple(made.rectangle), made.children) == (node.parent, node.part, node.children)
        assert (made.lists is not None) == bool(node.lists)
        if not node.children:
            assert seconds[number] == pytest.approx(float(node.seconds), rel=1e-9)
            assert len(made.rows.objects) == len(node.objects)


def world(method: str, sample: WorkloadSample = MIXED, planner: str = "qt_tree", hot: float = 4.0) -> BalancingTask:
    """A plan under which worker 1 was measured to take `hot` times its load."""
    plan = make_plan(planner, sample, 4, COST, {"columns": 32, "rows": 32, "theta": 16})
    rest, nothing = np.zeros(4), np.zeros(4)
    rest[1] = (hot - 1) * compute_worker_loads(sample, plan, COST).load[1]
    return BalancingTask(method, sample, plan, COST, 1.2, rest, nothing, 0.0)


@pytest.mark.parametrize("planner", ["qt_tree", "text"])
@pytest.mark.parametrize("method", ["fg", "pm_fm_fg"])
def test_lowers_the_greatest_load_and_each_pair_meets_once(method: str, planner: str) -> None:
    task = world(method, topics(400, 0.1), planner)
    adjustment = adjust(task)
    validate(adjustment.plan)
    assert adjustment.moves and adjustment.after.max < adjustment.before.max
    check_meetings(adjustment.plan, task.sample)
    moved = {cell for move in adjustment.moves for cell in move.cells.tolist()}
    assert set(changed_cells(task.plan, adjustment.plan).tolist()) <= moved


def test_fg_splits_leaves_that_fm_cannot_divide() -> None:
    """Two units have nearly all load of two workers: FM leaves it there, and FG divides them."""
    task = world("fm")
    seconds = compute_worker_loads(task.sample, task.plan, COST).unit_load
    hot = int(seconds.argmax())
    alone = replace(task.plan, unit_worker=np.where(np.arange(task.plan.units) == hot, 1, 0).astype(np.int32))
    rest = np.zeros(4)
    rest[1] = 40 * compute_worker_loads(task.sample, alone, COST).load[1]
    fm, fg, all_three = (
        adjust(replace(task, method=method, plan=alone, fixed_load=rest)) for method in ("fm", "fg", "pm_fm_fg")
    )
    assert fg.after.max < 0.7 * fm.before.max
    assert fg.after.imbalance < fm.after.imbalance
    assert fg.plan.units > alone.units - 4 and fg.reasons == ["fg"]
    assert all_three.reasons[-1] == "fg"


def test_nothing_moves_within_the_target() -> None:
    assert adjust(replace(world("pm_fm_fg"), target=100.0)).moves == []


def test_a_plan_without_a_tree_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a plan with a tree"):
        adjust(world("fg", planner="quadtree"))
