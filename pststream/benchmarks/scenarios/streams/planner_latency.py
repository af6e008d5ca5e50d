"""Benchmark the seconds from landing to match by planner, at a moderate rate (PS2Stream, figure 8)."""

import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from pststream.benchmarks.scenarios.streams.freshness import (
    OBJECTS,
    SECONDS,
    fill_home,
    measure_delays,
    write_parts,
)
from pststream.benchmarks.support.paper_workloads import describe_workload
from pststream.benchmarks.support.steps import Steps
from pststream.generator.draw_subscriptions import KINDS, SubscriptionStyle
from pststream.pipeline.engine.running_engine import stop_engine
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.home import Home

SIZES = {"small": (10_000, 20), "full": (1_000_000, 120)}
"""Subscriptions, and files that land for each planner."""

PLANNERS = ("hybrid", "metric", "kd_tree")
VOCABULARY = 50_000
"""Words of the files that `write_objects` and `write_requests` generate."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the median and the greatest seconds from landing to match, for each workload of the paper and planner.

    Source: PS2Stream, figure 8, which has the average time of a tuple in the system. Departure: a tuple waits for its
    micro-batch here, so this is the latency of a batch, and planners can change the matching part of it only.
    """
    subscriptions, files = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects_per_second": round(OBJECTS / SECONDS)}
    steps = Steps(progress, len(KINDS) * len(PLANNERS), alike=True)
    for kind, planner in product(KINDS, PLANNERS):
        style = SubscriptionStyle(kind)
        figures[f"{kind}_workload"] = describe_workload(style, "objects alone", VOCABULARY)
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as name:
            folder, home = Path(name), Home(f"{name}/home")
            fill_home(home, replace(settings, planner=planner), folder, subscriptions, seed, progress, style)
            stop_engine()
            (folder / "landing" / "objects").mkdir(parents=True)
            delays = measure_delays(home, settings, folder / "landing", write_parts(folder, files, seed))
        figures |= {f"{kind}_{planner}_{figure}": value for figure, value in delays.items()}
        steps.end(f"{kind}, {planner}: median {delays['median_seconds']} s")
    return {"figures": figures, "floor": {}, "targets": {}}
