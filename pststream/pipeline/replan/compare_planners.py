"""Compare planners (`pststream plans compare`): match the newest objects of a home under the plan of each, and time it.

The tables of the home do not change: each planner has a scratch home (planner_trial.py) in which the usual jobs run.
The measured loads are reported next to those that the load model predicted.
"""

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from pststream.answers.topk_units import measure_plan
from pststream.base import names
from pststream.base.errors import PstError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.answers.unit_candidates import DrawnTopk, draw_topk_sample
from pststream.pipeline.replan.planner_trial import Trial, correlation, done_files, scratch_place, share_rounds
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import TopkSample, count_loads
from pststream.planning.planners.registry import installed_planners, load_planner
from pststream.plans.imbalance import finite_imbalance
from pststream.settings import Settings, read_planner_options
from pststream.state.home import Home
from pststream.state.plans import current_version, topk_planner_of


def compare(
    home: Home,
    settings: Settings,
    planners: Sequence[str] | None = None,
    objects: int = 1_000_000,
    rounds: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Plan and match with each planner (None: all installed ones), on about `objects` of the newest, in whole files.

    In each of `rounds` rounds the objects are matched once more under every plan in turn, and the least seconds of each
    worker count: on a shared machine the load of others comes and goes, and must not fall on one planner alone. `auto`
    and the planner that it chose have one plan, so the rounds of both count for both: the same index in another place
    in memory can take a tenth more time. With rounds the indexes of all planners are on disk at the same time,
    otherwise one at a time.

    Returns {"plans": [figures of each, the best throughput first], "objects", "requests", "matches", "workers"}.
    Raises UsageError for a home without objects or requests, MissingExtra for a planner whose package is not installed,
    PstError if two planners do not find the same matches.
    """
    home.check()
    with home.locked():
        if {file["kind"] for file in done_files(home)} != {"objects", "requests"}:
            raise UsageError(f"home {home.path} has no objects or no requests", "ingest some first")
        for planner in planners or ():
            load_planner(planner)
        chosen = planners or installed_planners(progress)
        root = home.work_folder / "compare"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        try:
            figures = _run_trials(home, settings, chosen, objects, rounds, root, progress)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    matches = {f["planner"]: f["matches"] for f in figures}
    if len(set(matches.values())) > 1:
        raise PstError(f"planners found different numbers of matches: {matches}", "please report this: it is a bug")
    return {
        "workers": settings.workers,
        **{name: figures[0][name] for name in ("objects", "requests", "matches")},
        "plans": sorted(figures, key=lambda f: -f["throughput"]),
    }


def _run_trials(
    home: Home, settings: Settings, planners: Sequence[str], objects: int, rounds: int, root: Path, progress: Progress
) -> list[dict[str, Any]]:
    """Return the figures of each planner; root: folder for scratch homes."""
    progress("warming up")
    # Python workers keep plans and segments by the paths of their homes, so each trial has a new path.
    with scratch_place(home, settings, root) as (place, chosen):
        Trial(home, chosen, planners[0], objects, f"{place}/home")
    with ExitStack() as stack:
        trials, cache = [], f"{root}/cache" if rounds else ""
        for number, planner in enumerate(planners, 1):
            progress(f"planner {number} of {len(planners)}: planning and matching with {planner}")
            with ExitStack() as own:
                place, chosen = (stack if rounds else own).enter_context(scratch_place(home, settings, root, cache))
                trials.append(Trial(home, chosen, planner, objects, f"{place}/home"))
        for number in range(1, rounds + 1):
            progress(f"round {number} of {rounds}")
            for trial in trials:
                trial.match_again()
    share_rounds((trial.made, trial.rounds) for trial in trials)
    return [trial.figures() for trial in trials]


def compare_topk(
    home: Home, settings: Settings, planners: Sequence[str] | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Compare the planners of `topk` (None: all), `hash` too, for `settings.workers`; the planner of the plan in force
    has the options of that plan.

    Each planner plans the same sample of subscriptions, with their thresholds, and of stored objects. Then the units
    search these objects, one unit after the other, and their CPU seconds are measured. Nothing in the home changes.

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
