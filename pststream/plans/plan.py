"""The partition plan as arrays: leaf of each raster cell, unit of each leaf or term, worker of each unit.

A plan says which worker serves which region and terms. It has a dispatch grid, a raster over the bounds of the data.
Each raster cell belongs to one leaf. A leaf is served whole by one unit, or partitioned by text: each of its terms is
served by one unit (PS2Stream, section IV-B, Figure 3). Plans assign units to workers; loads are counted by unit, and
migrations move units. The same arrays are the dispatch index (PS2Stream, section IV-C, grid-t, map H1).

A `SubscriptionPlan` instead shares its subscriptions one by one (DkM-SKS, section 3): it is one leaf with a unit for
each worker, and each subscription belongs to one unit, which is recorded with its pieces in the index
(`plans/pieces.py`).

An `ObjectPlan` divides the objects of a leaf (SSTD, section 4): each goes to one unit, and a subscription is stored for
all units that its boxes touch. Then the leaf stands for the part of a tree below a node (`plans/plan_nodes.py`).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pststream.base.arrays import hash_integers
from pststream.base.texts import whole
from pststream.plans.plan_nodes import PlanNodes, describe_servers, find_unit, paint_leaves

BY_SUBSCRIPTION = -2
"""`leaf_unit` of the one leaf of a plan that shares by subscription."""

BY_OBJECT = -3
"""`leaf_unit` of a leaf whose units share its objects."""

OWNER_SALT = 29


@dataclass(frozen=True)
class DispatchGrid:
    """A raster of `columns` x `rows` cells over (west, south, east, north), in degrees.

    A point outside belongs to the nearest raster cell, so the raster covers the world. `cell_x` and `cell_y` never
    decrease with their argument, so a box covers the raster cells between those of its corners.
    """

    west: float
    south: float
    east: float
    north: float
    columns: int
    rows: int

    @property
    def cells(self) -> int:
        """Number of raster cells."""
        return self.columns * self.rows

    def cell_x(self, lon: np.ndarray) -> np.ndarray:
        """Return the column of each longitude: int64, same shape."""
        return _slot(lon, self.west, self.east, self.columns)

    def cell_y(self, lat: np.ndarray) -> np.ndarray:
        """Return the row of each latitude, counted from the south: int64, same shape."""
        return _slot(lat, self.south, self.north, self.rows)

    def cell(self, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        """Return the raster cell `row * columns + column` of each point: int64."""
        return self.cell_y(lat) * self.columns + self.cell_x(lon)


def _slot(value: np.ndarray, low: float, high: float, slots: int) -> np.ndarray:
    scaled = (np.asarray(value, dtype=np.float64) - low) * (slots / (high - low))
    return np.clip(np.floor(scaled), 0, slots - 1).astype(np.int64)


@dataclass(frozen=True)
class PartitionPlan:
    """The arrays of a plan; all ids count from 0. A plan of this class itself shares by raster cell and term.

    cell_leaf       int32[cells]    leaf of each raster cell
    leaf_unit       int32[leaves]   unit that serves the whole leaf; -1: partitioned by text; BY_SUBSCRIPTION; BY_OBJECT
    term_offsets    int64[leaves+1] slice of `terms`/`term_unit` of each leaf (empty unless partitioned by text)
    terms           int64[n]        term ids, ascending inside a leaf
    term_unit       int32[n]        unit of each of these terms in that leaf
    spread_offsets  int64[leaves+1] slice of `spread_unit` of each leaf (empty unless partitioned by text)
    spread_unit     int32[n]        units that share the leaf's other terms: position = uint64(term id) mod their number
    unit_worker     int32[units]    worker of each unit
    index_workers   int64[workers]  number under which the index has the rows of each worker, ascending; empty: its own
    nodes           the tree that the leaves come from, in the order of its `starts`; None: they come from no tree
    """

    planner: str
    workers: int
    grid: DispatchGrid
    cell_leaf: np.ndarray
    leaf_unit: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    term_unit: np.ndarray
    spread_offsets: np.ndarray
    spread_unit: np.ndarray
    unit_worker: np.ndarray
    options: dict[str, object] = field(default_factory=dict)
    nodes: PlanNodes | None = None
    index_workers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def numbers_in_index(self) -> np.ndarray:
        """The number under which the index has the rows of each worker, ascending: int64[workers]."""
        return self.index_workers if len(self.index_workers) else np.arange(self.workers)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaf_unit)

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.unit_worker)

    @property
    def sharing(self) -> str:
        """What its leaves have in common, for a text about the plan."""
        return f"{whole(int((self.leaf_unit == -1).sum()))} partitioned by text"

    def leaf_of_units(self) -> np.ndarray:
        """Return the leaf that each unit serves: int64[units]."""
        leaf = np.zeros(self.units, np.int64)
        whole_leaves = np.flatnonzero(self.leaf_unit >= 0)
        leaf[self.leaf_unit[whole_leaves]] = whole_leaves
        leaf[self.term_unit] = np.repeat(np.arange(self.leaves), np.diff(self.term_offsets))
        leaf[self.spread_unit] = np.repeat(np.arange(self.leaves), np.diff(self.spread_offsets))
        return leaf

    def find_unit(self, lon: float, lat: float, words: set[int], term: int) -> int:
        """Return the unit where an object with these words meets a subscription that is posted under a term, slowly:
        for one object at a time.
        """
        leaf = int(self.cell_leaf[int(self.grid.cell(np.array(lon), np.array(lat)))])
        leaf_unit = int(self.leaf_unit[leaf])
        if leaf_unit >= 0:
            return leaf_unit
        start, stop = int(self.term_offsets[leaf]), int(self.term_offsets[leaf + 1])
        named = dict(zip(self.terms[start:stop].tolist(), self.term_unit[start:stop].tolist()))
        spread = self.spread_unit[int(self.spread_offsets[leaf]) : int(self.spread_offsets[leaf + 1])].tolist()
        return int(named.get(term, spread[term % (1 << 64) % len(spread)]))

    def text_workers(self, leaf: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the worker of each listed term of a text leaf, and the workers that share its other terms."""
        named = self.term_unit[self.term_offsets[leaf] : self.term_offsets[leaf + 1]]
        sharing = self.spread_unit[self.spread_offsets[leaf] : self.spread_offsets[leaf + 1]]
        return self.unit_worker[named], self.unit_worker[sharing]

    def servers(self, leaf: int) -> tuple[bytes, ...]:
        """Return a key of a leaf's terms and workers, which is equal for leaves that are served alike."""
        if self.leaf_unit[leaf] >= 0:
            return (self.unit_worker[self.leaf_unit[leaf]].tobytes(),)
        named, sharing = self.text_workers(leaf)
        if is_one_worker(named, sharing):
            return (sharing[0].tobytes(),)
        terms = self.terms[self.term_offsets[leaf] : self.term_offsets[leaf + 1]]
        return tuple(array.tobytes() for array in (terms, named, sharing))


