"""Convert plans to rows of `plans`, `plan_units`, `plan_nodes` and `topk_plans` and back, and validate their arrays."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import csr, integers, lists, one_array
from pststream.plans.plan import (
    BY_SUBSCRIPTION,
    DispatchGrid,
    PartitionPlan,
    SubscriptionPlan,
    plan_of_arrays,
    tree_plan,
)
from pststream.plans.plan_nodes import PlanNodes, ascend_in_slices, find_fault
from pststream.plans.topk_plan import SPACE_FIRST, WORDS_FIRST, TopkPlan

GRID_COLUMNS = ("west", "south", "east", "north", "columns", "rows")
"""Columns of `plans` that make the raster."""

UNIT_COLUMNS = ("unit", "worker", "leaf", "cell_runs", "terms", "takes_other_terms")
"""Columns of `plan_units` that make a plan."""


def plan_row(plan: PartitionPlan) -> dict[str, object]:
    """Return the columns of `plans` that describe the plan; the caller adds version, loads and times."""
    return {
        "planner": plan.planner,
        "workers": plan.workers,
        "index_workers": plan.index_workers.tolist() or None,
        "units": plan.units,
        **{name: getattr(plan.grid, name) for name in GRID_COLUMNS},
        "options": json.dumps(plan.options, sort_keys=True),
    }


def unit_rows(plan: PartitionPlan, **columns: Any) -> pa.Table:
    """Return the rows of `plan_units`, ordered by unit.

    columns  further columns, one value a unit or one for all: plan_version, load, objects, subscriptions

    Raises ValueError if the plan is not valid.
    """
    validate(plan)
    whole = np.full(plan.units, isinstance(plan, SubscriptionPlan))
    others = np.full(plan.units, plan.nodes is not None)
    others[plan.leaf_unit[plan.leaf_unit >= 0]] = True
    whole |= others
    others[plan.spread_unit] = True
    leaf = plan.leaf_of_units()
    # The raster cells of each leaf as start, length, start, length ...
    starts = np.flatnonzero(np.diff(plan.cell_leaf, prepend=-1))
    lengths, order = np.diff(starts, append=len(plan.cell_leaf)), np.argsort(plan.cell_leaf[starts], kind="stable")
    offsets = np.searchsorted(plan.cell_leaf[starts][order], np.arange(plan.leaves + 1)) * 2
    runs = lists(offsets, np.column_stack([starts[order], lengths[order]]).ravel())
    # The listed terms of each unit, ascending; null where it serves the whole leaf.
    order = np.lexsort((plan.terms, plan.term_unit))
    offsets = np.searchsorted(plan.term_unit[order], np.arange(plan.units + 1))
    terms = lists(offsets, plan.terms[order]).take(pa.array(np.arange(plan.units), mask=whole))
    rows: dict[str, Any] = {
        "unit": np.arange(plan.units),
        "worker": plan.unit_worker.astype(np.int64),
        "leaf": leaf,
        "cell_runs": runs.take(pa.array(leaf)),
        "terms": terms,
        "takes_other_terms": others,
    }
    for name, values in columns.items():
        rows[name] = values if np.ndim(values) else np.full(plan.units, values)
    return pa.table(rows)


def plan_from_rows(row: Mapping[str, object], units: pa.Table, nodes: PlanNodes | None = None) -> PartitionPlan:
    """Make the plan of a row of `plans` and its rows of `plan_units`, in any order; nodes: its tree, if it has one.

    Raises ValueError if they do not make a valid plan.
    """
    units = units.sort_by("unit").combine_chunks()
    if units.column("unit").to_pylist() != list(range(units.num_rows)) or row["units"] != units.num_rows:
        raise ValueError(f"units are not numbered from 0 to {row['units']}")
    grid = DispatchGrid(**{name: row[name] for name in GRID_COLUMNS})  # type: ignore[arg-type]
    worker = units.column("worker").to_numpy().astype(np.int32)
    made = str(row["planner"]), int(str(row["workers"])), json.loads(str(row["options"]))
    if nodes is None:
        plan = _plan_of_units(units, grid, worker, *made)
    else:
        _require_tree(nodes, grid)
        planner, workers, options = made
        plan = tree_plan(planner, grid, nodes, worker, workers, options)
    plan = replace(plan, index_workers=np.array(row.get("index_workers") or [], np.int64))
    validate(plan)
    return plan


def _plan_of_units(
    units: pa.Table, grid: DispatchGrid, worker: np.ndarray, planner: str, workers: int, options: dict[str, object]
) -> PartitionPlan:
    """Return the plan of rows of `plan_units` in the order of the units."""
    leaf = units.column("leaf").to_numpy()
    leaves = int(leaf.max(initial=-1)) + 1
    whole = ~units.column("terms").is_valid().to_numpy()
    others = units.column("takes_other_terms").to_numpy()
    leaf_unit = np.full(leaves, -1, dtype=np.int32)
    leaf_unit[leaf[whole]] = np.where(others[whole], np.flatnonzero(whole), BY_SUBSCRIPTION)
    term_unit, terms = _flat(units.column("terms"))
    order = np.lexsort((terms, leaf[term_unit]))
    spread = np.flatnonzero(others & ~whole)
    spread = spread[np.argsort(leaf[spread], kind="stable")]
    return plan_of_arrays(
        planner=planner,
        workers=workers,
        grid=grid,
        cell_leaf=_cells(units, leaf, grid),
        leaf_unit=leaf_unit,
        term_offsets=np.searchsorted(leaf[term_unit][order], np.arange(leaves + 1)),
        terms=terms[order],
        term_unit=term_unit[order].astype(np.int32),
        spread_offsets=np.searchsorted(leaf[spread], np.arange(leaves + 1)),
        spread_unit=spread.astype(np.int32),
        unit_worker=worker,
        options=options,
    )


def _cells(units: pa.Table, leaf: np.ndarray, grid: DispatchGrid) -> np.ndarray:
    """cell_leaf of a plan, from the runs of the first unit of each leaf."""
    _, first = np.unique(leaf, return_index=True)
    owner, runs = _flat(units.column("cell_runs").take(pa.array(first)))
    starts, lengths = runs[0::2], runs[1::2]
    if (np.bincount(owner) % 2).any() or (lengths < 1).any():
        raise ValueError("cell_runs are not pairs of start and length")
    order = np.argsort(starts, kind="stable")
    if not np.array_equal(np.append(starts[order], grid.cells), np.append(0, np.cumsum(lengths[order]))):
        raise ValueError("the leaves do not cover each raster cell once")
    return np.repeat(leaf[first[owner[0::2][order]]], lengths[order]).astype(np.int32)


def _flat(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row and value of each entry of a list<int64> column; null lists have none."""
    offsets, values = csr(one_array(column))
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), values


