"""Choose the batches to replay, add up their figures, and make the scratch home in which they run again.

The scratch home has the logs as they were, the plan to try, and the index of the earlier requests. The plan is the one
in force, an older version, or that of a proposal.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import sum_column
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Progress, StepCounter
from pststream.engine.task_context import make_task_context
from pststream.pipeline.batch.micro_batch import match_and_discard, run_batch
from pststream.pipeline.index.build_index import index_requests
from pststream.pipeline.index.compact_index import compact_index
from pststream.pipeline.index.place_pieces import (
    INDEX_BUILT,
    REBUILD,
    placement_counts,
    read_state,
    save_counts,
    save_start,
)
from pststream.pipeline.planning.plan import new_plan
from pststream.pipeline.replan.compare_planners import BEFORE_ALL, add_rows
from pststream.pipeline.replan.measured_loads import plan_after_undo
from pststream.pipeline.replan.plan_topk import plan_topk
from pststream.pipeline.replan.proposal_file import digest_of, read_proposal
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.settings import Settings
from pststream.state import erasures, ledger_tables
from pststream.state.data_files import add_references, list_data_files
from pststream.state.home import Home
from pststream.state.plans import (
    current_version,
    find_plan_row,
    index_version,
    load_plan,
    read_plan_row,
    save_plan,
    save_units,
    save_vocabulary,
)
from pststream.state.slices import KeyRange
from pststream.storage.registry import Address
from pststream.tables.delta_tables import greatest_value, read_table, table_version
from pststream.tables.ledgers import Ledger, read_batches, read_latest
from pststream.tables.log_events import is_set_aside
from pststream.tables.open_tables import open_table


@dataclass(frozen=True)
class ChosenBatches:
    """Rows of `batches`: the batches to replay, all done and without gaps, and the batch before them, if any."""

    batches: list[dict[str, Any]]
    before: dict[str, Any] | None

    @property
    def first(self) -> dict[str, Any]:
        """The first batch to replay."""
        return self.batches[0]

    @property
    def last(self) -> dict[str, Any]:
        """The last batch to replay."""
        return self.batches[-1]


def batches_between(home: Home, after: int, up_to: int) -> ChosenBatches:
    """Return the batches that were committed to `matches` after Delta version `after` and up to version `up_to`.

    The log of `matches` records the number of each batch as a transaction id. Raises UsageError if there is no such
    batch, or if the log does not have a version, or no longer; RetryableError if the last batch is unfinished.
    """
    newest = table_version(home.table(names.MATCHES))
    oldest = ledger_tables.oldest_version(home, names.MATCHES)
    for version in (after, up_to):
        if not oldest <= version <= newest:
            gone = "is no longer in the log" if version < oldest else "does not exist"
            raise UsageError(
                f"version {version} of matches {gone}",
                f"versions from {oldest} to {newest} can be given; docs/operation.md says how long they are kept",
            )
    if after >= up_to:
        raise UsageError(
            f"--from-version {after} is not before --to-version {up_to}",
            "batches after the first version and up to the second are replayed",
        )
    first, last = _last_batch(home, after) + 1, _last_batch(home, up_to)
    if last < first:
        raise UsageError(
            f"no batch was committed to matches after version {after} and up to version {up_to}",
            f"versions from {oldest} to {newest} can be given",
        )
    return _read(home, first, last)


def last_batches(home: Home, count: int) -> ChosenBatches:
    """Return the last `count` batches that are done, or all of them if there are fewer; UsageError if there is none."""
    last = greatest_value(home.table(names.BATCHES), "batch_id")
    if last and read_batches(home, last - 1)[-1]["status"] != "done":
        last -= 1
    if last == 0:
        raise UsageError(f"home {home.path} has no finished batch", "run: pststream match")
    return _read(home, max(1, last - count + 1), last)


def _last_batch(home: Home, version: int) -> int:
    """Return the number of the last batch that was committed at a version of `matches`; 0 if there was none."""
    return int(open_table(home.table(names.MATCHES), version).transaction_version("match") or 0)


def refuse_removed_matches(home: Home, first: int, last: int) -> None:
    """Raise UsageError if `keep` has removed matches of the batches since, which a replay then finds to be missing."""
    removals = erasures.removed_rows(home)
    of_keep = removals.filter(pc.equal(removals.column("cause"), erasures.KEEP))
    removed = erasures.count_removed_pairs(of_keep).batch_ids
    gone = removed[(removed >= first) & (removed <= last)]
    if not len(gone):
        return
    newest = greatest_value(home.table(names.BATCHES), "batch_id")
    left = newest - int(removed.max())
    hint = f"replay later batches: at most --last {left}" if left else "there is no later batch; run: pststream match"
    raise UsageError(
        f"the matches differ, as the setting `keep` has removed some of {len(gone)} of the batches {first} to {last},"
        f" the last one of them batch {gone[-1]}, whose objects are still stored",
        f"{hint}. docs/operation.md says how long rows are kept",
    )


def _read(home: Home, first: int, last: int) -> ChosenBatches:
    rows: list[dict[str, Any]] = [dict(row) for row in read_batches(home, first - 2, last)]
    if rows[-1]["status"] != "done":
        raise RetryableError(f"batch {last} is unfinished", "run: pststream match, then replay again")
    before = rows.pop(0) if rows[0]["batch_id"] < first else None
    return ChosenBatches(rows, before)


COUNTS = ("objects", "discarded", "requests", "matches", "retractions")
LOADS = ("batch_id", "plan_version", "worker", "objects", "subscriptions", "candidates", "matches", "cpu_seconds")


@dataclass(frozen=True)
class BatchLoads:
    """Some batches of a home: their rows of `batches`, and a row of LOADS for each worker and batch."""

    batches: list[dict[str, Any]]
    workers: pa.Table


def read_loads(home: Home, first: int, last: int) -> BatchLoads:
    """Read what the batches `first` to `last` recorded."""
    within = (
        (pds.field("batch_id") >= first) & (pds.field("batch_id") <= last) & (pds.field("unit") == names.WHOLE_WORKER)
    )
    workers = read_table(home.table(names.UNIT_LOADS), list(LOADS), within)
    rows = [dict(row) for row in read_batches(home, first - 1, last)]
    return BatchLoads(rows, workers.sort_by([("batch_id", "ascending"), ("worker", "ascending")]))


def add_up(loads: BatchLoads, workers: int) -> dict[str, Any]:
    """Return the figures of the batches together, what `pststream replay --json` prints of each side.

    workers: the number of workers of the plan, which may retire one of more; those that had nothing to do have zeros

    Loads are CPU seconds of matching and of building segments. `duplicates`: objects sent beyond the first worker of
    each object that was not discarded. `subscriptions_stored`: pieces in the indexes of the workers, as of the last
    batch in which each had objects.
    """
    rows, batches = loads.workers, loads.batches
    workers = max(workers, 1 + int(rows.column("worker").to_numpy().max(initial=-1)))
    counts = {name: sum(batch[name] for batch in batches) for name in COUNTS}
    seconds = _by_worker(rows, "cpu_seconds", workers)
    sent = sum_column(rows, "objects")
    kept = counts["objects"] - counts["discarded"]
    most, tuples = float(seconds.max(initial=0.0)), counts["objects"] + counts["requests"]
    stored = np.zeros(workers, np.int64)
    stored[rows.column("worker").to_numpy()] = rows.column("subscriptions").to_numpy()  # the last batch of each counts
    return {
        "plan_versions": sorted({int(batch["plan_version"]) for batch in batches}),
        **counts,
        "objects_sent": sent,
        "duplicates": max(sent - kept, 0),
        "copies": round(sent / kept, 3) if kept else 0.0,
        "candidates": sum_column(rows, "candidates"),
        "subscriptions_stored": int(stored.sum()),
        "throughput": round(tuples / most) if most else 0,
        "load_total": round(float(seconds.sum()), 4),
        "max_seconds": round(most, 4),
        "imbalance": finite_imbalance(imbalance_of(seconds), 3),
        "dispatch_seconds": round(sum(dict(batch["seconds_by_step"]).get("dispatch_cpu", 0.0) for batch in batches), 3),
        "worker_seconds": [round(float(value), 4) for value in seconds],
        "worker_objects": _by_worker(rows, "objects", workers).astype(np.int64).tolist(),
        "worker_candidates": _by_worker(rows, "candidates", workers).astype(np.int64).tolist(),
        "worker_subscriptions": stored.tolist(),
    }


def _by_worker(rows: pa.Table, name: str, workers: int) -> np.ndarray:
    values = rows.column(name).to_numpy().astype(np.float64)
    return np.bincount(rows.column("worker").to_numpy(), values, minlength=workers)


@dataclass(frozen=True)
class TriedPlan:
    """A plan under which batches are replayed.

    version     its version in the scratch home; in the home too, if it is stored there
    stored      whether the home has it
    index       version of the vocabulary in the home that ranks the terms of its index
    placement   version of the counts in the home by which it places subscriptions; 0: it shares otherwise
    """

    plan: PartitionPlan
    version: int
    stored: bool
    index: int
    placement: int = 0


def stored_plan(home: Home, version: int | None) -> TriedPlan:
    """Return a plan of the home; None: the one in force, of two active plans the newer one."""
    version = current_version(home) if version is None else version
    if version == 0:
        raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
    row = find_plan_row(home, version)
    if row is None:
        raise UsageError(f"plan {version} does not exist", "see: pststream plans list")
    placement = row["placement_version"] or 0
    return TriedPlan(load_plan(home, version), version, True, index_version(home, version), placement)


def plan_of_first(home: Home, chosen: ChosenBatches) -> TriedPlan:
    """Return the plan of the first batch, as the regions' part of a plan that the home does not have."""
    return replace(stored_plan(home, chosen.first["plan_version"]), stored=False)


