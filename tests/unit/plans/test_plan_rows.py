"""Plans and their trees as rows and back, the rules that they keep, moves, and pieces of subscriptions."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.planning.dispatch import DispatchIndex
from pststream.plans.pieces import IDENTITY, number_pieces, rarest_clause_first
from pststream.plans.plan import BY_OBJECT, DispatchGrid, PartitionPlan, space_plan, text_plan, tree_plan
from pststream.plans.plan_moves import Move, apply_move, changed_cells
from pststream.plans.plan_nodes import PlanNodes
from pststream.plans.plan_rows import (
    NODE_COLUMNS,
    node_rows,
    nodes_from_rows,
    plan_from_rows,
    plan_row,
    unit_rows,
    validate,
)
from pststream.state.tables import TABLES
from tests.fuzz.cases import examples
from tests.plans import identical_plans, plans, quarters, same_nodes
from tests.routes import units_of


@examples(150)
@given(plans(), st.randoms(use_true_random=False))
def test_round_trip(plan: PartitionPlan, rnd: Any) -> None:
    rows = unit_rows(plan)
    order = list(range(plan.units))
    rnd.shuffle(order)
    again = plan_from_rows(json.loads(json.dumps(plan_row(plan))), rows.take(pa.array(order)))
    assert identical_plans(plan, again)


@given(plans())
@examples(20)
def test_rows_are_those_of_the_table(plan: PartitionPlan) -> None:
    load = np.arange(plan.units, dtype=np.float64)
    rows = unit_rows(plan, load=load, objects=load + 1, subscriptions=load + 2, plan_version=7)
    schema = TABLES[names.PLAN_UNITS].schema
    assert set(rows.column_names) == set(schema.names)
    assert rows.select(schema.names).schema.equals(schema)
    assert rows.column("plan_version").to_pylist() == [7] * plan.units
    assert rows.column("load").to_pylist() == load.tolist()
    declared = TABLES[names.PLANS].schema.names
    assert set(plan_row(plan)) <= set(declared)


def test_rows_tell_who_serves_what() -> None:
    rows = unit_rows(by_text()).to_pylist()
    assert [row["cell_runs"] for row in rows] == [[0, 32]] * 3 + [[32, 32]]
    assert [row["terms"] for row in rows] == [[5], [-3], [], None]
    assert [row["takes_other_terms"] for row in rows] == [False, True, True, True]
    assert [row["leaf"] for row in rows] == [0, 0, 0, 1]


def by_text() -> PartitionPlan:
    """The lower half by text: unit 0 has term 5, unit 1 has term -3, 1 and 2 share the others; unit 3: the rest."""
    return replace(
        quarters(),
        cell_leaf=(np.arange(64) // 32).astype(np.int32),
        leaf_unit=np.array([-1, 3], dtype=np.int32),
        term_offsets=np.array([0, 2, 2]),
        terms=np.array([-3, 5]),
        term_unit=np.array([1, 0], dtype=np.int32),
        spread_offsets=np.array([0, 2, 2]),
        spread_unit=np.array([1, 2], dtype=np.int32),
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"workers": 0}, "at least one worker"),
        ({"cell_leaf": np.zeros(63, np.int32)}, "leaf for each raster cell"),
        ({"cell_leaf": np.full(64, 2, np.int32)}, "each raster cell has a leaf"),
        ({"cell_leaf": np.full(64, -1, np.int32)}, "each raster cell has a leaf"),
        ({"unit_worker": np.array([0, 1, 2, 4], np.int32)}, "each unit has a worker"),
        ({"unit_worker": np.array([0, -1, 2, 3], np.int32)}, "each unit has a worker"),
        ({"unit_worker": np.zeros(5, np.int32)}, "each unit serves one leaf"),
        ({"unit_worker": np.zeros(3, np.int32)}, "units are numbered"),
        ({"leaf_unit": np.array([-1, 0], np.int32)}, "each unit serves one leaf"),
        ({"leaf_unit": np.array([-1, -2], np.int32)}, "a unit or -1"),
        ({"leaf_unit": np.array([-1, -1], np.int32)}, "text leaves"),
        ({"leaf_unit": np.array([0, 3], np.int32)}, "text leaves"),
        ({"terms": np.array([5, -3])}, "terms ascend"),
        ({"terms": np.array([5, 5])}, "terms ascend"),
        ({"term_unit": np.zeros(1, np.int32)}, "each term of a leaf has a unit"),
        ({"term_offsets": np.array([0, 1, 1])}, "term_offsets"),
        ({"term_offsets": np.array([0, 1, 2])}, "lists no terms"),
        ({"spread_offsets": np.array([0, 2])}, "spread_offsets"),
        ({"spread_unit": np.array([2, 1], np.int32)}, "share other terms ascend"),
    ],
)
def test_refuses_invalid_plans(change: dict[str, Any], rule: str) -> None:
    validate(by_text())
    with pytest.raises(ValueError, match=rule):
        validate(replace(by_text(), **change))


def test_refuses_rows_that_do_not_fit() -> None:
    plan = quarters()
    row, rows = plan_row(plan), unit_rows(plan)
    with pytest.raises(ValueError, match="numbered"):
        plan_from_rows(row, rows.slice(1))
    with pytest.raises(ValueError, match="numbered"):
        plan_from_rows({**row, "units": 5}, rows)
    with pytest.raises(ValueError, match="cover each raster cell once"):
        plan_from_rows({**row, "columns": 9}, rows)
    twice = rows.set_column(rows.column_names.index("leaf"), "leaf", pa.array([0, 1, 1, 3]))
    with pytest.raises(ValueError, match="cover each raster cell once"):
        plan_from_rows(row, twice)
    odd = rows.set_column(rows.column_names.index("cell_runs"), "cell_runs", pa.array([[0], [1], [2], [3]]))
    with pytest.raises(ValueError, match="pairs"):
        plan_from_rows(row, odd)


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


def test_rows_of_nodes_are_those_of_the_table() -> None:
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


GRID = DispatchGrid(0.0, 0.0, 4.0, 4.0, 4, 4)
ALL_TERMS = np.arange(-6, 7)


def owners(plan: PartitionPlan) -> np.ndarray:
    """The worker of each (cell, term): int[cells, terms]."""
    lon, lat = np.tile(np.arange(4) + 0.5, 4), np.repeat(np.arange(4) + 0.5, 4)
    units = units_of(
        DispatchIndex(plan),
        np.repeat(lon, len(ALL_TERMS)),
        np.repeat(lat, len(ALL_TERMS)),
        np.tile(ALL_TERMS, GRID.cells),
    )
    return plan.unit_worker[units].reshape(GRID.cells, len(ALL_TERMS))


def two_plans() -> list[PartitionPlan]:
    leaves = np.array([0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3])
    space = space_plan("grid", GRID, leaves, np.array([0, 1, 2, 0]), 3)
    text = text_plan("frequency", GRID, np.array([-3, 0, 2, 5]), np.array([0, 1, 2, 0]), 3)
    return [space, text]


def units_by_text(plan: PartitionPlan) -> list[np.ndarray]:
    """The units of each leaf that is partitioned by text."""
    return [
        np.append(
            plan.term_unit[plan.term_offsets[leaf] : plan.term_offsets[leaf + 1]],
            plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]],
        )
        for leaf in np.flatnonzero(plan.leaf_unit < 0)
    ]


MOVES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.sets(st.integers(0, 15)),
        st.none() | st.sets(st.sampled_from([-3, 1, 5])),
    ),
    max_size=5,
)


@examples(200)
@given(st.sampled_from([0, 1]), MOVES)
def test_moves_one_after_another(which, moves):
    plan = two_plans()[which]
    expected = owners(plan)
    for origin, target, chosen, some in moves:
        cells = np.array(sorted(chosen), np.int64)
        terms = None if some is None else np.array(sorted(some), np.int64)
        whole = (plan.leaf_unit[plan.cell_leaf[cells]] >= 0).all() and (expected[cells] == origin).all()
        if terms is not None and not whole:
            with pytest.raises(ValueError, match="whole"):
                apply_move(plan, Move(origin, target, cells, terms))
            continue
        before, plan = plan, apply_move(plan, Move(origin, target, cells, terms))
        validate(plan)
        here = np.isin(np.arange(GRID.cells), cells)[:, None] & (expected == origin)
        if terms is not None:
            here &= np.isin(ALL_TERMS, terms)
        expected = np.where(here, target, expected)
        differ = np.flatnonzero((owners(before) != owners(plan)).any(axis=1))
        assert np.isin(differ, changed_cells(before, plan)).all()
        assert len(changed_cells(plan, plan)) == 0
        assert all(len(np.unique(plan.unit_worker[units])) > 1 for units in units_by_text(plan))
        assert (owners(plan) == expected).all()
        assert len(np.unique(plan.cell_leaf)) == plan.leaves


def test_only_the_cells_that_moved_have_changed():
    for plan in two_plans():
        after = apply_move(plan, Move(0, 1, np.array([0, 5])))
        assert changed_cells(plan, after).tolist() == [0, 5]
        assert changed_cells(after, plan).tolist() == [0, 5]
    finer = space_plan("grid", DispatchGrid(0.0, 0.0, 4.0, 4.0, 2, 2), np.zeros(4), np.array([0]), 3)
    assert changed_cells(two_plans()[0], finer).tolist() == [0, 1, 2, 3]


CLAUSES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=4)


@examples(200)
@given(st.lists(CLAUSES, max_size=6), st.lists(st.integers(0, 5), min_size=10, max_size=10), st.integers(0, 2))
def test_the_rarest_clause_comes_first(rows, frequency, skip):
    array = pa.array(rows, pa.list_(pa.list_(pa.int64()))).slice(skip)
    ordered, offsets, terms = rarest_clause_first(array, lambda ids: np.array(frequency)[ids] if len(ids) else ids)
    for place, clauses in enumerate(rows[skip:]):
        rarest = min(clauses, key=lambda clause: (sum(frequency[t] for t in clause), len(clause)))
        rest = list(clauses)
        rest.remove(rarest)
        assert ordered[place].as_py() == [rarest, *rest]
        assert terms[offsets[place] : offsets[place + 1]].tolist() == rarest


CORNERS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-180.0, 0.0, -0.0, 1.5]), st.sampled_from([0.0, 2.0])))


@examples(200)
@given(st.lists(CORNERS, min_size=1, max_size=3))
def test_rows_of_the_same_piece_have_the_same_number(batches):
    numbers = number_pieces(
        *(
            pa.RecordBatch.from_arrays(
                [
                    pa.array([row[at] for row in rows], kind)
                    for at, kind in enumerate((pa.int64(), pa.float64(), pa.float64()))
                ],
                names=IDENTITY,
            )
            for rows in batches
        )
    )
    assert [len(part) for part in numbers] == [len(rows) for rows in batches]
    number_of = {}
    for row, number in zip((row for rows in batches for row in rows), np.concatenate(numbers).tolist()):
        assert number_of.setdefault(row, number) == number
    assert len(set(number_of.values())) == len(number_of)