def validate(plan: PartitionPlan) -> None:
    """Raise ValueError with the broken rule unless every (raster cell, term) has exactly one unit, on one worker.

    A plan that shares by subscription instead has one leaf, no terms, and one unit for each worker. A plan with a tree
    has the leaves of the tree.

    Each raster cell has a leaf. Each leaf is served whole by one unit, or by term; then at least one unit takes all
    unlisted terms. Terms ascend in a leaf. Each unit belongs to one leaf and to one worker. Units that share the
    unlisted terms of a leaf ascend.
    """
    _require(plan.workers >= 1, "a plan has at least one worker")
    _require(plan.cell_leaf.shape == (plan.grid.cells,), "cell_leaf has a leaf for each raster cell")
    _require(_within(plan.cell_leaf, plan.leaves), "each raster cell has a leaf")
    _require(_within(plan.unit_worker, plan.workers), "each unit has a worker")
    numbers = plan.numbers_in_index
    _require(len(numbers) == plan.workers and bool((np.diff(numbers) > 0).all()), "workers differ in the index")
    if isinstance(plan, SubscriptionPlan):
        _require(plan.leaves == 1, "a plan that shares by subscription has one leaf")
        _require(len(plan.terms) + len(plan.term_unit) + len(plan.spread_unit) == 0, "and lists no terms")
        served = np.array_equal(np.sort(plan.unit_worker), np.arange(plan.workers))
        _require(served, "and has one unit for each worker")
        return
    if plan.nodes is not None:
        _require_tree(plan.nodes, plan.grid)
        _require(plan.nodes.units == plan.units, "each unit is that of a leaf of the tree")
        made = tree_plan(plan.planner, plan.grid, plan.nodes, plan.unit_worker, plan.workers)
        made = replace(made, index_workers=plan.index_workers)
        arrays = [name for name, value in vars(made).items() if isinstance(value, np.ndarray)]
        same = all(np.array_equal(getattr(plan, name), getattr(made, name)) for name in arrays)
        _require(same, "the leaves are those of the tree")
        return
    _require(bool((plan.leaf_unit >= -1).all()), "leaf_unit is a unit or -1")
    _slices(plan.term_offsets, plan.leaves, len(plan.terms), "term_offsets")
    _slices(plan.spread_offsets, plan.leaves, len(plan.spread_unit), "spread_offsets")
    _require(len(plan.term_unit) == len(plan.terms), "each term of a leaf has a unit")
    by_text = plan.leaf_unit < 0
    _require(
        bool((by_text == (np.diff(plan.spread_offsets) > 0)).all()),
        "all text leaves, and only these, have units for their other terms",
    )
    _require(bool((by_text | (np.diff(plan.term_offsets) == 0)).all()), "a leaf that is served whole lists no terms")
    _require(ascend_in_slices(plan.terms, plan.term_offsets), "terms ascend inside a leaf")
    _require(
        ascend_in_slices(plan.spread_unit, plan.spread_offsets), "units that share other terms ascend inside a leaf"
    )
    _require_one_leaf_per_unit(plan)


