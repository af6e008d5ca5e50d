"""Write the pieces of subscriptions whose threshold the last batch has changed to the worker index.

These are the regions of the kind (`RankedKind.indexed`) in which an object can still enter the answer. Older pieces of
a subscription stay until the index is compacted: what they find beyond the threshold, or a second time, the fold leaves
out. The pieces follow from the committed rows of `answer_log`, so they can be written again at any time.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.progress import Counted, no_progress
from pststream.engine.contract import SentRows
from pststream.engine.task_context import TaskContext, dispatch_index, term_frequencies
from pststream.pipeline.answers.answer_context import AnswerContext
from pststream.pipeline.answers.log_rows import ENTRY, complete_rows, is_event, list_state_files, slices_of
from pststream.pipeline.answers.ranked_kinds import RANKED_KINDS, WORLD
from pststream.pipeline.answers.standing_queries import LISTS, Queries, clauses_of, take_queries
from pststream.pipeline.index.build_index import (
    PIECES,
    find_placing_plan,
    rank_clauses,
    rows_by_worker,
    workers_by_row,
    write_placed_index,
)
from pststream.pipeline.index.place_pieces import (
    THRESHOLDS,
    PlacingPlan,
    cells_of_pieces,
    commit_placed,
    placement_counts,
    send_recorded,
    send_to_place,
)
from pststream.pipeline.index.stored_pieces import has_standing_queries, with_recorded_units
from pststream.planning.planners.by_subscription import estimate_ranges
from pststream.plans.pieces import first_clauses
from pststream.queries.kinds.registry import ranked_answers
from pststream.queries.shapes.registry import SIDES, cut_regions
from pststream.settings import Settings
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import find_plan_row, numbers_in_index, retiring_plan
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks


def index_thresholds(home: Home, settings: Settings, context: TaskContext, answers: AnswerContext) -> None:
    """Append the pieces of the thresholds that the batch before this one has logged, in one commit of this batch."""
    before = answers.previous.batch_id
    if not has_standing_queries(home, answers.previous.requests_to, is_weighed=False):
        return
    files = list_state_files(home, before - 1, before)
    tasks = split_into_tasks((one.path, one.rows) for one in slices_of(home, files))
    if not tasks:
        return
    context = replace(context, files=index_files(home, context.plan_version))
    row = find_plan_row(home, context.plan_version)
    retiring = retiring_plan(row) if row else None
    ranges = [(context.plan_version, retiring.to if retiring else -1, names.MAX_INT64)]
    if retiring:
        ranges.append((retiring.plan_version, -1, retiring.to))
    added: list[DataFile] = []
    for version, after, up_to in ranges:
        placing = find_placing_plan(home, version, THRESHOLDS)
        send = partial(_send_pieces, context, answers, version, KeyRange("subscription_key", after, up_to))
        reading = Counted("indexing thresholds", "row", rows_of_tasks(tasks))
        writing = replace(context, index_numbers=numbers_in_index(home, version))
        files, placed = write_placed_index(settings, writing, placing, tasks, send, reading, no_progress)
        if placing is not None:
            commit_placed(home, placed, placing, context.batch_id)
        added += files
    application = f"thresholds-{context.index_version}"
    commit_files(home, names.WORKER_INDEX, added, application=application, transaction=context.batch_id)


def _send_pieces(
    context: TaskContext,
    answers: AnswerContext,
    version: int,
    subscriptions: KeyRange,
    placing: PlacingPlan | None,
    parts: int,
    slices: tuple[Slice, ...],
) -> Iterator[SentRows]:
    """Send the pieces of the subscriptions in the key range to each worker that serves them under a plan.

    Under a plan that shares by subscription, those of a subscription without a recorded unit are to be placed.
    """
    dispatch = dispatch_index(context.home, version)
    frequencies = term_frequencies(context.home, version)
    for rows in read_slices(slices, ["event", "subscription_key", "value", "batch_id"], subscriptions):
        of_batch = rows.column("batch_id").to_numpy() == answers.previous.batch_id
        limits = rows.filter(pa.array(of_batch & ~is_event(rows, ENTRY)))
        queries = answers.queries()
        is_scored = queries.are_scored(limits.column("subscription_key").to_numpy())
        chosen = limits.filter(pa.array(~is_scored))
        if not chosen.num_rows:
            continue
        keys = chosen.column("subscription_key").to_numpy()
        order = np.argsort(keys)
        is_known, near = queries.select(keys[order])
        pieces = make_pieces(near, chosen.column("value").to_numpy()[order][is_known])
        pieces = rank_clauses(pieces, frequencies.frequency)
        if placing is None:
            yield from rows_by_worker(pieces, *workers_by_row(pieces, dispatch), context)
            continue
        pieces = with_recorded_units(pieces, context, version)
        is_new = pc.is_null(pieces.column("unit"))
        yield from send_recorded(pieces.filter(pc.invert(is_new)), parts)
        new = pieces.filter(is_new)
        yield from send_to_place(new, placing, parts, _likely_ranges(new, near, placing, context))


def _likely_ranges(pieces: pa.RecordBatch, queries: Queries, placing: PlacingPlan, context: TaskContext) -> np.ndarray:
    """Return the raster cells that count for the cost of each piece: int32[n, 4].

    They are those of its circle, or, for the world of a subscription that is not full, of its likely circle.
    """
    ranges = cells_of_pieces(pieces, placing.plan)
    is_world = np.all([pieces.column(side).to_numpy() == value for side, value in zip(SIDES, WORLD)], axis=0)
    if is_world.any():
        chosen = pieces.filter(pa.array(is_world))
        position = np.searchsorted(queries.key, chosen.column("subscription_key").to_numpy())
        counts = placement_counts(context.home, placing.placement_version, placing.plan.grid)
        words = first_clauses(chosen.column("clauses"))
        points, k = queries.numbers[position, :2], queries.k[position]
        ranges[is_world] = estimate_ranges(placing.plan.grid, counts, points, k, *words)
    return ranges


def make_pieces(queries: Queries, thresholds: np.ndarray) -> pa.RecordBatch:
    """Return the pieces (PIECES) of subscriptions with these thresholds (float32[n]), one kind after the other."""
    parts = [pa.RecordBatch.from_pylist([], PIECES)]
    for index, name in enumerate(ranked_answers()):
        rows, indexed = np.flatnonzero(queries.kind == index), RANKED_KINDS[name].indexed
        if indexed is not None and len(rows):
            chosen = take_queries(queries, rows)
            parts.append(_pieces_of_kind(name, chosen, indexed.regions(chosen.numbers, thresholds[rows])))
    return pa.concat_batches(parts)


def _pieces_of_kind(kind: str, queries: Queries, regions: pa.RecordBatch) -> pa.RecordBatch:
    owner, columns = cut_regions(regions)
    has_window = (queries.window_micros > 0) | (queries.window_objects > 0)
    values = {
        "subscription_key": queries.key[owner],
        **columns,
        **{name: clauses_of(queries, name).take(pa.array(owner)) for name in LISTS},
        "created_at": np.where(has_window, names.NO_TIME, queries.created_at)[owner],
        "end_at": queries.expires_at[owner],
        "kind": pa.repeat(kind, len(owner)),
    }
    return complete_rows(values, PIECES)