def proposed_plan(home: Home, path: Address) -> TriedPlan:
    """Return the plan that a proposal makes, for all subscriptions: as if no older plan served any of them."""
    proposal = read_proposal(path)
    before, adjustment = proposal.plan_version, proposal.decision.adjustment
    if find_plan_row(home, before) is None or digest_of(load_plan(home, before)) != proposal.digest:
        raise UsageError("the proposal changes a plan of another home", "give a proposal that was made for this home")
    if adjustment is None:
        raise UsageError(f"the proposal changes nothing: {proposal.decision.reason}", "give another proposal")
    placement = 0
    if isinstance(adjustment.plan, SubscriptionPlan):  # only an undo makes such a plan
        placement = read_plan_row(home, plan_after_undo(home, before)[0])["placement_version"]
    return TriedPlan(adjustment.plan, before + 1, False, index_version(home, before), placement)


def save_tried_plan(home: Home, scratch: Home, tried: TriedPlan) -> None:
    """Put the plan in force in the scratch home, with an index of its own, still empty."""
    zeros = np.zeros(tried.plan.units)
    save_units(scratch, tried.version, tried.plan, dict.fromkeys(("load", "objects", "subscriptions"), zeros))
    of_index = pds.field("plan_version") == tried.index
    vocabulary = read_table(home.table(names.VOCABULARY), filter=of_index).drop_columns(["plan_version"])
    save_vocabulary(scratch, tried.version, vocabulary)
    if tried.placement:
        counts = placement_counts(home.path, tried.placement, tried.plan.grid)
        save_counts(scratch, tried.version, counts)
        present_to = read_state(home, tried.placement, INDEX_BUILT, REBUILD).present_to
        save_start(scratch, tried.version, present_to, counts.object_scale, tried.plan.units)
    figures: dict[str, Any] = dict.fromkeys(("load_total", "load_max", "load_min", "imbalance", "seconds"), 0.0)
    figures |= {"worker_loads": [0.0] * tried.plan.workers, "options": {}}
    save_plan(scratch, tried.version, tried.plan, figures, placement=tried.version if tried.placement else None)


