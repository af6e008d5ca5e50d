"""Run `pststream balance local|global|retire|undo`: decide on one adjustment of the plan, propose or apply it. So is a
plan for another number of workers made.

Source: PS2Stream section V. An adjustment makes a new plan version that is served from the index of the plan before.
First the index rows that a new worker lacks are added (`migrate`), then the rows in `migrations` and `plan_units` are
written; the row in `plans` puts the new plan in force.

The added rows change no match under the old plan: an object probes a worker only for the (raster cell, term) pairs that
the plan assigns to the worker, and the added rows have no such pair; under a plan that shares by subscription a worker
emits only the pairs of the subscriptions that it owns. Rows that an old worker no longer needs change no match for the
same reason, and stay until `maintain` drops them. So a migration may be killed anywhere and run again: stored rows are
not added twice. While two plans are active, the same holds for each plan, since each is probed only for its own
subscriptions.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
from scipy.optimize import linear_sum_assignment

from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.texts import counted
from pststream.base.utc_times import utc_now
from pststream.engine.contract import SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, dispatch_index, make_task_context, segment_cache
from pststream.pipeline.index.build_index import is_served_by, workers_by_row
from pststream.pipeline.index.stored_pieces import PIECE_COLUMNS, WrittenPieces, bytes_of_rows, write_missing
from pststream.pipeline.planning.plan import draw_sample, stored_options
from pststream.pipeline.replan.measured_loads import (
    MeasuredLoads,
    combined_loads,
    is_out_of_balance,
    measure_loads,
    needed_batches,
    of_workers,
    plan_after_undo,
    retiring_after,
    split_sample,
)
from pststream.pipeline.replan.plan_topk import is_change_of_topk, undo_topk
from pststream.pipeline.replan.proposal_file import (
    Decision,
    Proposal,
    digest_of,
    read_proposal,
    same_plan,
    write_proposal,
)
from pststream.planning.balancing.contract import Adjustment, BalancingTask, adjust, relabel_workers
from pststream.planning.dispatch import make_dispatch
from pststream.planning.live_terms import drop_terms_without_postings
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.auto import plan_by_space_or_terms
from pststream.planning.planners.registry import check_planner, make_plan
from pststream.plans.imbalance import finite_imbalance, imbalance_text
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.plan_moves import Move, changed_cells
from pststream.plans.plan_rows import planner_of
from pststream.plans.planner_sample import WorkloadSample
from pststream.reports.pages.adjustment_page import write_adjustment
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import commit_files
from pststream.state.home import Home
from pststream.state.index_files import (
    NO_WORKER,
    IndexFiles,
    SegmentFiles,
    index_files,
    index_files_to_come,
    migration_application,
)
from pststream.state.plans import (
    Retiring,
    current_version,
    delete_units,
    index_version,
    load_plan,
    load_term_frequencies,
    numbers_in_index,
    read_plan_row,
    retiring_plan,
    save_plan,
    save_units,
    topk_version_of,
)
from pststream.state.slices import Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.storage.registry import Address
from pststream.tables.delta_tables import last_transaction, read_table
from pststream.tables.ledgers import Ledger

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
"""By kind of adjustment. The decision follows from the loads measured in the last batches and from a sample of recent
objects, and nothing is written.
"""


def migrate(
    home: Home,
    settings: Settings,
    context: TaskContext,
    plan: PartitionPlan,
    origins: set[int],
    retiring: Retiring | None,
    dry_run: bool,
    progress: Progress,
) -> tuple[int, int]:
    """Add to the index the pieces that the workers of `plan` lack; build the new segments in the cache of this node.

    context   context of the plan before the adjustment
    origins   the workers that serve less than before: their files contain every piece that other workers lack. So a
              move of cells reads the files of the workers that lose cells, and a retirement those of the retiring plan.
    retiring  the plan that continues to serve older subscriptions; their pieces stay

    Returns the number of pieces that workers take over, and their bytes, uncompressed. A dry run counts the same pieces
    and writes none.
    """
    after_key = retiring.to if retiring else -1
    files = index_files(home, context.plan_version)
    changing = {version for version in context.plans if len(changed_cells(load_plan(home, version), plan))}
    leaving = [
        file for file in files
        if file.worker in origins and file.plan_version in changing and file.max_key > after_key
    ]  # fmt: skip
    # Before the shuffle `_send_pieces` runs on each group of slices of the leaving files; after it `write_missing`
    # runs on each worker's pieces.
    numbers, next_version = plan.numbers_in_index.tolist(), context.plan_version + 1
    present = index_files_to_come(home, context.index_version, next_version, None, numbers)
    writing = replace(context, index_numbers=numbers)
    older = retiring_plan(read_plan_row(home, context.plan_version))
    border = older.to if older else -1
    write = partial(write_missing, home.table(names.WORKER_INDEX), writing, present, dry_run, border)
    tasks = split_into_tasks((file.path, file.rows) for file in leaving)
    counter = TaskCounter(
        progress,
        Counted("selecting pieces to move", "piece", rows_of_tasks(tasks)),
        Counted("counting moved pieces" if dry_run else "writing moved pieces", "worker", plan.workers),
    )
    migrated: list[WrittenPieces] = get_engine(settings, home).run_shuffled(
        tasks, partial(_send_pieces, context, files, plan), [Stage(plan.workers, write)], counter
    )
    added = [file for part in migrated for file in part.files]
    if added:
        # `check` reads from these transactions that workers may have pieces that the plan in force does not assign to
        # them: pieces from before a migration, and pieces of an adjustment that was killed before its plan
        # was in force.
        application = migration_application(context.index_version)
        last = last_transaction(home.table(names.WORKER_INDEX), application)
        commit_files(home, names.WORKER_INDEX, added, application=application, transaction=last + 1)
    if not dry_run:
        # Nothing depends on these segments: a task builds what its node lacks.
        known = {segment.paths for segment in files.segments}
        to_come = index_files_to_come(home, context.index_version, next_version, retiring, numbers)
        new = [segment for segment in to_come.segments if segment.paths not in known]
        counter = TaskCounter(progress, Counted("building segments", "piece", sum(segment.rows for segment in new)))
        get_engine(settings, home).run_tasks(new, partial(_build_segment, context), counter)
    return sum(part.rows for part in migrated), sum(part.bytes for part in migrated)


def _build_segment(context: TaskContext, segment: SegmentFiles) -> None:
    segment_cache(context.cache_dir, context.cache_bytes).segment(segment.paths)


def _send_pieces(
    context: TaskContext, files: IndexFiles, plan: PartitionPlan, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    """Send each stored piece to the workers that serve it under the new plan and not under the plan before."""
    after, workers = make_dispatch(plan), np.arange(plan.workers)
    for part in slices:
        before = dispatch_index(context.home, files.find(part.path).plan_version)
        same = look_up(before.plan.numbers_in_index, plan.numbers_in_index, workers, NO_WORKER)
        for rows in read_slices([part], PIECE_COLUMNS):
            old = _pairs(before.workers_of_rows(rows), same, plan.workers)
            new = _pairs(after.workers_of_rows(rows), workers, plan.workers)
            piece, worker = np.divmod(np.setdiff1d(new, old, assume_unique=True), plan.workers)
            for target in distinct_values(worker).tolist():
                yield target, 0, rows.take(pa.array(piece[worker == target]))


def _pairs(workers_of_pieces: tuple[np.ndarray, np.ndarray], becomes: np.ndarray, workers: int) -> np.ndarray:
    """Return each (piece, worker) pair as one number, `piece * workers + worker`: int64, ascending.

    becomes: the number of each worker in the new plan; NO_WORKER: it has none, and no pairs
    """
    offsets, worker = workers_of_pieces
    piece, number = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), becomes[worker]
    return (piece * np.int64(workers) + number)[number != NO_WORKER]


def balance(
    home: Home,
    settings: Settings,
    kind: str,
    *,
    method: str = "gr",
    dry_run: bool = False,
    proposal: Address | None = None,
    page: Address | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Adjust the plan in force.

    kind      `local` moves raster cells between workers; `global` makes a new partitioning for the subscriptions to
              come, or, if an older plan is retiring already, retires it once few subscriptions are left under it;
              `retire` retires that plan at once; `undo` reverts the last adjustment, or the last change of the plan of
              `topk`, which has neither proposal nor page; `plan` makes a plan for `settings.workers` and moves all
              subscriptions to it at once
    proposal  a dry run writes its decision to this file; without a dry run the decision is read from it
    page      an HTML page on the moves is written to this file, if there are any

    Returns {"kind", "dry_run", "plan_version_before", "plan_version_after", "retiring_version", "reason",
    "measured_imbalance", "moved_subscriptions", "moved_bytes" (uncompressed), "load_before", "load_after" (seconds, of
    each worker), "expected_gain", "moves": [{"origin", "target", "cells", "terms", "reason", "saved" (seconds off the
    sum of all loads; None where not known)}], "least_bytes" (of `global` and `plan`: what moving all subscriptions to
    the new plan takes at least; None of others), "seconds"}. `measured_imbalance` is None while a worker is idle. A dry
    run returns the same and changes nothing. If the balance is not violated, or no move helps, nothing is changed
    either: `plan_version_after` then equals `plan_version_before`, and `reason` says why.
    """
    home.check()
    began = time.perf_counter()
    with home.locked():
        version = current_version(home)
        if version == 0:
            raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
        if Ledger(home).unfinished_batch() is not None:
            raise RetryableError("a batch is unfinished", "run: pststream match, then this again")
        if kind == "undo" and is_change_of_topk(home, version):
            return _undo_topk(home, version, dry_run, proposal, began)
        if proposal is None or dry_run:
            decision = DECIDERS[kind](home, settings, version, method, progress)
            document = _apply(home, settings, version, kind, decision, dry_run, progress)
        else:
            proposed = read_proposal(proposal)
            decision = proposed.decision
            document = _apply_proposal(home, settings, version, kind, proposed, progress)
        document |= {"kind": kind, "dry_run": dry_run}
        if proposal is not None and dry_run:
            write_proposal(proposal, Proposal(kind, version, digest_of(load_plan(home, version)), decision))
        if page is not None and decision.adjustment is not None:
            # The page compares the new plan with the one before; with the one that was retiring, if it replaces that.
            row = read_plan_row(home, document["plan_version_before"])
            retiring = row["retiring_version"] if kind in ("global", "retire") else None
            before = load_plan(home, row["plan_version"] if retiring is None else retiring)
            write_adjustment(page, home.path, document, before, decision.adjustment.plan)
    return {**document, "seconds": round(time.perf_counter() - began, 3)}


