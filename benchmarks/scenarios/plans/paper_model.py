"""Judge all planners by PS2Stream's Definition 1 alone, on its workloads as they are written, over several seeds."""

from itertools import product
from typing import Any

import numpy as np

from benchmarks.support.paper_workloads import DEFINITION_1, draw_paper_sample
from pststream.base.progress import Progress, Steps
from pststream.planning.load_model import compute_worker_loads
from pststream.planning.planners.contract import Options
from pststream.planning.planners.registry import make_plan
from pststream.plans.imbalance import imbalance_of
from pststream.plans.planner_sample import WorkloadSample
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import KINDS, SubscriptionStyle

SIZES = {"small": (4_000, 4_000, 2), "full": (20_000, 40_000, 5)}
"""Objects, subscriptions, seeds."""

WORKERS = 8
VOCABULARIES = (50_000, 200_000, 3_000_000)
CONNECTIVES = ("and", "or", "both")
BRITISH_VOCABULARY = 200_000

SPACE = ("grid", "kd_tree", "plain_kd_tree", "r_tree")
TEXT = ("frequency", "hypergraph", "metric")
HYBRIDS: dict[str, Options] = {"hybrid": {}, "hybrid_sum": {"objective": "sum"}}
"""The hybrid planner as built, and Algorithm 1 as written."""

BASELINES = ("plain_kd_tree", "metric")
"""The planners that figure 7 of the paper compares the hybrid with."""

PLANNERS = (*HYBRIDS, *SPACE, *TEXT)

SLOW = ("hypergraph",)
"""Planners that plan for the first seed only: making their plans takes ten times as long as making all others."""

FIGURES = ("total", "greatest", "imbalance")


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the sum of the loads, the greatest load and the imbalance, and ratios of greatest loads.

    Every value is a list: the median over the seeds, the least and the greatest. `hybrid_over_best` is the least
    greatest load of the other planners over that of `hybrid`, so it is the ratio of throughputs; `_total` of the sums.
    `hybrid_over_plain_kd_tree` and `hybrid_over_metric` are the ratios of the paper's figure 7.
    `text_over_space` compares the best planners of both kinds alike.
    """
    objects, subscriptions, seeds = SIZES[scale]
    figures: dict[str, Any] = {"objects": objects, "subscriptions": subscriptions, "workers": WORKERS, "seeds": seeds}
    cases = list_cases()
    steps = Steps(progress, len(cases), alike=True)
    for name, (kind, vocabulary, connective, country) in cases.items():
        style = SubscriptionStyle(kind, connective)
        samples = (
            draw_paper_sample(objects, subscriptions, one, style, vocabulary, country)
            for one in range(seed, seed + seeds)
        )
        loads = [_loads_of_planners(sample, number == 0) for number, sample in enumerate(samples)]
        figures |= {f"{name}_{figure}": value for figure, value in _summarize(loads).items()}
        over = figures[f"{name}_hybrid_over_best"]
        steps.end(f"{name}: hybrid over the best other {over[0]} ({over[1]} to {over[2]})")
    return {"figures": figures, "floor": {}, "targets": {}}


def list_cases() -> dict[str, tuple[str, int, str, str]]:
    """Return kind, vocabulary, connective and country of each workload, by name; of Britain with one vocabulary."""
    cases = [(*case, "us") for case in product(KINDS, VOCABULARIES, CONNECTIVES)]
    cases += [(kind, BRITISH_VOCABULARY, "both", "uk") for kind in KINDS]
    return {
        f"{country}_{kind}_{vocabulary}_{way}": (kind, vocabulary, way, country)
        for kind, vocabulary, way, country in cases
    }


def _loads_of_planners(sample: WorkloadSample, with_slow: bool) -> dict[str, np.ndarray]:
    """Return the load of each worker, seconds, by planner; with those of SLOW or without."""
    return {
        name: compute_worker_loads(
            sample,
            make_plan("hybrid" if name in HYBRIDS else name, sample, WORKERS, DEFINITION_1, HYBRIDS.get(name)),
            DEFINITION_1,
        ).load
        for name in PLANNERS
        if with_slow or name not in SLOW
    }


def _summarize(loads: list[dict[str, np.ndarray]]) -> dict[str, list[float]]:
    """Return the figures of a workload from the loads of each seed."""
    figures = {}
    for name in PLANNERS:
        of_seeds = [one[name] for one in loads if name in one]
        figures[f"{name}_total"] = spread([load.sum() for load in of_seeds])
        figures[f"{name}_greatest"] = spread([load.max() for load in of_seeds])
        figures[f"{name}_imbalance"] = spread([imbalance_of(load) for load in of_seeds])
    others = (*SPACE, *TEXT)
    for hybrid in HYBRIDS:
        figures[f"{hybrid}_over_best"] = spread([_least(one, others, np.max) / one[hybrid].max() for one in loads])
        figures[f"{hybrid}_over_best_total"] = spread(
            [_least(one, others, np.sum) / one[hybrid].sum() for one in loads]
        )
    for baseline in BASELINES:
        figures[f"hybrid_over_{baseline}"] = spread([one[baseline].max() / one["hybrid"].max() for one in loads])
    figures["text_over_space"] = spread([_least(one, SPACE, np.max) / _least(one, TEXT, np.max) for one in loads])
    figures["text_over_space_total"] = spread([_least(one, SPACE, np.sum) / _least(one, TEXT, np.sum) for one in loads])
    return figures


def _least(loads: dict[str, np.ndarray], planners: tuple[str, ...], measure: Any) -> float:
    """Return the least of a measure of the loads over planners."""
    return min(float(measure(loads[name])) for name in planners if name in loads)


def spread(values: list[float]) -> list[float]:
    """Return the median, the least and the greatest of some values, to four digits."""
    return [float(f"{value:.4g}") for value in (np.median(values), np.min(values), np.max(values))]
