"""Compile the kernels ahead, so that the first batch does not wait for it: `python -m pststream.benchmarks.warm`."""

import sys

import numpy as np
import pyarrow as pa

from pststream.domain.plan import DispatchGrid, space_plan
from pststream.domain.workload import WorkloadSample
from pststream.kernels.fold import duplicate_objects, judge_operations
from pststream.matching.deletions import build_deletions
from pststream.matching.live_filter import LiveFilter
from pststream.matching.matcher import match_objects
from pststream.matching.objects import sort_objects
from pststream.matching.segments import build_segment
from pststream.partitioning.registry import PLANNERS, make_plan
from pststream.routing.dispatch import DispatchIndex
from pststream.text.tokenizer import terms_of
from pststream.workload.cost import CostModel, worker_loads


def warm_kernels() -> None:
    """Take a world of one object and one subscription through every kernel."""
    lon, lat = (pa.array([value]).to_numpy() for value in (18.0, 59.0))
    listed = terms_of(pa.array(["coffee"]))
    terms, offsets = listed.values.to_numpy(), np.array([0, 1], np.int64)
    box = np.array([[17.0, 58.0, 19.0, 60.0]])
    sample = WorkloadSample(lon, lat, offsets, terms, box, np.zeros(1, np.int64), offsets, terms)
    cost = CostModel(1e-9, 1e-9, 1e-9, 1e-9)
    for planner in PLANNERS:
        worker_loads(sample, make_plan(planner, sample, 2, cost), cost)
    dispatch = DispatchIndex(space_plan("grid", DispatchGrid(0, 0, 90, 90, 2, 2), np.zeros(4), np.zeros(1), 1))
    dispatch.workers_of_pieces(box, offsets, terms)
    segment = build_segment(_row(box, terms))
    LiveFilter().live(lon, lat, offsets, terms)
    dispatch.route_objects(lon, lat, offsets, terms, np.ones(1, bool))
    units = dispatch.units_of_objects(lon, lat, offsets, terms)
    batch = sort_objects(lon, lat, np.zeros(1, np.int64), offsets, terms, units)
    deleted = build_deletions(pa.table({"subscription_key": [5], "end_at": [0]}))
    match_objects(batch, [segment], deleted["keys"], deleted["ends"], 1)
    zero = np.zeros(1, np.int64)
    duplicate_objects(offsets, zero, zero, zero, 32)
    judge_operations(offsets, zero, np.zeros(1, bool), zero, zero)


def _row(box: np.ndarray, terms: np.ndarray) -> pa.Table:
    sides = {side: pa.array(box[:, place]) for place, side in enumerate(("west", "south", "east", "north"))}
    return pa.table(
        {
            "subscription_key": pa.array([1]),
            **sides,
            "circle": pa.array([[18.0, 59.0, 1000.0]]),
            "clauses": pa.array([[terms.tolist()]]),
            "created_at": pa.array([0]),
            "end_at": pa.array([1]),
        }
    )


def main() -> int:
    """Compile; returns an exit code."""
    warm_kernels()
    return 0


if __name__ == "__main__":
    sys.exit(main())
