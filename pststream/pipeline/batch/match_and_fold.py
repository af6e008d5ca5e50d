"""Match the objects of a batch and fold candidates into answers; limit the batch size, and save the loads of units.

The chain has three stages: route, match by worker, fold by bucket. The second stage has these parts: one for each task
that matches; one that receives the greatest ts of the objects from the routing tasks and sends it to every bucket; and,
with a plan of `topk`, one for each of its units. Separate tasks of the first stage send the objects with their words to
these units.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.base.arrow_columns import csr, sum_column
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, cache_place, term_frequencies
from pststream.pipeline.answers.answer_context import AnswerContext, group_requests, open_queries
from pststream.pipeline.answers.fold_bucket import BucketReport, UnitReport, fold_bucket, send_latest
from pststream.pipeline.answers.log_rows import ENTRY, is_event, list_state_files, slices_of
from pststream.pipeline.answers.standing_queries import clauses_of, take_queries
from pststream.pipeline.answers.unit_candidates import (
    MessageScan,
    count_units,
    find_unit_candidates,
    message_scans,
    send_messages,
)
from pststream.pipeline.batch.failed_tries import TRY_SECONDS
from pststream.pipeline.batch.match_task import WorkerReport, match_and_send
from pststream.pipeline.batch.route_task import ROUTE_COUNTS, ObjectScan, route_objects
from pststream.pipeline.batch.worker_parts import WorkerParts
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.plans.pieces import rarest_clause_first
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks, whole_file
from pststream.storage.array_cache import Paths
from pststream.tables.ledgers import RECENT_BATCHES, Ledger, Pending


@dataclass(frozen=True)
class _EveryBucket:
    """A task that makes every bucket run, also in a batch without objects."""

    weight: float = 0.0


def match_and_fold(
    settings: Settings,
    context: TaskContext,
    answers: AnswerContext,
    scans: list[ObjectScan],
    after_key: int,
    parts: WorkerParts,
) -> list[BucketReport]:
    """Match the objects of the scans and fold the answers; return a report for each bucket, with those of workers.

    after_key: stored objects meet only subscriptions with a greater key
    """
    return get_engine(settings, Home(context.home)).run_shuffled(
        [*scans, _EveryBucket(), *message_scans(answers)],
        partial(_send, context, answers, after_key, parts),
        [
            Stage(
                parts.tasks + 1 + count_units(answers),
                partial(_match_or_search, context, answers, after_key, parts.tasks),
            ),
            Stage(answers.buckets, partial(fold_bucket, answers)),
        ],
        seconds=TRY_SECONDS,
    )


def _send(
    context: TaskContext,
    answers: AnswerContext,
    after_key: int,
    parts: WorkerParts,
    task: ObjectScan | MessageScan | _EveryBucket,
) -> Iterator[SentRows]:
    latest = parts.tasks
    if isinstance(task, MessageScan):
        yield from send_messages(answers, latest + 1, task)
        return
    if isinstance(task, _EveryBucket):
        yield latest, ROUTE_COUNTS, pa.record_batch({"latest": pa.array([names.NO_TIME], pa.int64())})
        return
    for part, tag, rows in route_objects(context, after_key, parts, task):
        yield part, tag, rows
        if tag == ROUTE_COUNTS:
            yield latest, tag, rows


def _match_or_search(
    context: TaskContext, answers: AnswerContext, after_key: int, matching: int, part: int, received: ReceivedRows
) -> Iterator[SentRows]:
    if part < matching:
        yield from match_and_send(context, after_key, answers.buckets, received)
    elif part == matching:
        yield from send_latest(answers.buckets, (rows.column("latest")[0].as_py() for _, rows in received))
    else:
        yield from find_unit_candidates(answers, part - matching - 1, received)


def limit_objects(home: Home, settings: Settings, ledger: Ledger, pending: Pending, most: int) -> int:
    """Return how many of the pending objects, `most` at most, have about `settings.max_candidates` candidates.

    It is at least 1. Each object is expected to have as many as one of the last batch with objects had, and those of
    the subscriptions that have lacked objects since then: as long as a subscription has fewer objects than it keeps,
    every object with its keywords is a candidate. The answers do not depend on the limit.
    """
    if not has_standing_queries(home, ledger.requests_applied) or pending.objects_to <= pending.objects_after:
        return most
    last, objects = ledger.next_batch_id - 1, min(most, ledger.pending_objects())
    batch = next((batch for batch in reversed(ledger.batches) if batch["objects"]), None)
    expected = sum(dict(batch["candidates"] or ()).values()) / batch["objects"] if batch else 0.0
    since = batch["batch_id"] - 1 if batch else last - RECENT_BATCHES
    changed = list_state_files(home, since, last)
    if (expected + sum(file.rows for file in changed)) * objects > settings.max_candidates:
        words = _count_words(home, settings, changed, KeyRange("batch_id", since, last), pending.requests_to)
        expected += _expect_per_object(home, KeyRange("object_key", pending.objects_after, pending.objects_to), words)
    return most if expected * objects <= settings.max_candidates else max(int(settings.max_candidates / expected), 1)


def _count_words(
    home: Home, settings: Settings, files: list[DataFile], batches: KeyRange, requests_to: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that bring candidates to subscriptions that lack objects since these batches.

    Returns term ids, ascending, and how many of the subscriptions each brings candidates to: int64[n] each.
    """
    tasks = split_into_tasks((one.path, one.rows) for one in slices_of(home, files))
    groups = group_requests(home, requests_to)
    count = partial(_count_in_task, home.path, current_version(home), groups, cache_place(settings), batches)
    counted = get_engine(settings, home).run_tasks(tasks, count) if tasks else []
    terms, position = np.unique(
        np.concatenate([np.empty(0, np.int64), *(one for one, _ in counted)]), return_inverse=True
    )
    counts = np.concatenate([np.empty(0, np.int64), *(one for _, one in counted)])
    return terms, np.bincount(position, counts, minlength=len(terms)).astype(np.int64)