def _undo_topk(home: Home, version: int, dry_run: bool, proposal: Address | None, began: float) -> dict[str, Any]:
    if proposal is not None:
        raise UsageError(
            f"plan {version} changed the plan of topk: its undo has no proposal", "run: pststream balance undo --apply"
        )
    document = undo_topk(home, version, dry_run)
    return {**document, "kind": "undo", "dry_run": dry_run, "seconds": round(time.perf_counter() - began, 3)}


def _apply(
    home: Home, settings: Settings, version: int, kind: str, decision: Decision, dry_run: bool, progress: Progress
) -> dict[str, Any]:
    """Migrate subscriptions and put the new plan in force, or only count in a dry run; return the document."""
    adjustment = decision.adjustment
    if adjustment is None:
        return _document(decision, version, 0, 0, retiring_plan(read_plan_row(home, version)))
    context = make_task_context(home, settings, version)
    named = {move.origin for move in adjustment.moves}
    origins = set(range(context.workers)) if -1 in named else named
    logged_kind, retiring = retiring_after(home, version, kind)
    rows, size = migrate(home, settings, context, adjustment.plan, origins, retiring, dry_run, progress)
    crash_point("balance.indexed")
    document = _document(decision, version, rows, size, retiring)
    if not dry_run:
        _save(home, version, logged_kind, retiring, adjustment, document)
    return document


