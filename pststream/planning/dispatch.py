"""Dispatch index of one plan: look up the workers that store each piece, and the workers each object is sent to.

This is the index grid-t of PS2Stream. It also looks up the unit of each (object, term) pair. Each class of plans has a
class of dispatch indexes; `make_dispatch` chooses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from pststream.base.arrays import read_only
from pststream.kernels.matching.postings import LiveTerms, make_term_table
from pststream.kernels.routing.dispatch import (
    PlanArrays,
    find_owner_units,
    find_piece_workers,
    make_serving_codes,
    mark_live_objects,
    route,
)
from pststream.kernels.routing.pyramid import Pyramid, build_pyramid
from pststream.kernels.routing.tree_walk import NodeArrays, find_object_units, find_range_owners
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.pieces import NO_UNIT, first_clauses, recorded_units
from pststream.plans.plan import ObjectPlan, PartitionPlan, SubscriptionPlan
from pststream.plans.plan_nodes import CHILDREN, PlanNodes
from pststream.plans.planner_sample import WorkloadSample
from pststream.queries.shapes.registry import SIDES


class TreeWalk:
    """The tree of a plan with what its walks need.

    unit_arrays  the plan of an object whose unit is found: each unit takes the place of a raster cell, and of a leaf
                 that the unit serves whole; so the kernels of other plans route objects by their units
    """

    def __init__(self, plan: PartitionPlan, nodes: PlanNodes) -> None:
        self._plan = plan
        self._nodes = make_node_arrays(nodes)
        units, none = np.arange(plan.units, dtype=np.int32), np.zeros(plan.units + 1, np.int64)
        no_terms, no_units = np.empty(0, np.int64), np.empty(0, np.int32)
        worker = np.ascontiguousarray(plan.unit_worker, np.int32)
        self.unit_arrays = PlanArrays(units, units, none, no_terms, no_units, none, no_units, worker)

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return sum(array.nbytes for array in self._nodes)

    def units_of_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray
    ) -> np.ndarray:
        """Return the unit of each object: int64[objects].

        lon, lat             float64[n]            degrees
        term_offsets, terms  int64[n+1], int64[m]  distinct terms of each object; those that no query of the sample has
                                                   change nothing
        """
        cells, columns = self._plan.grid.cell(lon, lat), self._plan.grid.columns
        offsets, words = np.ascontiguousarray(term_offsets, np.int64), _column(terms, np.int64)
        units = find_object_units(cells, columns, offsets, words, self._plan.cell_leaf, self._nodes, CHILDREN)
        return units.astype(np.int64)

    def workers_of_ranges(self, ranges: np.ndarray, posted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers of the units that each range touches: offsets int64[n+1], workers int32[k], ascending
        inside a range. The arguments are those of `find_range_owners`.
        """
        return find_range_owners(ranges, posted, self._nodes, self.unit_arrays.unit_worker, self._plan.workers)

    def units_of_ranges(self, ranges: np.ndarray, posted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the units that each range touches, as `workers_of_ranges` returns workers."""
        return find_range_owners(ranges, posted, self._nodes, self.unit_arrays.leaf_unit, self._plan.units)


def make_node_arrays(nodes: PlanNodes) -> NodeArrays:
    """Return a tree as kernels take it."""
    first_child, children = nodes.child_slices()
    known, total = nodes.known_keywords()
    # List the nodes of each keyword, as an object looks up each of its words once for all nodes.
    node = np.repeat(np.arange(nodes.count, dtype=np.int32), np.diff(nodes.term_offsets))
    order = np.lexsort((node, nodes.terms))
    keywords, counts = np.unique(nodes.terms, return_counts=True)
    return NodeArrays(
        rectangle=nodes.rectangle,
        by_text=nodes.by_text,
        unit=nodes.unit,
        objects=nodes.objects,
        keywords=make_term_table(keywords, np.arange(len(keywords))),
        node_offsets=np.append(0, np.cumsum(counts)),
        listing=node[order],
        asked=nodes.asked[order],
        holders=nodes.holders[order],
        first_child=first_child,
        children=children,
        known=known,
        total=total,
        shares=nodes.queries / max(int(nodes.queries.sum()), 1),
        start=nodes.starts().astype(np.int32),
    )


def plan_arrays(plan: PartitionPlan) -> PlanArrays:
    """Return the arrays of a plan as kernels take them."""
    return PlanArrays(*(getattr(plan, name) for name in PlanArrays._fields))


@dataclass(frozen=True)
class DispatchIndex:
    """Look-ups under one plan. Only the plan is pickled; the other arrays are derived on first use.

    Source: grid-t of PS2Stream, section IV-C. Departure from the paper: H1 (term to worker, per cell) is one function
    of the arrays of the plan, shared by all raster cells of a leaf, so its size does not grow with the raster; H2 (live
    terms) is a filter that the caller applies first.
    """

    plan: PartitionPlan

    def __reduce__(self) -> tuple[Callable[..., "DispatchIndex"], tuple[PartitionPlan]]:
        return type(self), (self.plan,)

    @cached_property
    def arrays(self) -> PlanArrays:
        """The arrays of the plan as kernels take them."""
        return plan_arrays(self.plan)

    @cached_property
    def codes(self) -> Pyramid:
        """A pyramid to find the workers, and the leaves partitioned by text, in any rectangle of the raster."""
        grid, workers = self.plan.grid, self.plan.workers
        raster = make_serving_codes(self.arrays, workers)
        return build_pyramid(raster, grid.columns, grid.rows, workers + self.plan.leaves)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, including the derived ones."""
        return sum(array.nbytes for array in (*self.arrays, *self.codes) if isinstance(array, np.ndarray))

    @property
    def filters(self) -> int:
        """Number of filters of live terms that objects are routed by."""
        return 1

    def filter_of(self, worker: int) -> int:
        """Return which of the filters has the live terms of a worker."""
        return 0

    def workers_of_rows(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that store each piece, as `workers_of_pieces` does; rows: of the worker index, the posted
        clause first.
        """
        boxes = np.column_stack([rows.column(side).to_numpy() for side in SIDES])
        return self.workers_of_pieces(boxes, *first_clauses(rows.column("clauses")))

    def workers_of_sample(self, sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that store each sampled piece, as `workers_of_pieces` does."""
        return self.workers_of_pieces(sample.boxes, sample.post_offsets, sample.post_terms)

    def workers_of_pieces(
        self, boxes: np.ndarray, post_offsets: np.ndarray, post_terms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that store each piece: the owners of all its raster cells and posting terms.

        boxes                     float64[n, 4]        west, south, east, north, degrees; west <= east
        post_offsets, post_terms  int64[n+1], int64[m] terms of the clause that the piece is posted under
        Returns offsets int64[n+1], workers int32[k], ascending inside a piece; none for a piece without a term.
        """
        return find_piece_workers(
            self._ranges(boxes),
            np.ascontiguousarray(post_offsets, np.int64),
            _column(post_terms, np.int64),
            self.arrays,
            self.codes,
            self.plan.workers,
        )

    def pieces_of_others(self, keys: np.ndarray, units: np.ndarray, worker: int) -> np.ndarray:
        """Return which pieces of a worker's segment the plan gives to other workers: int64[p]; none, as a worker probes
        only its own raster cells and terms.

        keys   int64[n]  subscription keys
        units  int32[n]  recorded units; empty: none are recorded
        """
        return np.empty(0, np.int64)

    def route_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, live: Sequence[LiveTerms]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that each object is sent to: the owners of its live terms in its raster cell.

        lon, lat             float64[n]            degrees
        term_offsets, terms  int64[n+1], int64[m]  distinct terms of each object
        live                 the live terms of each of the `filters`
        Returns object int32[k], ascending, and worker int32[k], ascending inside an object, one entry for each pair. An
        object without a live term has none.
        """
        return route(
            _column(lon, np.float64),
            _column(lat, np.float64),
            self._places(lon, lat, term_offsets, terms),
            np.ascontiguousarray(term_offsets, np.int64),
            _column(terms, np.int64),
            live[0],
            self.arrays,
            self.plan.workers,
        )

    def units_of_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, worker: int = -1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the unit that serves each (object, term), and the number of objects with a term of each unit.

        worker: the worker whose units are wanted; below 0: those of all workers
        Returns int32, parallel to `terms` (CSR by object), -1 for units of other workers; and int64[units].
        """
        places = self._places(lon, lat, term_offsets, terms)
        words = np.ascontiguousarray(term_offsets, np.int64), _column(terms, np.int64)
        return find_owner_units(places, *words, self.arrays, worker)

    def _places(self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return the place of each object in `arrays.cell_leaf`: its raster cell, int64[objects]."""
        return self.plan.grid.cell(lon, lat)

    def _ranges(self, boxes: np.ndarray) -> np.ndarray:
        return compute_cell_ranges(self.plan.grid, np.asarray(boxes, dtype=np.float64))


@dataclass(frozen=True)
class ObjectDispatch(DispatchIndex):
    """Look-ups under a plan that shares by object: its tree first gives each object its unit (`TreeWalk`),
    which then has the part that the raster cell of an object has under other plans.
    """

    plan: ObjectPlan

    @cached_property
    def _tree(self) -> TreeWalk:
        return TreeWalk(self.plan, self.plan.nodes)

    @cached_property
    def arrays(self) -> PlanArrays:
        """The arrays of the units as kernels take them."""
        return self._tree.unit_arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, including the derived ones."""
        return sum(array.nbytes for array in self.arrays) + self.plan.cell_leaf.nbytes + self._tree.nbytes

    def workers_of_pieces(
        self, boxes: np.ndarray, post_offsets: np.ndarray, post_terms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that store each piece: the owners of all units that its box touches."""
        return self._tree.workers_of_ranges(self._ranges(boxes), np.diff(post_offsets) > 0)

    def _places(self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return the unit of each object: int64[objects]."""
        return self._tree.units_of_objects(lon, lat, term_offsets, terms)


@dataclass(frozen=True)
class SubscriptionDispatch(DispatchIndex):
    """Look-ups under a plan that shares by subscription: the owner of a piece is recorded with it.

    An object goes to each worker with a live term of the object near its point, so each worker has a filter.
    """

    plan: SubscriptionPlan

    @property
    def filters(self) -> int:
        """Number of filters of live terms: one for each worker."""
        return self.plan.workers

    def filter_of(self, worker: int) -> int:
        """Return which of the filters has the live terms of a worker."""
        return worker

    def workers_of_rows(self, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the owner of each piece, as `workers_of_pieces` does."""
        return self._owners(rows.column("subscription_key").to_numpy(), recorded_units(rows.column("unit")))

    def workers_of_sample(self, sample: WorkloadSample) -> tuple[np.ndarray, np.ndarray]:
        """Return the owner of each sampled piece, as `workers_of_pieces` does."""
        return self._owners(sample.piece_key, sample.recorded_units)

    def _owners(self, keys: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(keys) + 1), self.plan.owner_workers(keys, units)

    def pieces_of_others(self, keys: np.ndarray, units: np.ndarray, worker: int) -> np.ndarray:
        """Return which pieces of a worker's segment the plan gives to other workers: int64[p].

        After a migration two workers have the pieces of a subscription until `maintain`; only its owner emits its
        pairs.
        """
        recorded = units if len(units) else np.full(len(keys), NO_UNIT, np.int32)
        return np.flatnonzero(self.plan.owner_workers(keys, recorded) != worker)

    def route_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, live: Sequence[LiveTerms]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the workers that each object is sent to: those with a live term of the object."""
        goes = np.zeros((self.plan.workers, len(lon)), np.bool_)
        points = _column(lon, np.float64), _column(lat, np.float64)
        words = np.ascontiguousarray(term_offsets, np.int64), _column(terms, np.int64)
        for worker, of_worker in enumerate(live):
            mark_live_objects(*points, *words, of_worker, goes[worker])
        position, worker_of = np.nonzero(goes.T)
        return position.astype(np.int32), worker_of.astype(np.int32)

    def units_of_objects(
        self, lon: np.ndarray, lat: np.ndarray, term_offsets: np.ndarray, terms: np.ndarray, worker: int = -1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the unit of a worker for each (object, term), and the number of its objects with a term.

        worker: at least 0, as any worker may serve a subscription with a term
        """
        unit = int(np.flatnonzero(self.plan.unit_worker == worker)[0])
        counts = np.zeros(self.plan.units, np.int64)
        counts[unit] = np.count_nonzero(np.diff(term_offsets))
        return np.full(len(terms), unit, np.int32), counts


def make_dispatch(plan: PartitionPlan) -> DispatchIndex:
    """Return the dispatch index of a plan."""
    if isinstance(plan, SubscriptionPlan):
        return SubscriptionDispatch(plan)
    return ObjectDispatch(plan) if isinstance(plan, ObjectPlan) else DispatchIndex(plan)


def _column(values: np.ndarray, dtype: type) -> np.ndarray:
    return read_only(np.ascontiguousarray(values, dtype))