RECORDED = (
    *("batch_id", "started_at", "objects_version", "requests_version"),
    *("objects_after", "objects_to", "requests_after", "requests_to"),
)
"""Columns of `batches` that a batch has again when it is replayed."""


class TopkPlanner(NamedTuple):
    """A planner of `topk`, and its options as `plan --option` takes them; None: its defaults."""

    name: str
    options: str | None


def make_scratch_home(
    home: Home, scratch: Home, settings: Settings, chosen: ChosenBatches, plan: TriedPlan | None, progress: Progress
) -> None:
    """Make the scratch home as the home was when the first batch started, with the plan to try in force.

    plan: None: `settings.planner` makes one from what was stored then, as `pststream plan` would have done

    The index has the subscriptions that were live: those that ended before any object still to be matched are dropped.
    """
    scratch.init(home.answer_buckets)
    first, before = chosen.first, chosen.before
    add_rows(home, scratch, settings, names.OBJECTS, KeyRange("object_key", BEFORE_ALL, first["objects_to"]))
    add_rows(home, scratch, settings, names.REQUESTS, KeyRange("request_key", BEFORE_ALL, first["requests_to"]))
    add_rows(home, scratch, settings, names.MATCHES, KeyRange("batch_id", BEFORE_ALL, first["batch_id"] - 1))
    _add_ledger_rows(home, scratch, chosen)
    indexed = before is not None and before["requests_to"] > 0
    if plan is not None or indexed:
        save_tried_plan(home, scratch, plan or stored_plan(home, first["plan_version"]))
    if before is not None and indexed:
        version = current_version(scratch)
        progress(f"indexing the requests before batch {first['batch_id']}")
        context = make_task_context(scratch, settings, version, before["batch_id"])
        index_requests(scratch, context, BEFORE_ALL, before["requests_to"], settings, progress)
        compact_index(scratch, settings, version)
    if plan is None:
        new_plan(scratch, settings, progress=progress)


