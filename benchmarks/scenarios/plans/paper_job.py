"""Benchmark throughput and memory under PS2Stream's planners, on its workloads, by the real job (figures 6, 7, 9, 10).

The benchmark `paper-model` judges the same planners by Definition 1 alone.
"""

from typing import Any

from benchmarks.scenarios.plans.planners import WORKERS, Case, make_targets, measure_cases
from benchmarks.scenarios.plans.planners_large import WANTED
from benchmarks.support.choice import DEFAULTS, Choice
from benchmarks.support.measured_homes import CityObjects
from benchmarks.support.paper_workloads import COUNTRIES
from pststream.base.progress import Progress
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import KINDS, SubscriptionStyle
from pststream.workloads.places import city_places

SIZES = {"small": (20_000, 20_000, 1), "full": (500_000, 300_000, 3)}
"""Subscriptions, objects, and times that the objects are matched under every plan."""

PLANNERS = ("hybrid", "kd_tree", "plain_kd_tree", "grid", "r_tree", "metric", "frequency", "hypergraph", "auto")


def run(
    country: str, scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS
) -> dict[str, Any]:
    """Measure each planner on Q1, Q2 and Q3 in the cities of a country (one of COUNTRIES), or on the objects of a file.

    Departures from the paper: 5,000,000 (Q1) and 10,000,000 subscriptions there.
    """
    subscriptions, objects, rounds = SIZES[scale]
    source = choice.objects or CityObjects(city_places(*COUNTRIES[country]))
    cases = {kind: Case(SubscriptionStyle(kind), subscriptions, objects) for kind in choice.workloads or KINDS}
    measured = measure_cases(cases, PLANNERS, rounds, seed, settings, progress, source)
    figures = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS} | measured
    targets = make_targets(figures, {kind: WANTED[kind] for kind in cases}) if scale == "full" else {}
    return {"figures": figures, "floor": {}, "targets": targets}
