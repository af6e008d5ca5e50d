"""Convert the tree of a plan to rows of the table `plan_nodes` and back."""

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import one_array
from pststream.plans.plan_nodes import PlanNodes

_SIDES = ("first_column", "first_row", "last_column", "last_row")
_LISTS = ("terms", "asked", "holders")
NODE_COLUMNS = ("node", "parent", *_SIDES, "by_text", "unit", "objects", *_LISTS, "queries")
"""Columns of `plan_nodes` that make a tree."""


def node_rows(nodes: PlanNodes | None) -> pa.Table:
    """Return the rows of `plan_nodes` without `plan_version`, ordered by node; a plan without a tree has none."""
    if nodes is None:
        return pa.table({"node": pa.array([], pa.int64())})
    is_root, is_leaf = nodes.parent < 0, nodes.unit >= 0
    offsets = pa.array(nodes.term_offsets, pa.int32())
    values = {name: pa.array(getattr(nodes, name), pa.int64()) for name in _LISTS}
    lists = {
        name: pa.ListArray.from_arrays(offsets, own, mask=pa.array(~nodes.by_text)) for name, own in values.items()
    }
    return pa.table(
        {
            "node": pa.array(np.arange(nodes.count), pa.int64()),
            "parent": pa.array(nodes.parent.astype(np.int64), mask=is_root),
            **{name: pa.array(nodes.rectangle[:, side], pa.int64()) for side, name in enumerate(_SIDES)},
            "by_text": pa.array(nodes.by_text),
            "unit": pa.array(nodes.unit.astype(np.int64), mask=~is_leaf),
            "objects": pa.array(nodes.objects, pa.int64()),
            **lists,
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
    lengths = rows.column("terms").combine_chunks().value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    terms, asked, holders = (_values(rows, name) for name in _LISTS)
    return PlanNodes(
        parent=_numbers(rows, "parent"),
        rectangle=np.column_stack([_numbers(rows, name) for name in _SIDES]),
        by_text=rows.column("by_text").to_numpy().astype(bool),
        unit=_numbers(rows, "unit"),
        objects=rows.column("objects").to_numpy().astype(np.int64),
        term_offsets=np.append(0, np.cumsum(lengths)).astype(np.int64),
        terms=terms,
        asked=asked,
        holders=holders.astype(np.uint8),
        queries=_values(rows, "queries"),
    )


def _numbers(rows: pa.Table, name: str) -> np.ndarray:
    """Return a column, -1 for null: int32[n]."""
    return np.asarray(rows.column(name).fill_null(-1).to_numpy()).astype(np.int32)


def _values(rows: pa.Table, name: str) -> np.ndarray:
    """Return the values of all lists of a column, one list after another: int64[m]."""
    column = rows.column(name)
    lists = one_array(column)
    return np.array(lists.flatten().to_numpy(zero_copy_only=False), np.int64)
