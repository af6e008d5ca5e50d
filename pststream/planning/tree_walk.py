"""Find the units of objects, and the owners of raster ranges, in the tree of a plan that shares by object."""

import numpy as np

from pststream.base.read_only import read_only
from pststream.kernels.matching.term_table import make_term_table
from pststream.kernels.routing.dispatch import PlanArrays
from pststream.kernels.routing.tree_walk import NodeArrays, find_object_units, find_range_owners
from pststream.plans.plan import PartitionPlan
from pststream.plans.plan_nodes import CHILDREN, PlanNodes


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
        offsets, words = np.ascontiguousarray(term_offsets, np.int64), read_only(np.ascontiguousarray(terms, np.int64))
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