def _apply_proposal(
    home: Home, settings: Settings, version: int, kind: str, proposal: Proposal, progress: Progress
) -> dict[str, Any]:
    """Apply a proposal; if it is applied already and nothing has changed since, return its document again."""
    if proposal.kind != kind:
        raise UsageError(f"the proposal is of kind {proposal.kind}", f"run: pststream balance {proposal.kind}")
    before, adjustment = proposal.plan_version, proposal.decision.adjustment
    if before == version and proposal.digest == digest_of(load_plan(home, version)):
        return _apply(home, settings, version, kind, proposal.decision, False, progress)
    rows = read_table(home.table(names.MIGRATIONS), filter=pds.field("plan_version") == version).to_pylist()
    if adjustment and rows and before == version - 1 and same_plan(load_plan(home, version), adjustment.plan):
        retiring = retiring_plan(read_plan_row(home, version))
        return _document(proposal.decision, before, rows[0]["subscriptions"], rows[0]["bytes"], retiring)
    other = f"the proposal changes plan {before}, and plan {version} is in force"
    raise UsageError(
        "the proposal changes a plan of another home" if before == version else other,
        f"make a new one: pststream balance {kind} --dry-run --proposal FILE",
    )


def _document(decision: Decision, version: int, rows: int, size: int, retiring: Retiring | None) -> dict[str, Any]:
    """Return the document of `balance` for a decision on plan `version`.

    rows, size  number of pieces that move, and their bytes
    retiring    the plan that continues to serve older subscriptions
    """
    unchanged: dict[str, Any] = {
        "plan_version_before": version,
        "plan_version_after": version,
        "retiring_version": retiring.plan_version if retiring else None,
        "reason": decision.reason,
        "measured_imbalance": finite_imbalance(decision.imbalance),
        "moved_subscriptions": rows,
        "moved_bytes": size,
        "least_bytes": None,
        "load_before": [],
        "load_after": [],
        "moves": [],
    }
    adjustment = decision.adjustment
    if adjustment is None:
        return unchanged
    before, after = adjustment.before, adjustment.after
    return unchanged | {
        "plan_version_after": version + 1,
        "least_bytes": adjustment.least_bytes,
        "planner": adjustment.plan.planner,
        "workers": adjustment.plan.workers,
        "units": adjustment.plan.units,
        **{name: adjustment.plan.options[name] for name in ("choice",) if name in adjustment.plan.options},
        "load_before": before.load.tolist(),
        "load_after": after.load.tolist(),
        "expected_gain": round(1 - after.max / before.max, 4) if before.max else 0.0,
        "moves": [
            {"origin": m.origin, "target": m.target, "cells": len(m.cells), "reason": reason,
             "terms": None if m.terms is None else len(m.terms), "saved": saved}
            for m, reason, saved in zip_longest(adjustment.moves, adjustment.reasons, adjustment.saved)
        ],
    }  # fmt: skip


