"""Benchmark throughput and memory under PS2Stream's planners, on its workloads, by the real job (figures 6, 7, 9, 10).

The benchmark `paper-model` judges the same planners by Definition 1 alone.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

from pststream.benchmarks.scenarios.plans.planners import WORKERS, fill_home, measured
from pststream.benchmarks.scenarios.plans.planners_large import WANTED
from pststream.benchmarks.support.object_sources import CityObjects, ObjectSource
from pststream.benchmarks.support.paper_workloads import COUNTRIES, FIVE_A_REQUEST, describe_workload
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_least
from pststream.generator.draw_subscriptions import KINDS, SubscriptionStyle
from pststream.generator.places import city_places
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": (20_000, 20_000, 1), "full": (500_000, 300_000, 3)}
"""Subscriptions, objects, and times that the objects are matched under every plan."""

PLANNERS = ("hybrid", "kd_tree", "plain_kd_tree", "grid", "r_tree", "metric", "frequency", "hypergraph")


def run(
    country: str,
    scale: str,
    seed: int,
    settings: Settings,
    progress: Progress,
    *,
    workloads: Sequence[str] = KINDS,
    objects_from: ObjectSource | None = None,
) -> dict[str, Any]:
    """Measure each planner on Q1, Q2 and Q3 in the cities of a country (one of COUNTRIES), or on the objects of a file.

    Departures from the paper: 5,000,000 (Q1) and 10,000,000 subscriptions there.
    """
    subscriptions, objects, rounds = SIZES[scale]
    source = objects_from or CityObjects(city_places(*COUNTRIES[country]))
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS}
    targets = {}
    steps = Steps(progress, len(workloads), alike=True)
    for name in workloads:
        style = SubscriptionStyle(name)
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = fill_home(f"{folder}/home", subscriptions, objects, style, seed, source, progress)
            figures[f"{name}_workload"] = describe_workload(style, FIVE_A_REQUEST, source.description)
            figures |= measured(name, bench, settings, PLANNERS, rounds, progress)
        ratio = f"{name}_hybrid_over_best"
        steps.end(f"workload {name}: hybrid over the best other {figures[ratio]}")
        if scale == "full":
            targets[ratio] = at_least(figures[ratio], WANTED[name])
    return {"figures": figures, "floor": {}, "targets": targets}
