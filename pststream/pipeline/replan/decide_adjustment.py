"""Decide which adjustment of the plan to make (local, global, retire or undo), or why none is needed.

The decision follows from the loads measured in the last batches and from a sample of recent objects. Nothing is written
here: balance.py applies the decision or writes it to a proposal file.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.base.texts import counted
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.pipeline.planning.plan import stored_options
from pststream.pipeline.replan.assign_workers import assign_workers
from pststream.pipeline.replan.measured_loads import (
    MeasuredLoads,
    combined_loads,
    is_out_of_balance,
    measure_loads,
    needed_batches,
    of_workers,
    plan_after_undo,
    split_sample,
)
from pststream.pipeline.replan.proposal_file import Decision
from pststream.planning.balancing.contract import (
    Adjustment,
    BalancingTask,
    adjust,
)
from pststream.planning.live_terms import drop_terms_without_postings
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.auto import plan_by_space_or_terms
from pststream.planning.planners.registry import check_planner, make_plan
from pststream.plans.imbalance import imbalance_text
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.plan_moves import Move, changed_cells
from pststream.plans.plan_rows import planner_of
from pststream.plans.planner_sample import WorkloadSample
from pststream.settings import Settings, read_planner_options
from pststream.state.home import Home
from pststream.state.plans import load_plan, load_term_frequencies, read_plan_row, retiring_plan

_NO_CELLS = "{} shares by subscription, so no raster cells can move; to balance, make a new plan: pststream plan"
"""The rebalancing of DkM-SKS is a new plan by the same algorithm, which places all subscriptions again."""


def _recent_sample(
    home: Home, settings: Settings, version: int, measured: MeasuredLoads, progress: Progress
) -> tuple[WorkloadSample, CostModel]:
    """Return a sample of the objects of the last batches and of the live subscriptions, and the cost model for it.

    The subscriptions are posted under the same clauses as in the index. Objects have the terms that are live where they
    are: objects that have come to a place with the words of another would make it seem loaded, and all else cheap.
    """
    frequencies = load_term_frequencies(home, version)
    sample, _ = draw_sample(home, settings, after_key=measured.first_key, frequencies=frequencies, progress=progress)
    return drop_terms_without_postings(sample), CostModel.of(settings)


def scale_to_measured(
    sample: WorkloadSample, plan: PartitionPlan, cost: CostModel, older: np.ndarray, seconds: np.ndarray
) -> tuple[CostModel, np.ndarray]:
    """Scale the load model to the measured seconds; return the scaled model, and a rest for each worker.

    The rest (seconds, float64[workers]) is the measured load minus the load by the scaled model. Both together give
    each worker its measured load, so the model only decides how much a move changes.

    older    float64[workers]: modelled load under a plan that is retiring
    seconds  float64[workers]: measured CPU seconds

    Source: PS2Stream section V takes loads as given. A sample has the objects of a worker, but not all that the texts
    of its area cost: the modelled load of one of eight workers is wrong by up to a third.
    """
    modelled = compute_worker_loads(sample, plan, cost).load
    scale = float(seconds.sum()) / max(float(modelled.sum() + older.sum()), 1e-12)
    return replace(cost, **{name: scale * value for name, value in vars(cost).items()}), seconds - scale * modelled


def _decide_local(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Move raster cells if the measured imbalance violates `sigma`; of two active plans only the newer one is changed.

    Cells move until the imbalance is at most 1 + (sigma - 1) / 2, so that the next batches do not violate it at once.
    """
    measured = measure_loads(home, version, settings.balance_batches)
    batches = counted(measured.batches, "batch", "batches")
    if measured.batches < (needed := needed_batches(settings)):
        return Decision(f"{batches} measured, {needed} are needed to judge the balance", measured.imbalance)
    text = f"measured imbalance {imbalance_text(measured.imbalance)} over {batches}"
    if not is_out_of_balance(measured, settings):
        return Decision(f"{text}: within {settings.sigma:g}, or not in both halves of them", measured.imbalance)
    plan, retiring = load_plan(home, version), retiring_plan(read_plan_row(home, version))
    if isinstance(plan, SubscriptionPlan):
        return Decision(f"{text}; {_NO_CELLS.format(planner_of(plan.planner, plan.options))}", measured.imbalance)
    progress(f"{text}: looking for raster cells to move")
    sample, cost = _recent_sample(home, settings, version, measured, progress)
    older, scaled_older = np.zeros(plan.workers), np.zeros(plan.workers)
    if retiring:
        of_retiring, sample = split_sample(sample, retiring)
        retiring_loads = partial(compute_worker_loads, of_retiring, load_plan(home, retiring.plan_version))
        older = of_workers(retiring_loads(cost).load, plan.workers)
    scaled, rest = scale_to_measured(sample, plan, cost, older, measured.typical)
    if retiring:
        scaled_older = of_workers(retiring_loads(scaled).load, plan.workers)
    target = 1 + (settings.sigma - 1) / 2
    adjustment = adjust(
        BalancingTask(method, sample, plan, scaled, target, rest, scaled_older, CostModel.of(settings).insert, version)
    )
    if not adjustment.moves:
        return Decision(f"{text}; no move lowers the greatest load of the sample", measured.imbalance)
    return Decision(text, measured.imbalance, adjustment)