def _count_in_task(
    home: str,
    version: int,
    groups: tuple[Paths, ...],
    cache: tuple[str, int],
    batches: KeyRange,
    slices: tuple[Slice, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words and their numbers of subscriptions (see `_count_words`) by the slices of `answer_log`."""
    queries, posted = open_queries(groups, cache), [np.empty(0, np.int64)]
    for rows in read_slices(slices, ["event", "subscription_key", "value", "batch_id"], batches):
        lacking = ~is_event(rows, ENTRY) & np.isinf(rows.column("value").to_numpy(zero_copy_only=False))
        _, chosen = queries.select(distinct_values(rows.column("subscription_key").to_numpy()[lacking]))
        # Scored ones have candidates by all words, others by the clause that is the rarest in the plan's sample.
        scored, near = (np.flatnonzero(kind) for kind in (chosen.are_scored, ~chosen.are_scored))
        posted.append(take_queries(chosen, scored).terms)
        if len(near):
            clauses = clauses_of(take_queries(chosen, near))
            posted.append(rarest_clause_first(clauses, term_frequencies(home, version).frequency)[2])
    terms, counts = np.unique(np.concatenate(posted), return_counts=True)
    return terms, counts


def _expect_per_object(home: Home, objects: KeyRange, words: tuple[np.ndarray, np.ndarray]) -> float:
    """Return how many candidates words (see `_count_words`) bring to an object: the mean of the first pending ones."""
    terms, counts = words
    files = sorted(objects.files(list_data_files(home, names.OBJECTS)), key=lambda file: file.low["object_key"])
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
    first = next((rows for rows in read_slices(slices, ["object_key", "terms"], objects) if rows.num_rows), None)
    if first is None or not len(terms):
        return 0.0
    _, of_objects = csr(first.column("terms"))
    brought = int(look_up(of_objects, terms, counts, 0).sum())
    return brought / first.num_rows + int(counts[terms == names.EVERY_OBJECT].sum())


def save_unit_loads(
    home: Home, batch: dict[str, Any], reports: list[WorkerReport], topk_version: int | None, units: list[UnitReport]
) -> None:
    """Append the CPU seconds of workers and the counts of units in a batch to `unit_loads`, unless an earlier try has.

    Units of the plan of `topk` are tasks of their own without a worker, so their rows have CPU seconds.

    units  those of the plan `topk_version` in `topk_plans`
    """
    tables = [_rows_of_worker(batch, report) for report in reports]
    if topk_version is not None and units:
        tables.append(_rows_of_topk(batch["batch_id"], topk_version, units))
    of_batch = KeyRange("batch_id", batch["batch_id"] - 1, batch["batch_id"])
    files = of_batch.files(list_data_files(home, names.UNIT_LOADS))
    slices = [whole_file(path) for path, _ in addresses_and_rows(home, names.UNIT_LOADS, files)]
    if tables and not any(rows.num_rows for rows in read_slices(slices, ["batch_id"], of_batch)):
        ledger_tables.append(home, names.UNIT_LOADS, pa.concat_tables(tables))


def _rows_of_worker(batch: dict[str, Any], report: WorkerReport) -> pa.Table:
    """Return a row for the whole worker, and one for each unit of each plan that had objects."""
    units = pa.concat_tables(report.units)
    whole = {
        "plan_version": batch["plan_version"],
        "unit": names.WHOLE_WORKER,
        "objects": report.objects,
        "subscriptions": report.subscriptions,
        "candidates": sum_column(units, "candidates"),
        "matches": report.matches,
        "cpu_seconds": report.cpu_seconds + report.index_seconds,
    }
    rows = pa.concat_tables([pa.Table.from_pylist([whole]), _rows_of_units(units)])
    for name, value in (("batch_id", batch["batch_id"]), ("worker", report.worker)):
        rows = rows.append_column(name, pa.array(np.full(rows.num_rows, value)))
    return rows


def _rows_of_topk(batch_id: int, version: int, units: list[UnitReport]) -> pa.Table:
    """Return a row for each unit of the plan of `topk`, in the order of the columns of the others."""
    return pa.Table.from_pylist(
        [
            {
                "plan_version": version, "unit": unit.unit, "objects": unit.objects,
                "subscriptions": unit.subscriptions, "candidates": unit.candidates, "matches": 0,
                "cpu_seconds": unit.search_seconds, "batch_id": batch_id, "worker": names.UNIT_OF_TOPK,
            }
            for unit in units
        ]
    )  # fmt: skip


def _rows_of_units(units: pa.Table) -> pa.Table:
    """Return counts by unit, which several tasks may have, summed, in the columns of the other rows."""
    of_unit = units.group_by(["plan_version", "unit"], use_threads=False)
    sums = of_unit.aggregate([(name, "sum") for name in units.column_names[2:]]).rename_columns(units.column_names)
    sums = sums.append_column("subscriptions", pa.array(np.zeros(sums.num_rows, np.int64)))
    sums = sums.append_column("cpu_seconds", pa.array(np.zeros(sums.num_rows)))
    return sums.select(["plan_version", "unit", "objects", "subscriptions", "candidates", "matches", "cpu_seconds"])
