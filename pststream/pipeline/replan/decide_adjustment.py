"""Decide which adjustment of the plan to make (local, global, retire or undo), or why none is needed.

The decision follows from the loads measured in the last batches and from a sample of recent objects. Nothing is written
here: balance.py applies the decision or writes it to a proposal file.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.base.texts import counted
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, dispatch_index, make_task_context
from pststream.pipeline.index.build_index import is_served_by, workers_by_row
from pststream.pipeline.index.stored_pieces import PIECE_COLUMNS, bytes_of_rows
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.pipeline.planning.plan import stored_options
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
from pststream.planning.balancing.contract import Adjustment, BalancingTask, adjust, relabel_workers
from pststream.planning.dispatch import make_dispatch
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
from pststream.state.index_files import IndexFiles, index_files
from pststream.state.plans import load_plan, load_term_frequencies, numbers_in_index, read_plan_row, retiring_plan
from pststream.state.slices import Slice, read_slices, rows_of_tasks, split_into_tasks

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


def _decide_global(
    home: Home, settings: Settings, version: int, method: str, progress: Progress, at_once: bool = False
) -> Decision:
    """Repartition, if that lowers the greatest load of a recent sample enough, or `settings.workers` is another number.

    If two plans are active already, retire the older one instead, if few subscriptions are left under it.

    The old plan continues to serve the stored subscriptions, and the new plan serves later ones (PS2Stream section
    V-B), so nothing is copied. The parts of the new plan are assigned to workers that store most of their subscriptions
    already, so that few subscriptions move when the old plan is retired. No plan that shares by subscription is made,
    so `auto` chooses among the planners that make other plans.

    at_once: the new plan is to serve all subscriptions; it is made from a sample of all objects
    """
    retiring = retiring_plan(read_plan_row(home, version))
    if retiring and not at_once:
        return _decide_retirement(home, settings, version, method, progress, settings.retire_share)
    check_planner(settings.planner, progress)
    measured = measure_loads(home, version, settings.balance_batches)
    drawn = replace(measured, first_key=-1) if at_once else measured
    sample, cost = _recent_sample(home, settings, version, drawn, progress)
    now = load_plan(home, version)
    boxes = counted(sample.pieces, "subscription box", "subscription boxes")
    progress(f"planning with {settings.planner}: {counted(sample.objects, 'recent object')}, {boxes}")
    options, in_force = settings.planner_options, read_plan_row(home, version)
    if not options and in_force["planner"] == settings.planner:
        options = str(json.loads(in_force["options"]).get("planner_options", ""))
    make = plan_by_space_or_terms if settings.planner == names.AUTO else partial(make_plan, settings.planner)
    plan = make(sample, settings.workers, cost, read_planner_options(options))
    if isinstance(plan, SubscriptionPlan):
        return Decision(_NO_CELLS.format(planner_of(plan.planner, plan.options)), measured.imbalance)
    plan = replace(plan, options={**plan.options, **stored_options(settings, sample, options)})
    before, after = combined_loads(home, sample, cost, now, retiring), compute_worker_loads(sample, plan, cost)
    gain = 1 - after.max / before.max if before.max else 0.0
    text = f"a new plan of {planner_of(plan.planner, plan.options)} lowers the greatest load by {gain:.1%}"
    if plan.workers != now.workers:
        text = f"{plan.workers} workers instead of {now.workers}, by {planner_of(plan.planner, plan.options)}"
    elif gain <= settings.repartition_gain:
        return Decision(f"{text}; more than {settings.repartition_gain:.0%} is required", measured.imbalance)
    plan, least = _assign_workers(home, settings, version, plan, progress)
    after, everything = compute_worker_loads(sample, plan, cost), Move(-1, -1, np.arange(plan.grid.cells))
    adjustment = Adjustment(plan, [everything], [settings.planner], before, after, least_bytes=least)
    return Decision(text, measured.imbalance, adjustment)


def _assign_workers(
    home: Home, settings: Settings, version: int, plan: PartitionPlan, progress: Progress
) -> tuple[PartitionPlan, int]:
    """Return the plan with its workers numbered so that the fewest bytes move from the index under plan `version`, and
    these bytes, uncompressed.

    Parts that a plan of more workers has left over get new numbers in the index; one of fewer workers gives up numbers.

    Source: PS2Stream section V-B does not say how to assign; SSTD maps partitions to workers by the Hungarian method.
    """
    context = make_task_context(home, settings, version)
    files = index_files(home, version)
    tasks = split_into_tasks((file.path, file.rows) for file in files if file.worker != names.EVERY_WORKER)
    counter = TaskCounter(progress, Counted("comparing with the index", "piece", rows_of_tasks(tasks)))
    numbers = np.unique(np.concatenate([numbers_in_index(home, one) for one in context.plans]))
    stored, needed = np.zeros((len(numbers), plan.workers)), 0.0
    measure = partial(_measure_shared, context, files, plan)
    for of_numbers, of_all in get_engine(settings, home).run_tasks(tasks, measure, counter):
        needed += of_all
        for number, size in of_numbers.items():
            stored[np.searchsorted(numbers, number)] += size
    kept, part = linear_sum_assignment(stored, maximize=True)
    given = np.full(plan.workers, -1)
    given[part] = numbers[kept]
    unused = np.setdiff1d(np.arange(len(numbers) + plan.workers), numbers)
    given[given < 0] = unused[: np.count_nonzero(given < 0)]
    ascending = np.sort(given)
    is_own = np.array_equal(ascending, np.arange(plan.workers))
    plan = relabel_workers(plan, np.searchsorted(ascending, given))
    least = round(needed - float(stored[kept, part].sum()))
    return replace(plan, index_workers=ascending[: 0 if is_own else None]), least


def _measure_shared(
    context: TaskContext, files: IndexFiles, plan: PartitionPlan, slices: tuple[Slice, ...]
) -> tuple[dict[int, np.ndarray], float]:
    """Return the bytes that each number in the index has of what each worker of the plan needs (float64[workers] by
    number), and the bytes that all of them need.
    """
    after, stored, needed = make_dispatch(plan), dict[int, np.ndarray](), 0.0
    for part in slices:
        file = files.find(part.path)
        before = dispatch_index(context.home, file.plan_version)
        number = int(before.plan.numbers_in_index[file.worker])
        for rows in read_slices([part], PIECE_COLUMNS):
            offsets, workers = before.workers_of_rows(rows)
            is_served = is_served_by(rows, before, file.worker)
            is_first = workers[offsets[:-1]] == file.worker  # each piece counts once in what is needed
            row, target = workers_by_row(rows, after)
            size = bytes_of_rows(rows)[row]
            stored[number] = stored.get(number, 0.0) + np.bincount(target, size * is_served[row], plan.workers)
            needed += float((size * is_first[row]).sum())
    return stored, needed


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
    "plan": partial(_decide_global, at_once=True),
}
"""By kind of adjustment."""