def _save(
    home: Home, version: int, kind: str, retiring: Retiring | None, adjustment: Adjustment, document: dict[str, Any]
) -> None:
    """Write the units and the migration of the new plan, then its row in `plans`, which puts it in force."""
    new, loads = version + 1, adjustment.after
    delete_units(home, new)
    ledger_tables.delete_versions(home, names.MIGRATIONS, "plan_version", new)
    columns = {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions}
    save_units(home, new, adjustment.plan, columns)
    shared = {
        "plan_version": new, "plan_version_before": version, "kind": kind, "decided_at": utc_now(),
        "subscriptions": document["moved_subscriptions"], "bytes": document["moved_bytes"],
        **{name: document[name] for name in ("expected_gain", "load_before", "load_after")},
    }  # fmt: skip
    moves = [
        {**shared, "move": ordinal, "reason": reason, "origin": move.origin, "target": move.target,
         "cells": move.cells.tolist(), "terms": None if move.terms is None else move.terms.tolist()}
        for ordinal, (move, reason) in enumerate(zip(adjustment.moves, adjustment.reasons))
    ]  # fmt: skip
    ledger_tables.append(home, names.MIGRATIONS, moves)
    crash_point("balance.units_written")
    figures = {**loads.figures, "options": adjustment.plan.options, "seconds": 0.0}
    placement = None
    if kind == "undo":  # no other adjustment makes a plan that shares by subscription
        placement = read_plan_row(home, plan_after_undo(home, version)[0])["placement_version"]
    topk = topk_version_of(home, version)
    save_plan(home, new, adjustment.plan, figures, index_version(home, version), retiring, placement, topk)
    crash_point("balance.done")
