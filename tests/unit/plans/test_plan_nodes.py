"""The tree of a plan: its rows, the rules that it keeps, and plans that differ in it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pststream.base import names
from pststream.plans.plan import BY_OBJECT, DispatchGrid, PartitionPlan, tree_plan
from pststream.plans.plan_moves import Move, apply_move, changed_cells
from pststream.plans.plan_nodes import PlanNodes
from pststream.plans.plan_rows import NODE_COLUMNS, node_rows, nodes_from_rows, validate
from pststream.state.tables import TABLES
from tests.plans import identical_plans, quarters, same_nodes


def tree() -> PlanNodes:
    """A root of 4 x 4 cells in quarters; the last one by text; its first child by space."""
    quarter = [(0, 0, 1, 1), (2, 0, 3, 1), (0, 2, 1, 3), (2, 2, 3, 3)]
    below = [(2, 2, 3, 3)] * 4 + [(2, 2, 2, 2), (3, 2, 3, 2), (2, 3, 2, 3), (3, 3, 3, 3)]
    return PlanNodes(
        parent=np.array([-1, 0, 0, 0, 0, 4, 4, 4, 4, 5, 5, 5, 5], np.int32),
        rectangle=np.array([(0, 0, 3, 3), *quarter, *below], np.int32),
        by_text=np.arange(13) == 4,
        unit=np.array([-1, 0, 1, 2, -1, -1, 3, 4, 5, 6, 7, 8, 9], np.int32),
        objects=np.arange(13, dtype=np.int64),
        term_offsets=np.array([0] * 5 + [3] * 9),
        terms=np.array([-7, 3, 9]),
        asked=np.array([2, 1, 5]),
        holders=np.array([1, 6, 0], np.uint8),
        queries=np.array([0, 4, 2]),
    )


def plan_of(nodes: PlanNodes, workers: int = 3) -> PartitionPlan:
    grid = DispatchGrid(0.0, 0.0, 4.0, 4.0, 4, 4)
    return tree_plan("qt_tree", grid, nodes, np.arange(nodes.units) % workers, workers)


def test_leaves_are_units_and_the_topmost_node_by_text() -> None:
    plan = plan_of(tree())
    validate(plan)
    assert plan.cell_leaf.tolist() == [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2
    assert plan.leaf_unit.tolist() == [0, 1, 2, BY_OBJECT]
    assert plan.leaf_of_units().tolist() == [0, 1, 2, *[3] * 7]
    known, total = tree().known_keywords()
    assert known.tolist() == [0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0]
    assert total.tolist() == [0, 0, 0, 0, 8, *[0] * 8]


def test_rows_are_those_of_the_table() -> None:
    rows = node_rows(tree())
    schema = TABLES[names.PLAN_NODES].schema
    assert set(rows.column_names) == {*schema.names} - {"plan_version"} == {*NODE_COLUMNS}
    assert all(rows.schema.field(name).type == schema.field(name).type for name in NODE_COLUMNS)
    shuffled = rows.take(np.random.default_rng(3).permutation(rows.num_rows))
    assert same_nodes(nodes_from_rows(shuffled), tree())
    assert nodes_from_rows(node_rows(None)) is None
    with pytest.raises(ValueError, match="numbered"):
        nodes_from_rows(rows.slice(1))


def changed(name: str, place: int, value: object) -> Callable[[PlanNodes], PlanNodes]:
    def change(nodes: PlanNodes) -> PlanNodes:
        values = getattr(nodes, name).copy()
        values[place] = value
        return replace(nodes, **{name: values})

    return change


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (changed("parent", 0, 0), "root comes first"),
        (changed("parent", 3, 7), "parents before"),
        (changed("parent", 12, 4), "follow each other"),
        (changed("unit", 9, 3), "each leaf has a unit"),
        (changed("unit", 5, 10), "each leaf has a unit"),
        (changed("rectangle", 0, (0, 0, 3, 2)), "whole raster"),
        (changed("rectangle", 7, (2, 2, 3, 2)), "have its rectangle"),
        (changed("rectangle", 2, (1, 0, 3, 1)), "raster cells once"),
        (changed("rectangle", 12, (3, 3, 4, 3)), "raster cells once"),
        (changed("by_text", 5, True), None),
        (changed("by_text", 1, True), "has four"),
        (changed("terms", 0, 3), "ascend"),
        (changed("asked", 1, 0), "asked for"),
        (changed("holders", 1, 16), "holders are children"),
        (changed("queries", 0, -1), "at least 0"),
        (changed("term_offsets", 3, 1), "list keywords"),
        (lambda nodes: replace(nodes, asked=nodes.asked[:2]), "list keywords"),
        (lambda nodes: replace(nodes, objects=nodes.objects[:2]), "one value of each column"),
    ],
)
def test_broken_trees_are_refused(change: Callable[[PlanNodes], PlanNodes], rule: str | None) -> None:
    broken = replace(plan_of(tree()), nodes=change(tree()))
    with pytest.raises(ValueError, match=rule or "have its rectangle"):
        validate(broken)


def test_leaves_of_another_tree_are_refused() -> None:
    plan = plan_of(tree())
    for other in (replace(plan, cell_leaf=plan.cell_leaf[::-1]), replace(plan, unit_worker=plan.unit_worker[:9])):
        with pytest.raises(ValueError, match="of the tree"):
            validate(other)


def test_cells_change_with_the_workers_and_the_keywords_of_their_leaf() -> None:
    plan, north_east = plan_of(tree()), [10, 11, 14, 15]
    assert changed_cells(plan, plan_of(tree())).tolist() == []
    worker = plan.unit_worker.copy()
    worker[9] = 1
    assert changed_cells(plan, replace(plan, unit_worker=worker)).tolist() == north_east
    for change in (changed("objects", 6, 60), changed("holders", 0, 2), changed("asked", 0, 3)):
        assert changed_cells(plan, plan_of(change(tree()))).tolist() == north_east
    assert changed_cells(plan_of(tree(), 1), plan_of(changed("objects", 6, 60)(tree()), 1)).tolist() == []
    worker = plan.unit_worker.copy()
    worker[1] = 2
    assert changed_cells(plan, replace(plan, unit_worker=worker)).tolist() == [2, 3, 6, 7]


def test_raster_cells_move_only_where_no_leaf_shares_its_objects() -> None:
    with pytest.raises(ValueError, match="do not move"):
        apply_move(plan_of(tree()), Move(0, 1, np.array([0])))
    spatial = PlanNodes(
        parent=np.array([-1, 0, 0, 0, 0], np.int32),
        rectangle=np.array([(0, 0, 7, 7), (0, 0, 3, 3), (4, 0, 7, 3), (0, 4, 3, 7), (4, 4, 7, 7)], np.int32),
        by_text=np.zeros(5, bool),
        unit=np.array([-1, 0, 1, 2, 3], np.int32),
        objects=np.zeros(5, np.int64),
        term_offsets=np.zeros(6, np.int64),
        terms=np.empty(0, np.int64),
        asked=np.empty(0, np.int64),
        holders=np.empty(0, np.uint8),
        queries=np.zeros(1, np.int64),
    )
    plain = quarters()
    plan = tree_plan("quarters", plain.grid, spatial, plain.unit_worker, 4)
    assert type(plan) is PartitionPlan and identical_plans(replace(plan, nodes=None), plain)
    assert apply_move(plan, Move(0, 1, np.array([0]))).nodes is None
