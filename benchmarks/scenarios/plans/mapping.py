"""Compute the bytes that would move at a repartitioning, for each method of mapping new workers to existing ones."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.support.measured_homes import frequencies
from benchmarks.support.paper_workloads import OBJECTS_ALONE, describe_workload, draw_synthetic_sample
from pststream.base import names
from pststream.base.progress import Progress, Steps
from pststream.matching.segments import COLUMNS
from pststream.pipeline.calibrate.synthetic_homes import clause_lists, index_table
from pststream.planning.balancing.contract import count_shared_pieces, map_workers
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import make_plan
from pststream.plans.pieces import rarest_clause_first
from pststream.settings import Settings
from pststream.state.data_files import FileWriter
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import synthetic_objects, synthetic_subscriptions

SIZES = {"small": (20_000, 50_000), "full": (200_000, 1_000_000)}
PLANNERS = ("kd_tree", "hypergraph")
BEFORE, AFTER = SubscriptionStyle("q1", frequent_share=0.3), SubscriptionStyle("q2", frequent_share=0.3)


def map_greedily(shared: np.ndarray) -> np.ndarray:
    """Map the pair of workers with the largest overlap, then the largest among the others, and so on."""
    free, label = shared.astype(np.float64), np.empty(len(shared), np.int64)
    for _ in range(len(shared)):
        old, new = divmod(int(free.argmax()), len(shared))
        label[new] = old
        free[old, :] = free[:, new] = -1.0
    return label


MAPPINGS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "hungarian": lambda shared, seed: map_workers(shared),
    "greedy": lambda shared, seed: map_greedily(shared),
    "first": lambda shared, seed: np.arange(len(shared)),
    "random": lambda shared, seed: np.random.default_rng([seed, 4]).permutation(len(shared)),
}
"""Mappings by name: that of the product, and those that it is compared with. They take the counts of
`count_shared_pieces` and a seed, and return the worker that each worker of the new plan becomes."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the bytes of `worker_index` that move when a plan for Q2 replaces one for Q1, by mapping and planner.

    The subscriptions are those of Q2, which exist when the new plan is made. A piece moves to each worker that must
    store it and does not yet. Nothing is moved: the bytes are computed from the two plans.
    """
    objects, subscriptions = SIZES[scale]
    cost = CostModel.of(settings)
    first, second = (draw_synthetic_sample(objects, subscriptions, seed, style) for style in (BEFORE, AFTER))
    row_bytes = _row_bytes(seed)
    figures: dict[str, Any] = {"subscriptions": subscriptions, "row_bytes": round(row_bytes, 1)}
    for name, style in (("before", BEFORE), ("after", AFTER)):
        figures[f"workload_{name}"] = describe_workload(style, OBJECTS_ALONE)
    steps = Steps(progress, len(PLANNERS) * len(MAPPINGS))
    for planner in PLANNERS:
        before, after = (make_plan(planner, sample, settings.workers, cost) for sample in (first, second))
        shared = count_shared_pieces(second, before, after)
        stored = int(count_shared_pieces(second, after, after).diagonal().sum())
        for method, map_by in MAPPINGS.items():
            label = map_by(shared, seed)
            kept = int(shared[label, np.arange(len(label))].sum())
            figures[f"{planner}_{method}_moved_bytes"] = round((stored - kept) * row_bytes)
            figures[f"{planner}_{method}_moved_share"] = round(1 - kept / stored, 4)
            steps.end(f"{planner}, {method}: {1 - kept / stored:.1%} of the pieces move")
    return {"figures": figures, "floor": {}, "targets": {}}


def _row_bytes(seed: int) -> float:
    """Measure the bytes of a row of `worker_index` in its data file."""
    objects = synthetic_objects(20_000, seed)
    drawn = synthetic_subscriptions(100_000, seed, objects, AFTER)
    clauses, _, _ = rarest_clause_first(clause_lists(drawn), frequencies(objects).frequency)
    table = index_table(drawn, clauses).select(COLUMNS)
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        writer = FileWriter(f"{folder}/{names.WORKER_INDEX}", table.schema)
        for rows in table.to_batches():
            writer.write(rows)
        file = writer.close()
    return file.bytes / file.rows if file else 0.0
