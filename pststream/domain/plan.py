"""A partition plan: which worker serves which region and terms.

The plan lies on a dispatch grid, a raster over the bounds of the data. Each cell of the raster belongs to one leaf.
A leaf is served whole by one unit, or is partitioned by text: each of its terms by one unit (PS2Stream section IV-B,
Figure 3). A unit is what a plan assigns to a worker, what load is counted by, and what a migration moves.
The same arrays are the dispatch index (PS2Stream section IV-C, grid-t, map H1).
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class DispatchGrid:
    """A raster of `columns` x `rows` cells over (west, south, east, north), in degrees.

    A point outside belongs to the nearest edge cell, so the raster covers the world; `cell_x` and `cell_y`
    never decrease with their argument, so a box covers the cells between those of its corners.
    """

    west: float
    south: float
    east: float
    north: float
    columns: int
    rows: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.columns * self.rows

    def cell_x(self, lon: np.ndarray) -> np.ndarray:
        """Column of each longitude: int64, same shape."""
        return _slot(lon, self.west, self.east, self.columns)

    def cell_y(self, lat: np.ndarray) -> np.ndarray:
        """Row of each latitude, counted from the south: int64, same shape."""
        return _slot(lat, self.south, self.north, self.rows)

    def cell(self, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
        """Cell number `row * columns + column` of each point: int64."""
        return self.cell_y(lat) * self.columns + self.cell_x(lon)


def _slot(value: np.ndarray, low: float, high: float, slots: int) -> np.ndarray:
    scaled = (np.asarray(value, dtype=np.float64) - low) * (slots / (high - low))
    return np.clip(np.floor(scaled), 0, slots - 1).astype(np.int64)


@dataclass(frozen=True)
class PartitionPlan:
    """The arrays of a plan; all ids count from 0.

    cell_leaf       int32[cells]    leaf of each cell of `grid`
    leaf_unit       int32[leaves]   the unit that serves the whole leaf, or -1: partitioned by text
    term_offsets    int64[leaves+1] slice of `terms`/`term_unit` of each leaf (empty unless partitioned by text)
    terms           int64[n]        term ids, ascending inside a leaf
    term_unit       int32[n]        the unit of each of these terms in that leaf
    spread_offsets  int64[leaves+1] slice of `spread_unit` of each leaf (empty unless partitioned by text)
    spread_unit     int32[n]        units that share the leaf's other terms: position = uint64(term id) mod their number
    unit_worker     int32[units]    worker of each unit
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

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaf_unit)

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.unit_worker)


def space_plan(
    planner: str,
    grid: DispatchGrid,
    cell_leaf: np.ndarray,
    leaf_worker: np.ndarray,
    workers: int,
    options: dict[str, object] | None = None,
) -> PartitionPlan:
    """A plan without text partitions: unit i is leaf i, served by `leaf_worker[i]`."""
    leaves = len(leaf_worker)
    none = np.zeros(leaves + 1, dtype=np.int64)
    return PartitionPlan(
        planner=planner,
        workers=workers,
        grid=grid,
        cell_leaf=np.ascontiguousarray(cell_leaf, dtype=np.int32),
        leaf_unit=np.arange(leaves, dtype=np.int32),
        term_offsets=none,
        terms=np.empty(0, dtype=np.int64),
        term_unit=np.empty(0, dtype=np.int32),
        spread_offsets=none.copy(),
        spread_unit=np.empty(0, dtype=np.int32),
        unit_worker=np.ascontiguousarray(leaf_worker, dtype=np.int32),
        options=options or {},
    )


def text_plan(
    planner: str,
    grid: DispatchGrid,
    terms: np.ndarray,
    term_worker: np.ndarray,
    workers: int,
    options: dict[str, object] | None = None,
) -> PartitionPlan:
    """A plan of one leaf that is partitioned by text: unit i is worker i's, and all units share the other terms.

    terms        int64[n]   ascending
    term_worker  int[n]     worker of each of these terms
    """
    units = np.arange(workers, dtype=np.int32)
    return PartitionPlan(
        planner=planner,
        workers=workers,
        grid=grid,
        cell_leaf=np.zeros(grid.cells, dtype=np.int32),
        leaf_unit=np.full(1, -1, dtype=np.int32),
        term_offsets=np.array([0, len(terms)], dtype=np.int64),
        terms=terms,
        term_unit=np.ascontiguousarray(term_worker, dtype=np.int32),
        spread_offsets=np.array([0, workers], dtype=np.int64),
        spread_unit=units,
        unit_worker=units.copy(),
        options=options or {},
    )
