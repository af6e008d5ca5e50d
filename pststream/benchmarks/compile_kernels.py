"""Compile all kernels ahead of time by running them once: `python -m pststream.benchmarks.compile_kernels`.

`make setup` runs this, so that the first batch does not wait for the compiler.
"""

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.cost.load_model import CostModel, compute_worker_loads
from pststream.kernels.log_rules import apply_request_rules, find_duplicate_objects
from pststream.partitioning.registry import make_plan
from pststream.pipeline.engine.warm_up import load_kernels
from pststream.samples.posting_reads import make_sample_with_reads
from pststream.shapes.region import Region
from pststream.shapes.registry import pieces_of
from pststream.text.tokenizer import terms_of


def run_planning_kernels() -> None:
    """Run the kernels of planners and load models once, on one object and one subscription."""
    lon, lat = (pa.array([value]).to_numpy() for value in (18.0, 59.0))
    terms, offsets = terms_of(pa.array(["coffee"])).values.to_numpy(), np.array([0, 1], np.int64)
    box = np.array([[17.0, 58.0, 19.0, 60.0]])
    sample = make_sample_with_reads(
        lon=lon, lat=lat, term_offsets=offsets, terms=terms, boxes=box, piece_key=np.zeros(1, np.int64),
        post_offsets=offsets, post_terms=terms,
    )  # fmt: skip
    cost = CostModel(1e-9, 1e-9, 1e-9, 1e-9, 1e-9)
    for planner in names.PLANNERS:
        compute_worker_loads(sample, make_plan(planner, sample, 2, cost), cost)


def run_batch_kernels() -> None:
    """Run the kernels of ingest, routing and matching once, on one object and one subscription."""
    load_kernels()
    pieces_of(Region(((0.0, 0.0, 1.0, 1.0),), "polygon", ((0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0),)))
    offsets, zero = np.array([0, 1], np.int64), np.zeros(1, np.int64)
    find_duplicate_objects(offsets, zero, zero, zero, 32)
    apply_request_rules(offsets, zero, np.zeros(1, bool), zero, zero)


def main() -> int:
    """Compile all kernels in two processes; return the exit code."""
    with ProcessPoolExecutor(2) as processes:
        for half in [processes.submit(run) for run in (run_planning_kernels, run_batch_kernels)]:
            half.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