def _decide_global(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Repartition, if that lowers the greatest load of a recent sample enough, or `settings.workers` is another number.

    If two plans are active already, retire the older one instead, if few subscriptions are left under it.

    The old plan continues to serve the stored subscriptions, and the new plan serves later ones (PS2Stream section
    V-B), so nothing is copied. The parts of the new plan are assigned to workers that store most of their subscriptions
    already, so that few subscriptions move when the old plan is retired.
    """
    if retiring_plan(read_plan_row(home, version)):
        return _decide_retirement(home, settings, version, method, progress, settings.retire_share)
    check_planner(settings.planner, progress)
    measured = measure_loads(home, version, settings.balance_batches)
    sample, cost = _recent_sample(home, settings, version, measured, progress)
    now = load_plan(home, version)
    boxes = counted(sample.pieces, "subscription box", "subscription boxes")
    progress(f"planning with {settings.planner}: {counted(sample.objects, 'recent object')}, {boxes}")
    options, in_force = settings.planner_options, read_plan_row(home, version)
    if not options and in_force["planner"] == settings.planner:
        options = str(json.loads(in_force["options"]).get("planner_options", ""))
    plan = _new_plan(settings, sample, cost, options)
    if isinstance(plan, SubscriptionPlan):
        return Decision(_NO_CELLS.format(planner_of(plan.planner, plan.options)), measured.imbalance)
    before, after = compute_worker_loads(sample, now, cost), compute_worker_loads(sample, plan, cost)
    gain = 1 - after.max / before.max if before.max else 0.0
    text = f"a new plan of {planner_of(plan.planner, plan.options)} lowers the greatest load by {gain:.1%}"
    if plan.workers != now.workers:
        text = f"{plan.workers} workers instead of {now.workers}, by {planner_of(plan.planner, plan.options)}"
    elif gain <= settings.repartition_gain:
        return Decision(f"{text}; more than {settings.repartition_gain:.0%} is required", measured.imbalance)
    plan, least = assign_workers(home, settings, version, plan, progress)
    after, everything = compute_worker_loads(sample, plan, cost), Move(-1, -1, np.arange(plan.grid.cells))
    adjustment = Adjustment(plan, [everything], [settings.planner], before, after, least_bytes=least)
    return Decision(text, measured.imbalance, adjustment)


def _new_plan(settings: Settings, sample: WorkloadSample, cost: CostModel, options: str) -> PartitionPlan:
    """Return a plan of the planner for `settings.workers`; `auto` chooses among those that make cells migrate."""
    make = plan_by_space_or_terms if settings.planner == names.AUTO else partial(make_plan, settings.planner)
    plan = make(sample, settings.workers, cost, read_planner_options(options))
    return replace(plan, options={**plan.options, **stored_options(settings, sample, options)})


def _decide_plan(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Make a plan for another number of workers from a sample of all objects, whatever it gains."""
    check_planner(settings.planner, progress)
    imbalance = measure_loads(home, version, settings.balance_batches).imbalance
    frequencies, cost = load_term_frequencies(home, version), CostModel.of(settings)
    sample, _ = draw_sample(home, settings, frequencies=frequencies, progress=progress)
    plan, now = _new_plan(settings, sample, cost, settings.planner_options), load_plan(home, version)
    before = combined_loads(home, sample, cost, now, retiring_plan(read_plan_row(home, version)))
    text = f"{plan.workers} workers instead of {now.workers}, by {planner_of(plan.planner, plan.options)}"
    plan, least = assign_workers(home, settings, version, plan, progress)
    after, everything = compute_worker_loads(sample, plan, cost), Move(-1, -1, np.arange(plan.grid.cells))
    adjustment = Adjustment(plan, [everything], [settings.planner], before, after, least_bytes=least)
    return Decision(text, imbalance, adjustment)


def _decide_undo(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Return to the plan before the last migration, with the loads of both plans on the newest objects."""
    target, retiring = plan_after_undo(home, version)
    measured = measure_loads(home, version, settings.balance_batches)
    sample, cost = _recent_sample(home, settings, version, measured, progress)
    now, before = load_plan(home, version), load_plan(home, target)
    plans = ((now, retiring_plan(read_plan_row(home, version))), (before, retiring))
    loads, loads_after = (combined_loads(home, sample, cost, plan, older) for plan, older in plans)
    adjustment = Adjustment(before, [Move(-1, -1, changed_cells(now, before))], ["undo"], loads, loads_after)
    return Decision(f"back to plan {target}", measured.imbalance, adjustment)


def _decide_retirement(
    home: Home, settings: Settings, version: int, method: str, progress: Progress, max_share: float = 1.0
) -> Decision:
    """Move the last subscriptions of the older of two active plans to the newer one, if they are at most the share
    `max_share` of the live subscriptions of the sample.
    """
    retiring = retiring_plan(read_plan_row(home, version))
    if retiring is None:
        raise UsageError(f"plan {version} retires no older plan", "pststream balance global makes a new one")
    measured = measure_loads(home, version, settings.balance_batches)
    sample, cost = _recent_sample(home, settings, version, measured, progress)
    keys = distinct_values(sample.piece_key)
    share = float((keys <= retiring.to).mean()) if len(keys) else 0.0
    text = f"{share:.1%} of the subscriptions are left under plan {retiring.plan_version}"
    if share > max_share:
        rule = f"it is retired at {max_share:.0%}, or at once by: pststream balance retire --apply"
        return Decision(f"{text}; {rule}", measured.imbalance)
    now = load_plan(home, version)
    cells = changed_cells(load_plan(home, retiring.plan_version), now)
    loads = combined_loads(home, sample, cost, now, retiring), compute_worker_loads(sample, now, cost)
    return Decision(text, measured.imbalance, Adjustment(now, [Move(-1, -1, cells)], ["retire"], *loads))


Decider = Callable[[Home, Settings, int, str, Progress], Decision]
"""Takes the home, the settings, the plan version in force, the method and the progress function."""

DECIDERS: dict[str, Decider] = {
    "local": _decide_local,
    "global": _decide_global,
    "retire": _decide_retirement,
    "undo": _decide_undo,
    "plan": _decide_plan,
}
"""By kind of adjustment."""
