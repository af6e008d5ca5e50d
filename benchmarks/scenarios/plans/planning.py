"""Benchmark the making of plans from a sample: seconds and memory of each planner, two steps of the hybrid planner."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.paper_workloads import OBJECTS_ALONE, describe_workload, draw_synthetic_sample
from benchmarks.support.targets import at_most
from pststream.base import names
from pststream.base.progress import Progress, Steps
from pststream.kernels.planning.assign_nodes import choose_partition_counts
from pststream.planning.load_model import CostModel, LoadRates
from pststream.planning.planners.hybrid import LeafNode, assign_to_workers
from pststream.planning.planners.rectangle_cuts import Rectangle
from pststream.planning.planners.registry import make_plan
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (5_000, 5_000, 1_000), "full": (1_000_000, 1_000_000, 10_000)}
"""Sampled objects, sampled subscriptions, nodes."""

STYLE = SubscriptionStyle("q3", frequent_share=0.3)
WORKERS = 8


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the seconds of each planner, the peak memory, and the seconds of two steps of the hybrid planner."""
    objects, subscriptions, nodes = SIZES[scale]
    sample, cost = draw_synthetic_sample(objects, subscriptions, seed, STYLE), CostModel.of(settings)
    figures: dict[str, Any] = {"objects": objects, "subscriptions": subscriptions, "nodes": nodes}
    figures["workload"] = describe_workload(STYLE, OBJECTS_ALONE)
    warm = draw_synthetic_sample(1_000, 1_000, seed, STYLE)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak resident memory of this process
    steps = Steps(progress, len(names.PLANNERS) + 1)
    for name in names.PLANNERS:
        make_plan(name, warm, WORKERS, cost)
        figures[f"{name}_seconds"] = _seconds(partial(make_plan, name, sample, WORKERS, cost))
        steps.end(f"{name}: {figures[f'{name}_seconds']} s")
    figures["peak_memory_gb"] = _peak_gb()
    for count in (10, nodes):
        figures |= _steps(np.random.default_rng([seed, 7]), count)
    steps.end(f"{nodes} nodes: parts shared in {figures['share_seconds']} s, merged in {figures['merge_seconds']} s")
    targets = {}
    if scale == "full":
        targets = {
            f"{name}_seconds": at_most(figures[f"{name}_seconds"], 20.0)
            for name in names.PLANNERS
            if name != names.AUTO
        }
        targets["peak_memory_gb"] = at_most(figures["peak_memory_gb"], 3.0)
        targets |= {step: at_most(figures[step], 1.0) for step in ("share_seconds", "merge_seconds")}
    return {"figures": figures, "floor": {}, "targets": targets}


def _steps(rng: np.random.Generator, nodes: int) -> dict[str, float]:
    """Measure the seconds to choose partition counts (1.2 partitions per node, at most 3) and to assign the nodes."""
    sums = np.sort(rng.lognormal(0.0, 1.0, (nodes, 3)), axis=1)[:, ::-1].ravel()
    made, rates = _nodes(rng, nodes), LoadRates(2e-12, 2e-6, 2e-6)
    return {
        "share_seconds": _seconds(lambda: choose_partition_counts(np.arange(nodes + 1) * 3, sums, nodes * 6 // 5)),
        "merge_seconds": _seconds(lambda: assign_to_workers(made, WORKERS, rates)),
    }


def _nodes(rng: np.random.Generator, count: int) -> list[LeafNode]:
    """Make nodes with widely spread loads."""
    objects, subscriptions = (rng.lognormal(4.0, 1.5, count).astype(np.int64) + 1 for _ in range(2))
    place = Rectangle(0, 0, 0, 0)
    figures = zip(objects.tolist(), subscriptions.tolist())
    return [LeafNode(place, False, None, o, s, 0, 2e-12 * o * s + 2e-6 * (o + s)) for o, s in figures]


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 5)


def _peak_gb() -> float:
    """Return the peak resident memory of this process, the sample included."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return round(int(fields["VmHWM"].split()[0]) / 1024**2, 2)
