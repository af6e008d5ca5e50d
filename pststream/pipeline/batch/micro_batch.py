"""Run micro-batches (`pststream match`): index requests, match, retract, commit, each batch exactly once.

A batch covers one key range of each log. It is written to the ledger first (`started`: its key ranges, plan and table
versions) and again when it is done (`done`). An interrupted batch is finished before a new one starts, with the key
ranges in the ledger; each table ignores a second commit with the batch's transaction id. So each step can be
interrupted at any point and run again. A batch whose tries die (`failed_tries.py`) gets smaller ranges, and an object
with which alone it dies, or a request with which alone indexing or matching dies, is set aside.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pststream.base import lineage, names
from pststream.base.progress import LogMessage, Progress, StepCounter, no_progress, with_fields
from pststream.base.texts import counted, counted_matches, duration
from pststream.base.utc_times import from_micros, utc_now
from pststream.engine.contract import Stage, collect_places
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, make_task_context
from pststream.engine.warm_up import is_compiled
from pststream.pipeline.answers.answer_context import (
    AnswerContext,
    find_stream_time,
    make_answer_context,
    read_previous,
)
from pststream.pipeline.answers.fold_bucket import BucketReport
from pststream.pipeline.answers.index_thresholds import index_thresholds
from pststream.pipeline.answers.log_reports import log_reports
from pststream.pipeline.batch.failed_tries import (
    FAILING,
    NOBODY,
    PARTNERS,
    TRIAL,
    TRY_SECONDS,
    Failing,
    Suspects,
    begin_smaller,
    count_dead_trial,
    count_deaths,
    counted_try,
    find_only_object,
    give_way,
    insertion_keys,
    is_committed,
    noted_try,
    read_failing,
    read_suspects,
    smaller_range,
    write_failing,
    write_rejects_of_set_aside,
    write_suspects,
)
from pststream.pipeline.batch.match_and_fold import limit_objects, match_and_fold, save_unit_loads
from pststream.pipeline.batch.match_task import WorkerReport, match_workers, merge_reports
from pststream.pipeline.batch.retract import Retractions, write_retractions
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ObjectScan, route_objects, stored_scans
from pststream.pipeline.batch.worker_parts import WorkerParts, slice_rows, whole_workers, worker_parts
from pststream.pipeline.index.build_index import index_and_discard, index_requests
from pststream.pipeline.index.compact_index import compact_small_files, drop_pieces, pieces_apart
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.pipeline.index.withdrawals import greatest_ts_of_others, record_withdrawal
from pststream.pipeline.ingest.ingest_transaction import finish_interrupted_ingest, withdraw_request
from pststream.pipeline.planning.plan import first_plan
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import count_removals
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger_tables import lineage_table
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, split_into_tasks
from pststream.storage.parquet_files import delete_files
from pststream.tables.delta_tables import table_version
from pststream.tables.ledgers import AnswerCounts, Ledger, ledger_columns, step_seconds
from pststream.tables.log_events import NONE, WithdrawnRows, withdrawn_objects

COMPILING = "compiling the kernels for this machine: about a minute, once"


OTHERS = 1_000
"""Earlier objects of its own file that are matched before an object is set aside, or earlier insertions that are
indexed before a request is, or matched, at most."""


@dataclass
class StepTimer:
    """Measures the seconds of each step."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def end_step(self, step: str) -> None:
        """Add the time since the last step ended to `step`."""
        now = time.perf_counter()
        self.seconds[step] = round(self.seconds.get(step, 0.0) + now - self._since, 3)
        self._since = now

    def add_cpu(self, seconds: Mapping[str, float]) -> None:
        """Add CPU seconds of a task to those of its steps, which have names of their own."""
        for step, spent in seconds.items():
            self.seconds[f"{step}_cpu"] = round(self.seconds.get(f"{step}_cpu", 0.0) + spent, 4)


