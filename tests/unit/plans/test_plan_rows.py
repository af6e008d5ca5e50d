"""Plans as rows and back, and what is refused."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.base import names
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_rows import plan_from_rows, plan_row, unit_rows, validate
from pststream.state.tables import TABLES
from tests.plans import identical_plans, plans, quarters


@settings(max_examples=150, deadline=None)
@given(plans(), st.randoms(use_true_random=False))
def test_round_trip(plan: PartitionPlan, rnd: Any) -> None:
    rows = unit_rows(plan)
    order = list(range(plan.units))
    rnd.shuffle(order)
    again = plan_from_rows(json.loads(json.dumps(plan_row(plan))), rows.take(pa.array(order)))
    assert identical_plans(plan, again)


@given(plans())
@settings(max_examples=20, deadline=None)
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
