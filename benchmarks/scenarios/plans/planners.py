"""Benchmark throughput under the plans of all planners, on workloads like Q1 to Q3, by running the real job.

Q1, Q2 and Q3 are workloads of PS2Stream.

`pipeline/replan/compare_planners.py` makes the measurements.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.choice import DEFAULTS, Choice
from benchmarks.support.measured_homes import BenchHome, ObjectSource
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.paper_workloads import FIVE_A_REQUEST, OBJECTS_A_REQUEST, describe_workload
from benchmarks.support.targets import at_least
from pststream.base import names
from pststream.base.progress import Progress, Steps
from pststream.pipeline.replan.compare_planners import compare, correlation
from pststream.plans.imbalance import read_imbalance
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import KINDS, SubscriptionStyle

SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
ROUNDS = {"small": 1, "full": 4}
"""Number of times that the objects are matched under every plan."""
WORKERS = 8
WORKLOADS = {
    "q1": SubscriptionStyle("q1", frequent_share=0.3),
    "q2": SubscriptionStyle("q2", frequent_share=0.3),
    "q3": SubscriptionStyle("q3", frequent_share=0.3),
    "q3_and": SubscriptionStyle("q3", connective="and"),
    **{f"{kind}_paper": SubscriptionStyle(kind) for kind in KINDS},
}
"""The workload `_and` joins all keywords by AND, so that a subscription is posted under its rarest keyword alone.

Those of `_paper` have keywords as frequent as the words of objects, as in the paper; the others have fewer matches.
"""

AUTO = 0.95
"""Least throughput of `auto` over that of the best single planner."""

FIGURES = ("throughput", "load_total", "max_seconds", "imbalance", "copies", "subscriptions_stored", "dispatch_seconds",
           "dispatch_bytes", "worker_bytes", "seconds", "model_correlation", "model_imbalance")  # fmt: skip


class Case(NamedTuple):
    """A workload, and how many subscriptions and objects it has."""

    style: SubscriptionStyle
    subscriptions: int
    objects: int


def run(scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS) -> dict[str, Any]:
    """Measure each planner on each workload; the throughput of hybrid, and of auto, over the best of the others."""
    subscriptions, objects = SIZES[scale]
    chosen = {name: Case(WORKLOADS[name], subscriptions, objects) for name in choice.workloads or WORKLOADS}
    measured = measure_cases(chosen, tuple(names.PLANNERS), ROUNDS[scale], seed, settings, progress, choice.objects)
    figures = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS} | measured
    targets = {}
    if scale == "full":
        targets = make_targets(figures, {name: 1.3 if name.startswith("q3") else 0.98 for name in chosen})
        for name in chosen:
            correlation = f"{name}_model_correlation"
            targets[correlation] = at_least(figures[correlation] or 0.0, 0.95)
    return {"figures": figures, "floor": {}, "targets": targets}


def measure_cases(
    cases: Mapping[str, Case],
    planners: Sequence[str],
    rounds: int,
    seed: int,
    settings: Settings,
    progress: Progress,
    source: ObjectSource | None,
) -> dict[str, Any]:
    """Return figures of the planners on workloads, by the names of these; source: of objects, None: around cities."""
    figures: dict[str, Any] = {}
    steps = Steps(progress, len(cases), alike=True)
    for name, case in cases.items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = fill_home(f"{folder}/home", case.subscriptions, case.objects, case.style, seed, source, progress)
            figures[f"{name}_workload"] = describe_workload(case.style, FIVE_A_REQUEST, bench.objects.description)
            figures |= _measured(name, bench, settings, planners, rounds, progress)
        steps.end(f"workload {name}: hybrid over the best other {figures[f'{name}_hybrid_over_best']}")
    return figures


def choose_figures(plan: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """Return some figures of a compared plan, all as numbers: with an idle worker the imbalance is MAX_IMBALANCE."""
    return {name: read_imbalance(plan[name]) if "imbalance" in name else plan[name] for name in wanted}


def make_targets(figures: Mapping[str, Any], wanted: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return the targets of workloads: of hybrid over the best other planner, by workload, and of auto if it is there.

    wanted  the ratio of hybrid on each workload
    """
    targets = {}
    for name, least in wanted.items():
        for ratio, target in ((f"{name}_hybrid_over_best", least), (f"{name}_auto_over_best", AUTO)):
            if ratio in figures:
                targets[ratio] = at_least(figures[ratio], target)
    return targets


def fill_home(
    path: str,
    subscriptions: int,
    objects: int,
    style: SubscriptionStyle,
    seed: int,
    objects_from: ObjectSource | None,
    progress: Progress,
) -> BenchHome:
    """Fill a home with a workload: subscriptions, objects, and the requests that come with the objects."""
    bench = BenchHome(path, seed, progress, objects_from)
    bench.add_subscriptions(subscriptions, style)
    bench.add_objects(objects)
    _add_requests(bench, objects, style)
    return bench


def _add_requests(bench: BenchHome, objects: int, style: SubscriptionStyle) -> None:
    """Add the requests that come with some objects: one for OBJECTS_A_REQUEST of them, half of them deletions."""
    changed = objects // OBJECTS_A_REQUEST // 2
    bench.add_subscriptions(changed, style, delete=changed)


def _measured(
    name: str, bench: BenchHome, settings: Settings, planners: Sequence[str], rounds: int, progress: Progress
) -> dict[str, Any]:
    """Measure the planners on a workload: the throughput of hybrid, and of auto if it is one, over the best others.

    `model_correlation` and `model_over_measured` of the workload compare, over the workers of all plans, the loads that
    the model predicted from a sample with the measured CPU seconds.
    """
    chosen = replace(settings, workers=WORKERS)
    document = compare(bench.home, chosen, planners, rounds=rounds, progress=progress)
    figures: dict[str, Any] = {f"{name}_matches_per_object": round(document["matches"] / document["objects"], 2)}
    for plan in document["plans"]:
        figures |= figures_of(f"{name}_{plan['planner']}", choose_figures(plan, FIGURES))
    predicted, seconds = (
        np.concatenate([plan[column] for plan in document["plans"]]) for column in ("model_seconds", "worker_seconds")
    )
    figures[f"{name}_model_correlation"] = correlation(predicted, seconds)
    figures[f"{name}_model_over_measured"] = round(float(predicted.sum() / seconds.sum()), 4)
    throughput = {plan["planner"]: plan["throughput"] for plan in document["plans"]}
    for ours in ("hybrid", "auto"):
        if ours in throughput:
            best = max(value for planner, value in throughput.items() if planner not in (ours, names.AUTO))
            figures[f"{name}_{ours}_over_best"] = round(throughput[ours] / best, 3)
    figures |= {f"{name}_auto_made_by": plan["made_by"] for plan in document["plans"] if plan["planner"] == names.AUTO}
    return figures