def run_batches(
    home: Home, scratch: Home, settings: Settings, chosen: ChosenBatches, topk: TopkPlanner | None, progress: Progress
) -> None:
    """Run the batches in the scratch home, with their numbers and key ranges, under its plan.

    topk: makes the plan of `topk` under which all but the first batch run; None: by bucket. The first batch
    evaluates all answers, so then their thresholds are known; later objects are not stored yet.
    """
    first, last = chosen.first, chosen.last
    match_and_discard(scratch, settings, current_version(scratch), slice(1))  # this builds the segments of the index
    counter = StepCounter(progress, "replaying", "batch", len(chosen.batches))
    for batch in chosen.batches:
        progress(f"batch {batch['batch_id']} of {first['batch_id']} to {last['batch_id']}")
        counter.add(0)
        ledger = Ledger(scratch)
        started = {name: batch[name] for name in RECORDED}
        started |= {"status": "started", "plan_version": current_version(scratch), "removals": 0}
        ledger_tables.append(scratch, names.BATCHES, [started])
        run_batch(scratch, settings, started, ledger, progress)
        counter.add(1)
        if batch is first:
            if topk is not None:
                plan_topk(scratch, settings, topk.name, options=topk.options, progress=progress)
            for name, key in ((names.OBJECTS, "object_key"), (names.REQUESTS, "request_key")):
                later = KeyRange(key, first[f"{name}_to"], last[f"{name}_to"])
                add_rows(home, scratch, settings, name, later)


def _add_ledger_rows(home: Home, scratch: Home, chosen: ChosenBatches) -> None:
    """Copy the row of the batch before, those of the files that `Ledger` reads from it to the last batch, and those of
    all withdrawals and term statistics up to there with what they name. Objects that were set aside were not matched
    before either.
    """
    before, last = chosen.before, chosen.last
    first_key = before["objects_after"] if before else 0
    seq, last_key = pds.field("file_seq"), max(last["objects_to"], last["requests_to"])
    needed = (seq >= first_key >> names.ROW_BITS) | pds.field("withdrawal_id").is_valid()
    needed |= pds.field("statistics_version").is_valid()
    within = needed & (seq <= last_key >> names.ROW_BITS)
    done = pds.field("status") == "done"
    files = read_latest(home, names.FILES, "file_seq", filter=(within | is_set_aside()) & done)
    ledger_tables.append(scratch, names.FILES, files)
    ledger_tables.append(scratch, names.WITHDRAWALS, read_table(home.table(names.WITHDRAWALS)))
    add_references(scratch, names.TERM_STATISTICS, home, list_data_files(home, names.TERM_STATISTICS))
    if before is not None:
        ledger_tables.append(scratch, names.BATCHES, [before])
