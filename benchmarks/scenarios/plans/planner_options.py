"""Measure, by Definition 1, how much each option of the planners changes the loads: one table for each option."""

from collections.abc import Iterator
from typing import Any

from benchmarks.scenarios.plans.paper_model import WORKERS, spread
from benchmarks.support.paper_workloads import DEFINITION_1, draw_paper_sample
from pststream.base.progress import Progress, Steps
from pststream.planning.live_terms import sort_sample
from pststream.planning.load_model import compute_worker_loads
from pststream.planning.planners.hybrid import split_by_similarity
from pststream.planning.planners.registry import make_plan
from pststream.planning.raster import COLUMNS, ROWS, fit_raster
from pststream.planning.region_counts import build_region_counts
from pststream.plans.planner_sample import WorkloadSample
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (4_000, 4_000, 1), "full": (20_000, 40_000, 3)}
"""Objects, subscriptions, seeds."""

VOCABULARY = 200_000
WORKLOADS = {
    "q3_and": SubscriptionStyle("q3", "and"),
    "q3_or_even": SubscriptionStyle("q3", "or", frequent_share=0.0),
}
"""Q3 of the paper, and Q3 whose keywords are drawn evenly from the vocabulary, on which phase one acts."""

OPTIONS: dict[tuple[str, str], tuple[float, ...]] = {
    ("hybrid", "delta"): (0.0, 0.15, 0.5, 0.8, 0.95, 1.0),
    ("hybrid", "sigma"): (1.01, 1.1, 1.2, 1.5, 2.0),
    ("hybrid", "theta"): (8, 32, 128, 512),
    ("hybrid_sum", "delta"): (0.0, 0.15, 0.5, 0.8, 0.95, 1.0),
    ("hybrid_sum", "sigma"): (1.01, 1.1, 1.2, 1.5, 2.0),
    ("hybrid_sum", "theta"): (8, 32, 128, 512),
    ("grid", "blocks"): (16, 32, 64, 128),
    ("r_tree", "leaves"): (64, 256, 1024, 4096),
}
"""Planner (`hybrid_sum`: with the least sum as objective) and option, and the values tried."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the sum of the loads, the greatest load and the imbalance: median, least and greatest over the seeds.

    `delta_D_regions` are the regions that phase one finds with delta D, and those of them that it reserves for text.
    """
    objects, subscriptions, seeds = SIZES[scale]
    figures: dict[str, Any] = {"objects": objects, "subscriptions": subscriptions, "vocabulary": VOCABULARY}
    figures |= {"workers": WORKERS, "seeds": seeds}
    steps = Steps(progress, len(WORKLOADS) * (len(OPTIONS) + 1))
    for workload, style in WORKLOADS.items():
        samples = [
            draw_paper_sample(objects, subscriptions, one, style, VOCABULARY) for one in range(seed, seed + seeds)
        ]
        for delta, regions, by_text in _count_regions(samples[0]):
            figures[f"{workload}_delta_{delta:g}_regions"] = regions
            figures[f"{workload}_delta_{delta:g}_regions_by_text"] = by_text
        steps.end(f"{workload}: regions of phase one")
        for (planner, option), values in OPTIONS.items():
            for value in values:
                name = f"{workload}_{planner}_{option}_{value:g}"
                figures |= _measure(name, samples, planner, option, value)
            steps.end(f"{workload}: {option} of {planner}")
    return {"figures": figures, "floor": {}, "targets": {}}


def _measure(
    name: str, samples: list[WorkloadSample], planner: str, option: str, value: float
) -> dict[str, list[float]]:
    """Return the figures of one value of an option."""
    options: dict[str, object] = {option: value}
    if planner == "hybrid_sum":
        planner, options["objective"] = "hybrid", "sum"
    plans = [make_plan(planner, sample, WORKERS, DEFINITION_1, options) for sample in samples]
    loads = [compute_worker_loads(sample, plan, DEFINITION_1) for sample, plan in zip(samples, plans)]
    return {
        f"{name}_total": spread([load.total for load in loads]),
        f"{name}_greatest": spread([load.max for load in loads]),
        f"{name}_imbalance": spread([load.imbalance for load in loads]),
    }


def _count_regions(sample: WorkloadSample) -> Iterator[tuple[float, int, int]]:
    """Yield each delta, and the number of regions of phase one, of all and by text."""
    grid = fit_raster(sample.lon, sample.lat, sample.boxes, COLUMNS, ROWS)
    counts, rows = build_region_counts(sample, grid), sort_sample(sample, grid)
    for delta in OPTIONS["hybrid", "delta"]:
        regions = split_by_similarity(rows, counts, delta, 128)
        yield delta, len(regions), sum(region.by_text for region in regions)
