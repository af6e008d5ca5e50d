"""A move changes the workers of the moved cells and terms, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.planning.dispatch import DispatchIndex
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan, text_plan
from pststream.plans.plan_moves import Move, apply_move, changed_cells
from pststream.plans.plan_rows import validate
from tests.routes import units_of

GRID = DispatchGrid(0.0, 0.0, 4.0, 4.0, 4, 4)
TERMS = np.arange(-6, 7)


def owners(plan: PartitionPlan) -> np.ndarray:
    """The worker of each (cell, term): int[cells, terms]."""
    lon, lat = np.tile(np.arange(4) + 0.5, 4), np.repeat(np.arange(4) + 0.5, 4)
    units = units_of(
        DispatchIndex(plan), np.repeat(lon, len(TERMS)), np.repeat(lat, len(TERMS)), np.tile(TERMS, GRID.cells)
    )
    return plan.unit_worker[units].reshape(GRID.cells, len(TERMS))


def plans() -> list[PartitionPlan]:
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


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([0, 1]), MOVES)
def test_moves_one_after_another(which, moves):
    plan = plans()[which]
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
            here &= np.isin(TERMS, terms)
        expected = np.where(here, target, expected)
        differ = np.flatnonzero((owners(before) != owners(plan)).any(axis=1))
        assert np.isin(differ, changed_cells(before, plan)).all()
        assert len(changed_cells(plan, plan)) == 0
        assert all(len(np.unique(plan.unit_worker[units])) > 1 for units in units_by_text(plan))
        assert (owners(plan) == expected).all()
        assert len(np.unique(plan.cell_leaf)) == plan.leaves


def test_only_the_cells_that_moved_have_changed():
    for plan in plans():
        after = apply_move(plan, Move(0, 1, np.array([0, 5])))
        assert changed_cells(plan, after).tolist() == [0, 5]
        assert changed_cells(after, plan).tolist() == [0, 5]
    finer = space_plan("grid", DispatchGrid(0.0, 0.0, 4.0, 4.0, 2, 2), np.zeros(4), np.array([0]), 3)
    assert changed_cells(plans()[0], finer).tolist() == [0, 1, 2, 3]


def test_text_on_one_worker_is_served_whole():
    plan = text_plan("frequency", GRID, np.array([-3, 0]), np.array([0, 1]), 2)
    after = apply_move(plan, Move(1, 0, np.arange(GRID.cells)))
    assert after.units == after.leaves == 1 and not len(after.terms)
    assert (owners(after) == 0).all()
