"""Compare the planners of `topk` by searching the units of their plans (`pststream plans compare --kinds topk`).

Each planner plans the same sample of subscriptions, with their thresholds, and of stored objects. Then the units search
these objects, one unit after the other, and their CPU seconds are measured. Nothing in the home changes.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pststream.answers.topk_units import measure_plan
from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.answers.draw_topk_sample import DrawnTopk, draw_topk_sample
from pststream.pipeline.replan.planner_trial import correlation
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import TopkSample, count_loads
from pststream.plans.imbalance import finite_imbalance
from pststream.settings import Settings, read_planner_options
from pststream.state.home import Home
from pststream.state.plans import current_version, topk_planner_of


def compare_topk(
    home: Home, settings: Settings, planners: Sequence[str] | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Plan and search with each planner (None: all) for `settings.workers`, `hash` too; the planner of the plan in
    force has the options of that plan.

    Returns {"kinds": ["topk"], "plans": [figures of each, the best throughput first], "objects", "subscriptions",
    "workers"}. Figures are those of `MeasuredPlan`, "planner", "model_imbalance", "model_correlation" (of
    predicted loads with measured seconds, over units), both of each unit in "unit_loads" and "unit_seconds", and
    "plan_seconds".

    Raises UsageError if no such subscription has an answer yet, PstError if two planners find other pairs.
    """
    home.check()
    with home.locked():
        drawn = draw_topk_sample(home, settings, progress)
        options = dict([topk_planner_of(home, current_version(home))])
    figures, sample = [], drawn.sample
    for planner in planners or names.TOPK_PLANNERS:
        progress(f"planning and searching: {planner}")
        figures.append(_measure(drawn, sample, planner, settings.workers, options.get(planner, "")))
    pairs = {one["planner"]: one["pairs"] for one in figures}
    if len(set(pairs.values())) > 1:
        raise PstError(f"planners find different numbers of pairs: {pairs}", "please report this: it is a bug")
    return {
        "kinds": ["topk"],
        "plans": sorted(figures, key=lambda one: -one["throughput"]),
        "objects": len(drawn.messages.key),
        "subscriptions": len(drawn.subscriptions.key),
        "workers": settings.workers,
    }


def _measure(drawn: DrawnTopk, sample: TopkSample, planner: str, workers: int, options: str) -> dict[str, Any]:
    began = time.process_time()
    plan = make_topk_plan(planner, sample, workers, read_planner_options(options))
    seconds = time.process_time() - began
    measured, loads = measure_plan(drawn.subscriptions, drawn.messages, plan), count_loads(sample, plan)
    unit_seconds = np.array([unit.seconds for unit in measured.units])
    figures = measured.figures(len(drawn.subscriptions.key), len(drawn.messages.key))
    return {
        "planner": planner,
        **figures,
        "imbalance": finite_imbalance(figures["imbalance"], 2),
        "model_imbalance": finite_imbalance(loads.imbalance, 2),
        "model_correlation": correlation(loads.load, unit_seconds),
        "unit_loads": loads.load.tolist(),
        "unit_seconds": unit_seconds.tolist(),
        "plan_seconds": round(seconds, 3),
    }