def match(
    home: Home,
    settings: Settings,
    *,
    max_objects: int | None = None,
    one: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Run micro-batches until nothing is pending, or with `one` a single batch.

    Returns {"batches": [as `batch_summary` returns them], "objects", "matches", "changes"}, what `pststream match
    --json` prints.
    """
    home.check()
    batches: list[dict[str, Any]] = []
    read = (names.OBJECTS, names.REQUESTS, names.PLANS, names.PLAN_UNITS, names.WORKER_INDEX)
    inputs = [lineage_table(home, name) for name in read]
    written = {names.WORKER_INDEX: None, names.MATCHES: "matches", names.UNIT_LOADS: None}
    outputs = [lineage_table(home, name, rows) for name, rows in written.items()]
    with home.locked():
        ledger = _resume(home, settings, Ledger(home), progress)
        counter = StepCounter(progress, "matching", "object", ledger.pending_objects(), step="match")
        while (batch := _next_batch(home, settings, ledger, max_objects or settings.max_objects, progress)) is not None:
            progress(_message(batch, f"started under plan {batch['plan_version']}"))
            if not batches and not is_compiled("matching", "match_segment"):
                progress(COMPILING)
            counter.add(0)
            run = lineage.record_run(home.path, "match", batch["batch_id"], inputs, outputs)
            with counted_try(home, batch, ledger), run as figures:
                done = run_batch(home, settings, batch, ledger, with_fields(progress, step="match"))
                figures.update(batch_summary(done))
            summary = batch_summary(done)
            batches.append(summary)
            counts = (
                f"{counted(summary['objects'], 'object')}, {counted_matches(summary['matches'], summary['changes'])}"
            )
            progress(_message(summary, f"done: {counts} in {duration(sum(summary['seconds'].values()))}"))
            if one:
                break
            counter.add(summary["objects"])
            ledger = Ledger(home)
    return {"batches": batches, **{name: sum(b[name] for b in batches) for name in ("objects", "matches", "changes")}}


def _message(batch: dict[str, Any], text: str, **more: Any) -> LogMessage:
    return LogMessage(f"batch {batch['batch_id']} {text}", step="match", batch_id=batch["batch_id"], **more)


def batch_summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return a done batch of the ledger as commands print it: {"batch_id", "plan_version", "objects", "discarded",
    "requests", "matches", "retractions", "changes" (rows that entered or left answers), "seconds": {step: seconds}}.
    """
    columns = ("batch_id", "plan_version", "objects", "discarded", "requests", "matches", "retractions")
    changes = sum(count for _, count in row["changes"] or ())
    figures = {name: row[name] for name in columns}
    return {**figures, "changes": changes, "seconds": step_seconds(row["seconds_by_step"])}


def _next_batch(
    home: Home, settings: Settings, ledger: Ledger, max_objects: int, progress: Progress
) -> dict[str, Any] | None:
    """Return the batch to run, a row of the ledger: the one that was interrupted, else a new one over the pending rows,
    else None.
    """
    unfinished = ledger.unfinished_batch()
    if unfinished is not None:
        return dict(unfinished)
    suspects = read_suspects(home)
    pending = ledger.pending(max_objects)
    if suspects is not None:
        has_turn = suspects.is_resting and pending.objects_to > pending.objects_after and current_version(home) > 0
        if not has_turn:  # of the objects; the first plan would sample the suspects
            _find_request(home, settings, suspects, progress)
            return _next_batch(home, settings, Ledger(home), max_objects, progress)
        write_suspects(home, suspects._replace(is_resting=False))
    if pending.empty:
        return None
    failing = read_failing(home)
    rows = 0
    if failing is not None:
        write_rejects_of_set_aside(home)
        rows = ledger.object_rows(pending.objects_after, failing.up_to)
        if not rows:
            home.files.delete([FAILING])
    if rows:  # among which one is that made a batch die: half of them, and no requests
        max_objects = min(max_objects, max(rows // 2, 1))
        pending = ledger.pending(max_objects)
    if current_version(home) == 0:
        with noted_try(home, TRIAL, (pending.requests_after, pending.requests_to)):  # it samples pending requests
            first_plan(home, settings)
    bound = limit_objects(home, settings, ledger, pending, max_objects)
    if bound < max_objects:
        pending = ledger.pending(bound)
    if rows or suspects is not None:
        pending = replace(pending, requests_to=pending.requests_after)
    batch = {
        "batch_id": ledger.next_batch_id,
        "status": "started",
        "plan_version": current_version(home),
        "objects_after": pending.objects_after,
        "objects_to": pending.objects_to,
        "requests_after": pending.requests_after,
        "requests_to": pending.requests_to,
        "objects_version": table_version(home.table(names.OBJECTS)),
        "requests_version": table_version(home.table(names.REQUESTS)),
        "removals": count_removals(home),
        "started_at": utc_now(),
    }
    ledger_tables.append(home, names.BATCHES, [batch])
    crash_point("match.started")
    return batch


def _resume(home: Home, settings: Settings, ledger: Ledger, progress: Progress) -> Ledger:
    """Give an unfinished batch whose tries have died a smaller range, or set its only object aside; return the ledger.

    An object is set aside if it has died twice alone, then others could be matched, and then it has died again.
    """
    count_dead_trial(home)
    batch: dict[str, Any] = dict(ledger.unfinished_batch() or {})
    failing = count_deaths(home, batch) if batch else Failing()
    if not failing.deaths or is_committed(home, batch):
        return ledger
    smaller = smaller_range(home, ledger, batch)
    if smaller is not None:
        progress(_message(batch, "died: it is tried with fewer rows", level="warning"))
        is_halved = smaller["requests_to"] == batch["requests_to"]
        if not is_halved:
            write_suspects(home, Suspects((batch["requests_after"], batch["requests_to"]), is_resting=True))
        write_failing(home, failing._replace(up_to=batch["objects_to"]) if is_halved else failing)
        return begin_smaller(home, smaller)
    if failing.deaths > 1 and failing.partners != NOBODY:
        finish_interrupted_ingest(home, settings, progress)  # it may set the partner aside
        write_rejects_of_set_aside(home)
        partner = _find_partner(home, settings, batch, failing, progress)
        if partner is not None:
            drop_pieces(home, settings, batch["plan_version"], partner)
            _set_request_aside(home, settings, partner, progress)
            write_failing(home, Failing(failing.up_to))
            return Ledger(home)
    key = find_only_object(home, batch)
    if key is None or not 0 < failing.others < failing.deaths:
        if key is not None and failing.deaths % 2 == 0:
            progress(_message(batch, f"died {failing.deaths} times with one object: trying others", level="warning"))
            with counted_try(home, batch, ledger):
                if _match_others(home, settings, batch["plan_version"], key):
                    write_failing(home, failing._replace(others=failing.deaths))
        return ledger
    finish_interrupted_work(home, settings, progress)
    keys = np.array([key])
    watermark = greatest_ts_of_others(home, keys, withdrawn_objects(home))
    record_withdrawal(home, settings, keys, watermark, progress, set_aside=True)
    write_rejects_of_set_aside(home)
    progress(_message(batch, "set an object aside: see pststream rejects --reason set_aside", level="warning"))
    return Ledger(home)


def _find_request(home: Home, settings: Settings, suspects: Suspects, progress: Progress) -> None:
    """Index the suspects in halves without a result: the process dies, or none of them is a suspect any more.

    A request is set aside if it has died alone, then others could be indexed, and then it has died again.
    """
    version = current_version(home)
    context = make_task_context(home, settings, version) if version else None

    def index(after: int, up_to: int) -> None:
        with noted_try(home, TRIAL, (after, up_to)):
            index_and_discard(home, context, (after, up_to), settings, progress)

    finish_interrupted_work(home, settings, progress)  # it may be the withdrawal
    after, up_to = suspects.range
    keys = insertion_keys(home, after, up_to)
    if len(keys) == 1 and 0 < suspects.others < suspects.deaths:
        _set_request_aside(home, settings, int(keys[0]), progress)
    elif len(keys) == 1:
        if suspects.deaths and not suspects.others:
            progress(LogMessage("indexing died with one request: trying others", level="warning"))
            if others := _other_requests(home, int(keys[0]), names.MAX_INT64, 1):
                index(*others[0])
                write_suspects(home, suspects._replace(others=suspects.deaths))
        index(after, up_to)
    elif len(keys):
        middle = int(keys[len(keys) // 2 - 1])
        index(after, middle)
        index(middle, up_to)
    write_suspects(home, None)


def _set_request_aside(home: Home, settings: Settings, key: int, progress: Progress) -> None:
    withdraw_request(home, settings, key, progress)
    write_rejects_of_set_aside(home)
    progress(LogMessage("set a request aside: see pststream rejects --reason set_aside", level="warning"))


def _other_requests(home: Home, key: int, up_to: int, later: int) -> list[tuple[int, int]]:
    """Return ranges (after, up to) of at most OTHERS insertions before one, and of `later` after it up to a key."""
    parts = insertion_keys(home, -1, key - 1)[-OTHERS:], insertion_keys(home, key, up_to)[:later]
    return [(int(others[0]) - 1, int(others[-1])) for others in parts if len(others)]


def _find_partner(
    home: Home, settings: Settings, batch: dict[str, Any], failing: Failing, progress: Progress
) -> int | None:
    """Match a batch with halves of the subscriptions, without a result: the process dies, or there is none with which
    it dies. Returns the key of the insertion with which alone it has died, before and after it was matched with others.
    """

    def match(after: int, up_to: int) -> None:
        with noted_try(home, PARTNERS, (after, up_to)):
            _match_apart(home, settings, batch, (after, up_to))

    if not failing.partners:
        progress(_message(batch, "died: seeking a subscription with which it dies", level="warning"))
        has_requests = batch["requests_to"] > batch["requests_after"]
        failing = failing._replace(partners=(batch["requests_after"] if has_requests else -1, batch["requests_to"]))
        write_failing(home, failing)
        match(batch["requests_to"], batch["requests_to"])
    keys = insertion_keys(home, *failing.partners)
    if len(keys) == 1 and 0 < failing.partner_others < failing.partner_deaths:
        return int(keys[0])
    if len(keys) == 1:
        if failing.partner_deaths and not failing.partner_others:
            for others in _other_requests(home, int(keys[0]), batch["requests_to"], OTHERS):
                match(*others)
            failing = failing._replace(partner_others=failing.partner_deaths)
            write_failing(home, failing)
        match(*failing.partners)
    elif len(keys):
        after, up_to = failing.partners
        middle = int(keys[len(keys) // 2 - 1])
        match(after, middle)
        match(middle, up_to)
    write_failing(home, failing._replace(partners=NOBODY))
    return None


def _match_apart(home: Home, settings: Settings, batch: dict[str, Any], keys: tuple[int, int]) -> None:
    """Match the new and the stored objects of a batch with the subscriptions with keys in (after, up to] alone, without
    a result. Nothing is folded.
    """
    context = make_task_context(home, settings, batch["plan_version"])
    withdrawn = withdrawn_objects(home, up_to=batch["objects_to"])
    new = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
    files = new.files(list_data_files(home, names.OBJECTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    scans = [ObjectScan(slices, new, NEW_OBJECTS, withdrawn=withdrawn) for slices in tasks]
    scans += stored_scans(home, batch, Ledger(home), withdrawn, settings.cache_bytes)
    with pieces_apart(home, settings, batch["plan_version"], keys) as index:
        parts = whole_workers(context.workers, context.workers)
        _discard(home, route_and_match(settings, replace(context, files=index), scans, keys[0], parts))


def _discard(home: Home, reports: list[WorkerReport]) -> None:
    """Delete matches that no commit names."""
    root = home.table(names.MATCHES)
    delete_files([f"{root}/{file.path}" for report in reports for file in report.files])


def _match_others(home: Home, settings: Settings, plan_version: int, key: int) -> bool:
    """Match others in place of an object, without a result: those before it in its file, or in other files, or later
    ones; return whether there are any that are not withdrawn.
    """
    withdrawn, before, last = withdrawn_objects(home), key - 1, slice(-1, None)
    for after, up_to, part in ((before - OTHERS, before, last), (-1, before, last), (key, names.MAX_INT64, slice(1))):
        objects = KeyRange("object_key", after, up_to)
        reports = match_and_discard(home, settings, plan_version, part, objects, withdrawn)
        if any(report.latest != names.NO_TIME for report in reports):
            return True
    return False


def finish_interrupted_work(home: Home, settings: Settings, progress: Progress) -> None:
    """Finish an ingest and a batch, so that nothing writes their rows later.

    Of the batch nothing is matched that no try has committed: this may have been what killed it, and the next batch
    has these rows.
    """
    finish_interrupted_ingest(home, settings, progress)
    write_rejects_of_set_aside(home)
    ledger = give_way(home)
    batch = ledger.unfinished_batch()
    if batch is not None:
        progress(f"ending batch {batch['batch_id']}, which was interrupted")
        with counted_try(home, dict(batch), ledger):
            run_batch(home, settings, dict(batch), ledger, progress)


@dataclass(frozen=True)
class _Matched:
    """Reports of the tasks that match a batch.

    workers      one for each worker with objects
    buckets      one for each bucket of answers; empty in a home without subscriptions with memory
    stream_time  greatest ts of the objects up to the batch, microseconds; names.NO_TIME: there is no such object
    """

    workers: list[WorkerReport]
    buckets: list[BucketReport]
    stream_time: int


def run_batch(
    home: Home, settings: Settings, batch: dict[str, Any], ledger: Ledger, progress: Progress = no_progress
) -> dict[str, Any]:
    """Run a batch that is in the ledger; an earlier try may have done any of its steps.

    ledger: as it was before the batch. Returns the batch's ledger row, done.
    """
    timer, places = StepTimer(), collect_places()
    get_engine(settings, home)
    timer.end_step("session")

    context = make_task_context(home, settings, batch["plan_version"], batch["batch_id"])
    previous_time, stream_time, answers = _index_batch(home, settings, context, batch, ledger, progress)
    timer.end_step("index")
    crash_point("match.indexed")

    context = replace(context, files=index_files(home, batch["plan_version"]))
    matched = _match_objects(home, settings, context, batch, ledger, stream_time, answers)
    timer.end_step("match")

    # Retract earlier matches that the deletions and withdrawals of the batch end, and commit all matches at once.
    withdrawn = withdrawn_objects(home, batch["objects_after"], batch["objects_to"])
    retracted = write_retractions(home, settings, context, ledger.max_matched_ts(batch["objects_after"]), withdrawn)
    timer.end_step("retract")
    _commit_batch(home, batch, answers, matched, retracted)
    timer.end_step("save")
    crash_point("match.loads_written")
    reported = log_reports(home, settings, batch, previous_time, matched.stream_time)
    timer.end_step("report")
    crash_point("match.reported")

    done = _done_row(batch, ledger, matched, reported, retracted.pairs, timer)
    done["engine"] = ", ".join(sorted(places)) or None
    ledger_tables.append(home, names.BATCHES, [done])
    crash_point("match.done")
    if batch["batch_id"] % ledger_tables.COMPACT_EVERY == 0:
        for name in (names.FILES, names.BATCHES, names.UNIT_LOADS, names.PLACEMENTS):
            ledger_tables.compact(home, name)
    return done


def _index_batch(
    home: Home, settings: Settings, context: TaskContext, batch: dict[str, Any], ledger: Ledger, progress: Progress
) -> tuple[int, int, AnswerContext | None]:
    """Apply the requests of the batch, and the thresholds that the batch before has logged, to the index.

    Returns the stream time after the batch before, the same without the objects that this batch withdraws
    (microseconds, names.NO_TIME if there is no such object), and what tasks need to know of the subscriptions with
    memory, None if there are none.
    """
    has_requests = batch["requests_to"] > batch["requests_after"]
    if has_requests:
        index_requests(home, context, batch["requests_after"], batch["requests_to"], settings, progress)
    before = ledger.batches_before(batch["batch_id"])
    previous = read_previous(before)
    stream_time = previous.stream_time
    if withdrawn_objects(home, batch["objects_after"], batch["objects_to"]):
        withdrawn = withdrawn_objects(home, up_to=batch["objects_to"])
        stream_time = find_stream_time(home, settings, batch["objects_after"], withdrawn)
    answers = None
    if has_standing_queries(home, batch["requests_to"]):
        answers = make_answer_context(home, settings, batch, before, previous, stream_time)
        index_thresholds(home, settings, context, answers)
        crash_point("match.thresholds_indexed")
    if has_requests or answers is not None:
        compact_small_files(home, settings, context.plan_version, batch["batch_id"])
    return previous.stream_time, stream_time, answers


def _match_objects(
    home: Home,
    settings: Settings,
    context: TaskContext,
    batch: dict[str, Any],
    ledger: Ledger,
    stream_time: int,
    answers: AnswerContext | None,
) -> _Matched:
    """Match the objects of the batch, and stored objects with its late subscriptions; fold the answers."""
    files, withdrawn = list_data_files(home, names.OBJECTS), withdrawn_objects(home, up_to=batch["objects_to"])
    new = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
    objects = ledger.pending_objects(batch["objects_to"])
    cores = get_engine(settings, home).parallelism
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, new.files(files)), slice_rows(objects, cores))
    scans = [ObjectScan(slices, new, NEW_OBJECTS, withdrawn=withdrawn) for slices in tasks]
    parts = worker_parts(home, context.plan_version, context.workers, objects, cores)
    scans += stored_scans(home, batch, ledger, withdrawn, settings.cache_bytes)
    buckets = list[BucketReport]()
    if answers is None:
        workers = route_and_match(settings, context, scans, batch["requests_after"], parts)
    else:
        buckets = match_and_fold(settings, context, answers, scans, batch["requests_after"], parts)
        workers = merge_reports([report for bucket in buckets for report in bucket.workers])
    # Routing tasks build segments that their node lacks; the seconds count for the workers of the segments.
    for report in workers:
        report.index_seconds += sum(other.built_seconds.get(report.worker, 0.0) for other in workers)
    return _Matched(workers, buckets, max([stream_time, *(report.latest for report in workers)]))


def _commit_batch(
    home: Home, batch: dict[str, Any], answers: AnswerContext | None, matched: _Matched, retracted: Retractions
) -> None:
    """Commit the changes of answers, the matches and retractions, and the loads of the units."""
    if answers is not None:
        changed = [file for bucket in matched.buckets for file in bucket.files]
        commit_files(home, names.ANSWER_LOG, changed, application="answers", transaction=batch["batch_id"])
        crash_point("match.answered")
    files = [file for report in matched.workers for file in report.files] + retracted.files
    transaction, is_blind = batch["batch_id"], retracted.is_blind
    commit_files(home, names.MATCHES, files, application="match", transaction=transaction, is_blind=is_blind)
    crash_point("match.matched")
    units = [unit for bucket in matched.buckets for unit in bucket.units]
    save_unit_loads(home, batch, matched.workers, None if answers is None else answers.topk_version, units)


def _done_row(
    batch: dict[str, Any],
    ledger: Ledger,
    matched: _Matched,
    reported: AnswerCounts,
    retractions: int,
    timer: StepTimer,
) -> dict[str, Any]:
    """Return the batch's ledger row with status `done`.

    reported     counts of `frequent_terms`
    retractions  number of retracted pairs
    """
    workers, buckets = matched.workers, matched.buckets
    for bucket in buckets:
        timer.add_cpu({f"answers_{step}": seconds for step, seconds in bucket.seconds.items()})
    timer.seconds["dispatch_cpu"] = round(sum(report.dispatch_seconds for report in workers), 3)
    timer.seconds["match_cpu"] = round(sum(report.cpu_seconds for report in workers), 4)
    timer.seconds["index_cpu"] = round(sum(report.index_seconds for report in workers), 3)
    return {
        **batch,
        "objects": sum(report.seen for report in workers),
        "discarded": sum(report.discarded for report in workers),
        "requests": ledger.accepted_requests(batch["requests_after"], batch["requests_to"]),
        "matches": sum(report.matches for report in workers),
        "retractions": retractions,
        "status": "done",
        "seconds_by_step": list(timer.seconds.items()),
        "finished_at": utc_now(),
        "stream_time": None if matched.stream_time == names.NO_TIME else from_micros(matched.stream_time),
        **ledger_columns([*(bucket.counts for bucket in buckets), reported]),
    }


def route_and_match(
    settings: Settings, context: TaskContext, scans: list[ObjectScan], after_key: int, parts: WorkerParts
) -> list[WorkerReport]:
    """Route the objects of the scans to workers, and match them there; return a report for each worker with objects.

    after_key: stored objects meet only subscriptions with a greater key
    """
    # Before the shuffle `route_task.route_objects` runs on each scan; after it `match_task.match_workers` runs on the
    # objects of the workers, or parts of workers, of each task.
    reports = get_engine(settings, Home(context.home)).run_shuffled(
        scans,
        partial(route_objects, context, after_key, parts),
        [Stage(parts.tasks, partial(match_workers, context, after_key))],
        seconds=TRY_SECONDS,
    )
    return merge_reports(report for of_task in reports for report in of_task)


ALL_OBJECTS = KeyRange("object_key", -1, names.MAX_INT64)


def match_and_discard(
    home: Home,
    settings: Settings,
    plan_version: int,
    part: slice,
    keys: KeyRange = ALL_OBJECTS,
    withdrawn: WithdrawnRows = NONE,
) -> list[WorkerReport]:
    """Match the objects of some tasks (`part` of all) under a plan; delete the matches, return the reports.

    keys: only objects with these keys. Nothing is folded: candidates of subscriptions with memory are dropped.
    """
    context = replace(make_task_context(home, settings, plan_version), files=index_files(home, plan_version))
    files = keys.files(list_data_files(home, names.OBJECTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))[part]
    parts = whole_workers(context.workers, context.workers)
    scans = [ObjectScan(slices, keys, NEW_OBJECTS, withdrawn=withdrawn) for slices in tasks]
    reports = route_and_match(settings, context, scans, -1, parts)
    _discard(home, reports)
    return reports