def is_one_worker(named: np.ndarray, sharing: np.ndarray) -> bool:
    """Whether a text leaf has a single worker; the arguments are what `text_workers` returns."""
    return bool((sharing == sharing[0]).all() and (named == sharing[0]).all())


class SubscriptionPlan(PartitionPlan):
    """A plan under which each subscription belongs to one unit, wherever it is and whatever its terms are.

    The unit of a subscription is recorded when the plan places it. A subscription that another plan took in has no unit
    here, for a migration places nothing: it belongs to a unit by its key, until the next `plan` places it. A unit
    that a plan with other units recorded counts modulo the number of units. So the owner is a function of the plan and
    of the stored piece, and every reader of the index finds the same one.
    """

    @property
    def sharing(self) -> str:
        """What its leaf is, for a text about the plan."""
        return "shared by subscription"

    def servers(self, leaf: int) -> tuple[bytes, ...]:
        """Return a key that is equal for plans whose units have the same workers."""
        return (b"by subscription", self.unit_worker.tobytes())

    def owner_units(self, keys: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the unit that each piece belongs to: int32[n].

        keys   int64[n]  subscription keys; `~key` stands for the same subscription
        units  int32[n]  units that are recorded with the pieces, or NO_UNIT (`plans/pieces.py`)
        """
        by_key = hash_integers(np.where(keys < 0, ~keys, keys), OWNER_SALT) % np.uint64(self.units)
        return np.where(units >= 0, units % self.units, by_key.astype(np.int64)).astype(np.int32)

    def owner_workers(self, keys: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the worker that each piece belongs to: int32[n]; the arguments are those of `owner_units`."""
        return self.unit_worker[self.owner_units(keys, units)].astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class ObjectPlan(PartitionPlan):
    """A plan with a tree some of whose leaves share their objects; raster cells and terms alone give no unit."""

    nodes: PlanNodes

    @property
    def sharing(self) -> str:
        """How many leaves share their objects, for a text about the plan."""
        return f"{whole(int((self.leaf_unit == BY_OBJECT).sum()))} whose objects are divided by text"

    def leaf_of_units(self) -> np.ndarray:
        """Return the leaf that each unit serves: int64[units]."""
        leaf = super().leaf_of_units()
        for start, node in enumerate(self.nodes.starts().tolist()):
            units = self.nodes.unit[self.nodes.below(node)]
            leaf[units[units >= 0]] = start
        return leaf

    def find_unit(self, lon: float, lat: float, words: set[int], term: int) -> int:
        """Return the unit of an object; it meets all subscriptions there."""
        column, row = self.grid.cell_x(np.array(lon)), self.grid.cell_y(np.array(lat))
        return find_unit(self.nodes, int(column), int(row), words)

    def servers(self, leaf: int) -> tuple[bytes, ...]:
        """Return a key of a leaf's terms and workers, which is equal for leaves that are served alike."""
        if self.leaf_unit[leaf] == BY_OBJECT:
            return describe_servers(self.nodes, int(self.nodes.starts()[leaf]), self.unit_worker)
        return super().servers(leaf)


def plan_of_arrays(**columns: Any) -> PartitionPlan:
    """Return the plan with these fields, of the class that its arrays imply."""
    leaf_unit, nodes = columns["leaf_unit"], columns.get("nodes")
    if len(leaf_unit) and leaf_unit[0] == BY_SUBSCRIPTION:
        return SubscriptionPlan(**columns)
    if nodes is not None and nodes.by_text.any():
        return ObjectPlan(**columns)
    return PartitionPlan(**columns)


def _plan_of_leaves(
    planner: str,
    grid: DispatchGrid,
    workers: int,
    options: dict[str, object] | None,
    leaf_unit: np.ndarray,
    unit_worker: np.ndarray,
    **others: Any,
) -> PartitionPlan:
    """Return a plan, by default of one leaf or of leaves that do not share by term; `others` has other arrays."""
    columns: dict[str, Any] = {
        "cell_leaf": np.zeros(grid.cells, dtype=np.int32),
        "leaf_unit": leaf_unit.astype(np.int32),
        "term_offsets": np.zeros(len(leaf_unit) + 1, dtype=np.int64),
        "terms": np.empty(0, dtype=np.int64),
        "term_unit": np.empty(0, dtype=np.int32),
        "spread_offsets": np.zeros(len(leaf_unit) + 1, dtype=np.int64),
        "spread_unit": np.empty(0, dtype=np.int32),
        "unit_worker": np.ascontiguousarray(unit_worker, dtype=np.int32),
    }
    return plan_of_arrays(planner=planner, workers=workers, grid=grid, options=options or {}, **(columns | others))


def space_plan(
    planner: str,
    grid: DispatchGrid,
    cell_leaf: np.ndarray,
    leaf_worker: np.ndarray,
    workers: int,
    options: dict[str, object] | None = None,
) -> PartitionPlan:
    """Make a plan without text partitioning: unit i is leaf i, served by `leaf_worker[i]`."""
    leaf_unit, cell_leaf = np.arange(len(leaf_worker)), np.ascontiguousarray(cell_leaf, dtype=np.int32)
    return _plan_of_leaves(planner, grid, workers, options, leaf_unit, leaf_worker, cell_leaf=cell_leaf)


def text_plan(
    planner: str,
    grid: DispatchGrid,
    terms: np.ndarray,
    term_worker: np.ndarray,
    workers: int,
    options: dict[str, object] | None = None,
) -> PartitionPlan:
    """Make a plan of one leaf that is partitioned by text: unit i belongs to worker i; all units share the other terms.

    terms        int64[n]   ascending
    term_worker  int[n]     worker of each of these terms
    """
    units = np.arange(workers, dtype=np.int32)
    shared = {
        "term_offsets": np.array([0, len(terms)], dtype=np.int64),
        "terms": terms,
        "term_unit": np.ascontiguousarray(term_worker, dtype=np.int32),
        "spread_offsets": np.array([0, workers], dtype=np.int64),
        "spread_unit": units,
    }
    return _plan_of_leaves(planner, grid, workers, options, np.array([-1]), units.copy(), **shared)


def subscription_plan(
    planner: str, grid: DispatchGrid, workers: int, options: dict[str, object] | None = None
) -> PartitionPlan:
    """Make a plan that shares by subscription: one leaf, unit i belongs to worker i."""
    return _plan_of_leaves(planner, grid, workers, options, np.array([BY_SUBSCRIPTION]), np.arange(workers))


def tree_plan(
    planner: str,
    grid: DispatchGrid,
    nodes: PlanNodes,
    unit_worker: np.ndarray,
    workers: int,
    options: dict[str, object] | None = None,
) -> PartitionPlan:
    """Make the plan of a tree; unit_worker: int[units], the worker of each of its leaves."""
    starts = nodes.starts()
    leaf_unit = np.where(nodes.by_text[starts], BY_OBJECT, nodes.unit[starts])
    tree = {"cell_leaf": paint_leaves(nodes, grid.columns, grid.rows), "nodes": nodes}
    return _plan_of_leaves(planner, grid, workers, options, leaf_unit, unit_worker, **tree)
