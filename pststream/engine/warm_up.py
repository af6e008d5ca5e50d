"""Call the kernels for routing and matching once in a process, so that compiling them is not in measured times.

A process compiles a kernel, or loads its machine code, at the first call. The watcher calls this before the first file
comes; every routing and matching task calls it before its clock starts.
"""

from functools import lru_cache

import numpy as np
import pyarrow as pa

from pststream.kernels.compile import cache_folder
from pststream.kernels.routing.dispatch import group_by_worker
from pststream.matching.matcher import LiveTermFilter, make_probe, match_objects, sort_objects
from pststream.matching.segments import NO_VERIFIED, build_deletions, build_segment
from pststream.planning.dispatch import make_dispatch
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan, subscription_plan, tree_plan
from pststream.plans.plan_nodes import CHILDREN, PlanNodes
from pststream.queries.shapes.registry import PIECE_COLUMNS, SIDES


def is_compiled(package: str, name: str) -> bool:
    """Whether this node has the machine code of the kernel of this name in a package of `kernels`."""
    return any(cache_folder().glob(f"{package}_*/*.{name}-*.nbi"))


@lru_cache(maxsize=1)
def load_kernels() -> None:
    """Call the kernels for dispatch, index and matching with one object and one subscription; once a process.

    Arrays that come from Arrow are read-only, which is a type of its own for the compiler.
    """
    lon, lat, terms = (pa.array([value]).to_numpy() for value in (18.0, 59.0, 7))
    offsets = np.array([0, 1], np.int64)
    box = np.array([[17.0, 58.0, 19.0, 60.0]])
    grid = DispatchGrid(0, 0, 90, 90, 2, 2)
    for plan in (_divide_by_text(grid), space_plan("grid", grid, np.zeros(4), np.zeros(1), 1)):
        dispatch = make_dispatch(plan)
        dispatch.workers_of_pieces(box, offsets, terms)
        group_by_worker(*dispatch.route_objects(lon, lat, offsets, terms, [LiveTermFilter().arrays()]), 1)
    by_subscription = make_dispatch(subscription_plan("hash", grid, 1))
    by_subscription.route_objects(lon, lat, offsets, terms, [LiveTermFilter().arrays()])
    units, _ = dispatch.units_of_objects(lon, lat, offsets, terms, 0)
    batch = sort_objects(lon, lat, np.zeros(1, np.int64), offsets, terms, units)
    deleted = build_deletions(pa.table({"subscription_key": [5], "end_at": [0]}))
    match_objects(batch, 2 * [make_probe(build_segment(_row(box)), (deleted["keys"], deleted["ends"]))], 1)


def _divide_by_text(grid: DispatchGrid) -> PartitionPlan:
    """Return a plan of one worker, with a tree of a root and its children by text."""
    nodes = PlanNodes(
        parent=np.array([-1] + CHILDREN * [0], np.int32),
        rectangle=np.tile(np.array([0, 0, grid.columns - 1, grid.rows - 1], np.int32), (1 + CHILDREN, 1)),
        by_text=np.arange(1 + CHILDREN) == 0,
        unit=np.arange(-1, CHILDREN, dtype=np.int32),
        objects=np.zeros(1 + CHILDREN, np.int64),
        term_offsets=np.minimum(np.arange(2 + CHILDREN), 1),
        terms=np.array([7]),
        asked=np.ones(1, np.int64),
        holders=np.ones(1, np.uint8),
        queries=np.array([0, 1]),
    )
    return tree_plan("text", grid, nodes, np.zeros(CHILDREN), 1)


def _row(box: np.ndarray) -> pa.Table:
    return pa.table(
        {
            "subscription_key": pa.array([1]),
            **{column.name: pa.nulls(1, column.type) for column in PIECE_COLUMNS},
            **{column.name: pa.nulls(1, column.type) for column in NO_VERIFIED},
            **{side: pa.array(box[:, place]) for place, side in enumerate(SIDES)},
            "circle": pa.array([[18.0, 59.0, 1000.0]]),
            "clauses": pa.array([[[7]]]),
            "created_at": pa.array([0]),
            "end_at": pa.array([1]),
            "kind": pa.nulls(1, pa.string()),
            "unit": pa.nulls(1, pa.int64()),
        }
    )