def _require_tree(nodes: PlanNodes, grid: DispatchGrid) -> None:
    fault = find_fault(nodes, grid.columns, grid.rows)
    _require(fault is None, str(fault))


def _require_one_leaf_per_unit(plan: PartitionPlan) -> None:
    leaf = np.arange(plan.leaves)
    unit = np.concatenate([plan.leaf_unit[plan.leaf_unit >= 0], plan.term_unit, plan.spread_unit])
    of_term, of_spread = np.repeat(leaf, np.diff(plan.term_offsets)), np.repeat(leaf, np.diff(plan.spread_offsets))
    its_leaf = np.concatenate([leaf[plan.leaf_unit >= 0], of_term, of_spread])
    _require(_within(unit, plan.units), "units are numbered from 0 and have a worker")
    greatest = np.full(plan.units, -1)
    least = np.full(plan.units, plan.leaves)
    np.maximum.at(greatest, unit, its_leaf)
    np.minimum.at(least, unit, its_leaf)
    _require(bool((greatest == least).all()), "each unit serves one leaf")


def _require(holds: bool, rule: str, what: str = "invalid plan; broken rule") -> None:
    if not holds:
        raise ValueError(f"{what}: {rule}")


_require_topk = partial(_require, what="not a plan of topk")


def _within(values: np.ndarray, end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())


def _slices(offsets: np.ndarray, slices: int, end: int, name: str) -> None:
    shaped = offsets.shape == (slices + 1,) and offsets[0] == 0 and offsets[-1] == end
    _require(bool(shaped and (np.diff(offsets) >= 0).all()), f"{name} are ascending offsets over all values")


_SIDES = ("first_column", "first_row", "last_column", "last_row")
_LISTS = ("terms", "asked", "holders")
NODE_COLUMNS = ("node", "parent", *_SIDES, "by_text", "unit", "objects", *_LISTS, "queries")
"""Columns of `plan_nodes` that make a tree."""


def node_rows(nodes: PlanNodes | None) -> pa.Table:
    """Return the rows of `plan_nodes` without `plan_version`, ordered by node; a plan without a tree has none."""
    if nodes is None:
        return pa.table({"node": pa.array([], pa.int64())})
    is_root, is_leaf = nodes.parent < 0, nodes.unit >= 0
    offsets, no_terms = pa.array(nodes.term_offsets, pa.int32()), pa.array(~nodes.by_text)
    values = {name: pa.array(getattr(nodes, name), pa.int64()) for name in _LISTS}
    return pa.table(
        {
            "node": pa.array(np.arange(nodes.count), pa.int64()),
            "parent": pa.array(nodes.parent.astype(np.int64), mask=is_root),
            **{name: pa.array(nodes.rectangle[:, side], pa.int64()) for side, name in enumerate(_SIDES)},
            "by_text": pa.array(nodes.by_text),
            "unit": pa.array(nodes.unit.astype(np.int64), mask=~is_leaf),
            "objects": pa.array(nodes.objects, pa.int64()),
            **{name: pa.ListArray.from_arrays(offsets, own, mask=no_terms) for name, own in values.items()},
            "queries": pa.array([nodes.queries.tolist(), *[None] * (nodes.count - 1)], pa.list_(pa.int64())),
        }
    )


