"""Benchmark Tornado's planner beside its peers, by workers, region, frequency of keywords and cells of its grid.

Source: Tornado, section 6: figures 8 (A-Grid, uniform rectangles and hashed keywords; frequency of keywords), 9 (4 to
100 partitions), 11 (regions from 0.05% to 1.5% of the space) and 12 (evaluators), section 5 (cells of the grid). The
real job runs, as in `planners`. Departures: subscriptions by the generator (squares, the share is that of a side of the
space; three keywords joined by OR), 200,000 for 5,000,000; throughput is that of the slowest of logical workers,
without a network. The times to route a point are `dispatch_seconds`; ranges are not routed one by one here.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pststream.benchmarks.scenarios.plans.planners import fill_home
from pststream.benchmarks.support.measured_worlds import figures_of
from pststream.benchmarks.support.steps import Steps
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.generator.places import KM_PER_DEGREE, USA_BOUNDS
from pststream.pipeline.comparing.compare_planners import compare
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": (5_000, 5_000, 1), "full": (200_000, 200_000, 2)}
"""Subscriptions, objects, and times that the objects are matched under every plan."""

SPACE_KM = (USA_BOUNDS[3] - USA_BOUNDS[1]) * KM_PER_DEGREE
"""Side of the space, from south to north."""

PLANNERS = ("a_grid", "uniform", "keyword_hash")
WORKERS, SIDE, SHARE = 16, 0.001, 1.0
"""Defaults of a sweep: workers, side of a region over that of the space, `frequent_share` of the keywords."""

FIGURES = ("throughput", "load_total", "max_seconds", "imbalance", "model_imbalance", "model_correlation", "copies",
           "subscriptions_stored", "dispatch_seconds", "dispatch_bytes")  # fmt: skip


Trial = tuple[int, tuple[str, ...], str]
"""Workers, planners, and options of `a_grid`."""


@dataclass(frozen=True)
class Workload:
    """A workload, and the trials on it by name."""

    style: SubscriptionStyle
    trials: dict[str, Trial]


def make_style(side: float = SIDE, share: float = SHARE) -> SubscriptionStyle:
    """Return subscriptions with regions of one size, as a share of the side of the space."""
    width = side * SPACE_KM
    return SubscriptionStyle("q1", "or", (3, 3), share, (width, width))


def list_workloads() -> Iterator[Workload]:
    """Yield the workload of the defaults with the sweeps of workers and cells, then one for each side and share."""
    workers: dict[str, Trial] = {f"workers_{count}": (count, PLANNERS, "") for count in (4, 16, 36, 100)}
    cells: dict[str, Trial] = {
        f"cells_{side}": (WORKERS, ("a_grid",), f"columns={side},rows={side}") for side in (32, 125, 500)
    }
    yield Workload(make_style(), workers | cells)
    for side in (0.0005, 0.005, 0.015):
        yield Workload(make_style(side=side), {f"side_{side:g}": (WORKERS, PLANNERS, "")})
    for share in (0.0, 0.3):
        yield Workload(make_style(share=share), {f"frequent_{share:g}": (WORKERS, PLANNERS, "")})


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each planner at each point of the sweeps; `workers_16` is the point of the defaults for all of them."""
    subscriptions, objects, rounds = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects}
    workloads = list(list_workloads())
    steps = Steps(progress, sum(len(workload.trials) for workload in workloads), alike=True)
    for workload in workloads:
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = fill_home(f"{folder}/home", subscriptions, objects, workload.style, seed, None, progress)
            for point, (workers, planners, options) in workload.trials.items():
                chosen = replace(settings, workers=workers, planner="a_grid", planner_options=options)
                plans = compare(bench.home, chosen, planners, rounds=rounds, progress=progress)["plans"]
                for plan in plans:
                    measured = {figure: plan[figure] for figure in FIGURES}
                    figures |= figures_of(f"{point}_{plan['planner']}", measured)
                steps.end(f"{point}: best {plans[0]['planner']}, {plans[0]['throughput']:,} tuples/s")
    return {"figures": figures, "floor": {}, "targets": {}}
