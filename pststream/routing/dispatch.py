"""Dispatch index of one plan: look up the workers that store each piece, and the workers each object is sent to.

This is the index grid-t of PS2Stream. It also looks up the unit of each (object, term) pair.

Under a plan that shares by subscription the owner of a piece is recorded with it (`domain/owners.py`), and an object
goes to each worker with a live term of the object near its point, so each worker has a filter of live terms.

Under a plan that shares by object, the tree of the plan first gives each object its unit (`space/tree_walk.py`). The
unit then has the part that the raster cell of an object has under other plans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pststream.domain.plan import PartitionPlan
from pststream.domain.read_only import read_only
from pststream.kernels.matching.bloom_filter import LiveTerms
from pststream.kernels.routing.dispatch import (
    PlanArrays,
    find_owner_units,
    find_piece_workers,
    make_serving_codes,
    mark_live_objects,
    route,
)
from pststream.kernels.routing.pyramid import Pyramid, build_pyramid
from pststream.samples.raster_ranges import compute_cell_ranges
from pststream.space.tree_walk import TreeWalk


@dataclass(frozen=True)
class DispatchIndex:
    """Look-ups under one plan. Only the plan is pickled; the other arrays are derived on first use.

    Source: grid-t of PS2Stream, section IV-C. Departure from the paper: H1 (term to worker, per cell) is one function
    of the arrays of the plan, shared by all raster cells of a leaf, so its size does not grow with the raster; H2 (live
    terms) is a filter that the caller applies first.
    """

    plan: PartitionPlan

    def __reduce__(self) -> tuple[Callable[..., "DispatchIndex"], tuple[PartitionPlan]]:
        return DispatchIndex, (self.plan,)

    @cached_property
    def _tree(self) -> TreeWalk | None:
        """The walk down the tree of a plan that shares by object."""
        nodes = self.plan.tree_by_object
        return None if nodes is None else TreeWalk(self.plan, nodes)

    @cached_property
    def arrays(self) -> PlanArrays:
        """The arrays of the plan as kernels take them; of a plan that shares by object, those of its units."""
        if self._tree is not None:
            return self._tree.unit_arrays
        return PlanArrays(
            cell_leaf=_array(self.plan.cell_leaf, np.int32),
            leaf_unit=_array(self.plan.leaf_unit, np.int32),
            term_offsets=_array(self.plan.term_offsets, np.int64),
            terms=_array(self.plan.terms, np.int64),
            term_unit=_array(self.plan.term_unit, np.int32),
            spread_offsets=_array(self.plan.spread_offsets, np.int64),
            spread_unit=_array(self.plan.spread_unit, np.int32),
            unit_worker=_array(self.plan.unit_worker, np.int32),
        )

    @cached_property
    def codes(self) -> Pyramid:
        """A pyramid to find the workers, and the leaves partitioned by text, in any rectangle of the raster."""
        grid, workers = self.plan.grid, self.plan.workers
        raster = make_serving_codes(self.arrays, workers)
        return build_pyramid(raster, grid.columns, grid.rows, workers + self.plan.leaves)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, including the derived ones."""
        derived = self.codes if self._tree is None else ()
        arrays = sum(array.nbytes for array in (*self.arrays, *derived) if isinstance(array, np.ndarray))
        return arrays if self._tree is None else arrays + self.plan.cell_leaf.nbytes + self._tree.nbytes

    def workers_of_pieces(
        self, boxes: np.ndarray, post_offsets: np.ndarray, post_terms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that store each piece: the owners of all its raster cells and posting terms, or, under a
        plan that shares by object, of all units that its box touches.

        boxes                     float64[n, 4]        west, south, east, north, degrees; west <= east
        post_offsets, post_terms  int64[n+1], int64[m] terms of the clause that the piece is posted under
        Returns offsets int64[n+1], workers int32[k], ascending inside a piece; none for a piece without a term.
        """
        ranges = compute_cell_ranges(self.plan.grid, np.asarray(boxes, dtype=np.float64))
        if self._tree is not None:
            return self._tree.workers_of_ranges(ranges, np.diff(post_offsets) > 0)
        return find_piece_workers(
            ranges,
            _array(post_offsets, np.int64),
            _column(post_terms, np.int64),
            self.arrays,
            self.codes,
            self.plan.workers,
        )

    def route_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, live: LiveTerms
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that each object is sent to: the owners of its live terms in its raster cell; under a plan
        that shares by object, the owner of its unit if it has a live term.

        lon, lat             float64[n]            degrees
        term_offsets, terms  int64[n+1], int64[m]  distinct terms of each object
        Returns object int32[k], ascending, and worker int32[k], ascending inside an object, one entry for each pair. An
        object without a live term has none.
        """
        return route(
            _column(lon, np.float64),
            _column(lat, np.float64),
            self._places(lon, lat, term_offsets, terms),
            _array(term_offsets, np.int64),
            _column(terms, np.int64),
            live,
            self.arrays,
            self.plan.workers,
        )

    def route_by_subscription(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, live: Sequence[LiveTerms]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that each object is sent to under a plan that shares by subscription.

        live: the live terms of each worker; the other arguments and the result are those of `route_objects`
        """
        goes = np.zeros((self.plan.workers, len(lon)), np.bool_)
        points = _column(lon, np.float64), _column(lat, np.float64)
        words = _array(term_offsets, np.int64), _column(terms, np.int64)
        for worker, of_worker in enumerate(live):
            mark_live_objects(*points, *words, of_worker, goes[worker])
        place, worker_of = np.nonzero(goes.T)
        return place.astype(np.int32), worker_of.astype(np.int32)

    def units_of_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, worker: int = -1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the unit that serves each (object, term), and the number of objects with a term of each unit.

        worker: the worker whose units are wanted; below 0: those of all workers, which a plan that shares by
                subscription does not have: any worker may serve a subscription with the term
        Returns int32, parallel to `terms` (CSR by object), -1 for units of other workers; and int64[units].
        """
        if self.plan.by_subscription:
            return self._units_of_worker(term_offsets, terms, worker)
        places = self._places(lon, lat, term_offsets, terms)
        return find_owner_units(places, _array(term_offsets, np.int64), _column(terms, np.int64), self.arrays, worker)

    def _places(self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return the raster cell of each object, or its unit under a plan that shares by object: int64[objects]."""
        if self._tree is None:
            return self.plan.grid.cell(lon, lat)
        return self._tree.units_of_objects(lon, lat, term_offsets, terms)

    def _units_of_worker(
        self, term_offsets: np.ndarray, terms: np.ndarray, worker: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `units_of_objects` under a plan that shares by subscription: a worker has one unit."""
        unit = int(np.flatnonzero(self.plan.unit_worker == worker)[0])
        counts = np.zeros(self.plan.units, np.int64)
        counts[unit] = np.count_nonzero(np.diff(term_offsets))
        return np.full(len(terms), unit, np.int32), counts


def _array(values: np.ndarray, dtype: type) -> np.ndarray:
    """Return a contiguous array of this type, without a copy if it is one already."""
    return np.ascontiguousarray(values, dtype=dtype)


def _column(values: np.ndarray, dtype: type) -> np.ndarray:
    """Return a contiguous, read-only array of this type."""
    return read_only(_array(values, dtype))
