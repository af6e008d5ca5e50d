"""Benchmark the seconds from landing to match by planner, at a moderate rate (PS2Stream, figure 8)."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.scenarios.streams.freshness import OBJECTS, measure_delays
from benchmarks.support.landing import SECONDS, fill_home, write_parts
from benchmarks.support.paper_workloads import OBJECTS_ALONE, OBJECTS_OF_FILES, describe_workload
from pststream.base.progress import Progress, Steps
from pststream.engine.spark_session import stop_spark
from pststream.pipeline.planning.plan import plan
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.workloads.draw_subscriptions import KINDS, SubscriptionStyle
from pststream.workloads.places import USA_BOUNDS, city_places

SIZES = {"small": (10_000, 20), "full": (1_000_000, 60)}
"""Subscriptions, and files that land for each planner."""

PLANNERS = ("hybrid", "metric", "kd_tree")


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the median and the greatest seconds from landing to match, for each workload of the paper and planner.

    The home of a workload is filled once, and planned again by each planner in turn.

    Source: PS2Stream, figure 8, which has the average time of a tuple in the system. Departure: a tuple waits for its
    micro-batch here, so this is the latency of a batch, and planners can change the matching part of it only.
    """
    subscriptions, files = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects_per_second": round(OBJECTS / SECONDS)}
    steps = Steps(progress, len(KINDS) * len(PLANNERS), alike=True)
    for kind in KINDS:
        figures[f"{kind}_workload"] = describe_workload(SubscriptionStyle(kind), OBJECTS_ALONE, OBJECTS_OF_FILES)
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as name:
            for planner, delays in _measure_planners(Path(name), settings, kind, subscriptions, files, seed, progress):
                figures |= {f"{kind}_{planner}_{figure}": value for figure, value in delays.items()}
                steps.end(f"{kind}, {planner}: median {delays['median_seconds']} s")
    return {"figures": figures, "floor": {}, "targets": {}}


def _measure_planners(
    folder: Path, settings: Settings, kind: str, subscriptions: int, files: int, seed: int, progress: Progress
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each planner and the figures of the delays under its plan, with the same subscriptions."""
    home, places, landing = Home(f"{folder}/home"), city_places("US", USA_BOUNDS), folder / "landing"
    (landing / "objects").mkdir(parents=True)
    chosen = replace(settings, planner=PLANNERS[0])
    fill_home(home, chosen, folder, subscriptions, seed, SubscriptionStyle(kind), progress, places)
    parts = write_parts(folder, files * len(PLANNERS), OBJECTS, seed, places)
    for number, planner in enumerate(PLANNERS):
        if number:
            plan(home, replace(settings, planner=planner), progress=progress)
        stop_spark()
        yield planner, measure_delays(home, settings, landing, parts[number * files : (number + 1) * files])