def nodes_from_rows(rows: pa.Table) -> PlanNodes | None:
    """Make the tree of rows of `plan_nodes`, in any order; None if there are none."""
    if not rows.num_rows:
        return None
    rows = rows.sort_by("node").combine_chunks()
    if rows.column("node").to_pylist() != list(range(rows.num_rows)):
        raise ValueError("nodes are not numbered from 0")
    (term_offsets, terms), (_, asked), (_, holders), (_, queries) = (
        csr(one_array(rows.column(name))) for name in (*_LISTS, "queries")
    )
    return PlanNodes(
        parent=integers(rows, "parent", -1).astype(np.int32),
        rectangle=np.column_stack([integers(rows, name) for name in _SIDES]).astype(np.int32),
        by_text=rows.column("by_text").to_numpy().astype(bool),
        unit=integers(rows, "unit", -1).astype(np.int32),
        objects=rows.column("objects").to_numpy().astype(np.int64),
        term_offsets=term_offsets,
        terms=terms,
        asked=asked,
        holders=holders.astype(np.uint8),
        queries=queries,
    )


_SCALARS, _ARRAYS = ("planner", "way", "first", "second", "is_prefix"), ("space_cuts", "words", "word_cuts")

COLUMNS = (*_SCALARS, *_ARRAYS)
"""The columns of `topk_plans` that make a plan."""


def topk_plan_row(plan: TopkPlan) -> dict[str, Any]:
    """Return the columns of `topk_plans` that make the plan; raises ValueError if it is not valid."""
    validate_topk(plan)
    arrays = {name: getattr(plan, name).ravel().tolist() for name in _ARRAYS}
    return {name: getattr(plan, name) for name in _SCALARS} | arrays


def topk_plan_from_row(row: Mapping[str, Any]) -> TopkPlan:
    """Make the plan of a row of `topk_plans`; raises ValueError if it does not make a valid plan."""
    trees, tables = (1, row["first"]) if row["way"] == SPACE_FIRST else (row["first"], 1)
    plan = TopkPlan(
        **{name: row[name] for name in _SCALARS},
        space_cuts=np.array(row["space_cuts"], np.float64).reshape(trees, -1),
        words=np.array(row["words"], np.int64),
        word_cuts=np.array(row["word_cuts"], np.int64).reshape(tables, -1),
    )
    validate_topk(plan)
    return plan


def validate_topk(plan: TopkPlan) -> None:
    """Raise ValueError with the broken rule unless each pair of a place and a word has exactly one unit.

    A kd-tree divides the whole space, whatever its cuts are; they are longitudes and latitudes all the same.
    """
    _require_topk(plan.way in (SPACE_FIRST, WORDS_FIRST), f"the first level is {SPACE_FIRST} or {WORDS_FIRST}")
    _require_topk(plan.first >= 1 and plan.second >= 1, "each level has at least one part")
    first, second = plan.first, plan.second
    trees, leaves, tables, runs = (1, first, first, second) if plan.way == SPACE_FIRST else (first, second, 1, first)
    _require_topk(plan.space_cuts.shape == (trees, leaves - 1), "each tree has a cut between two leaves")
    _require_topk(plan.word_cuts.shape == (tables, runs - 1), "each table has a cut between two runs")
    _require_topk(bool((np.abs(plan.space_cuts) <= 180).all()), "cuts of the space are degrees")
    _require_topk(len(distinct_values(plan.words)) == len(plan.words), "each word has one place")
    within = np.pad(plan.word_cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, len(plan.words))))
    _require_topk(bool((np.diff(within, axis=1) >= 0).all()), "cuts of the words ascend within the words")


def planner_of(planner: str, options: Mapping[str, Any]) -> str:
    """Return the planner that made a plan of `planner` with these options: of `auto` the one that it chose."""
    return str(options["choice"]["planner"]) if "choice" in options else planner


def describe_choice(choice: dict[str, Any]) -> str:
    """Say in a line which planner was chosen, and the load of the slowest worker under each, the least first.

    choice  {"planner": name, "greatest_loads": {planner: predicted seconds of its most loaded worker}}
    """
    loads = choice["greatest_loads"].items()
    ranked = sorted(loads, key=lambda item: (item[1], item[0] != choice["planner"]))
    listed = ", ".join(f"{name} {seconds:.3g}" for name, seconds in ranked)
    return f"auto chose {choice['planner']}: the least seconds of the slowest worker on unseen objects, of {listed}"
