"""Write the pieces of `knn` subscriptions whose threshold the last batch has changed to the worker index.

No object farther than its threshold can enter the answer of a `knn` subscription. So its piece is a circle with the
threshold as radius, and the world while fewer objects count than it keeps. Older pieces of a subscription stay until
the index is compacted: what they find beyond the threshold, or a second time, the fold leaves out. The pieces follow
from the committed rows of `answer_log`, so they can be written again at any time.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.answers.contract import NO_TIME
from pststream.kernels.matching.shapes.circle import boxes_around
from pststream.kinds.knn.kind import KNN
from pststream.pipeline.answers.answer_context import AnswerContext
from pststream.pipeline.answers.log_rows import ENTRY, list_state_files, slices_of
from pststream.pipeline.answers.standing_queries import Queries, clauses_of
from pststream.pipeline.engine.arrow_columns import lists
from pststream.pipeline.engine.contract import ReceivedRows, SentRows, Stage
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import TaskContext, dispatch_index, term_frequencies
from pststream.pipeline.index.build_index import (
    PIECES,
    SIDES,
    assign_to_workers,
    rows_by_worker,
    write_index_rows,
)
from pststream.settings import Settings
from pststream.shapes.registry import cut_regions, request_schema
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.state.plans import find_plan_row, retiring_plan
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks

WORLD = (-180.0, -90.0, 180.0, 90.0)


def index_thresholds(home: Home, settings: Settings, context: TaskContext, answers: AnswerContext) -> None:
    """Append the pieces of the thresholds that the batch before this one has logged, in one commit of this batch."""
    before = answers.previous.batch_id
    files = list_state_files(home, before - 1, before)
    tasks = split_into_tasks((one.path, one.rows) for one in slices_of(home, files))
    if not tasks:
        return
    row = find_plan_row(home, context.plan_version)
    retiring = retiring_plan(row) if row else None
    ranges = [(context.plan_version, retiring.to if retiring else -1, names.NEVER_US)]
    if retiring:
        ranges.append((retiring.plan_version, -1, retiring.to))
    added: list[DataFile] = []
    for version, after, up_to in ranges:
        send = partial(_send_pieces, context, answers, version, KeyRange("subscription_key", after, up_to))
        write = partial(_write_part, home.table(names.WORKER_INDEX), context)
        written = get_engine(settings).run_shuffled(tasks, send, [Stage(context.workers, write)])
        added += [file for part in written for file in part]
    application = f"thresholds-{context.index_version}"
    commit_files(home, names.WORKER_INDEX, added, application=application, transaction=context.batch_id)


def _send_pieces(
    context: TaskContext, answers: AnswerContext, version: int, subscriptions: KeyRange, slices: tuple[Slice, ...]
) -> Iterator[SentRows]:
    """Send the pieces of the subscriptions in the key range to each worker that serves them under a plan."""
    dispatch = dispatch_index(context.home, version)
    frequencies = term_frequencies(context.home, version)
    for rows in read_slices(slices, ["event", "subscription_key", "value", "batch_id"], subscriptions):
        batch, event = rows.column("batch_id").to_numpy(), rows.column("event").to_numpy(zero_copy_only=False)
        queries = answers.queries()
        is_scored = queries.are_scored(rows.column("subscription_key").to_numpy())
        chosen = rows.filter(pa.array((batch == answers.previous.batch_id) & (event != ENTRY) & ~is_scored))
        if not chosen.num_rows:
            continue
        keys = chosen.column("subscription_key").to_numpy()
        order = np.argsort(keys)
        is_known, near = queries.select(keys[order])
        pieces = make_pieces(near, chosen.column("value").to_numpy()[order][is_known])
        assigned = assign_to_workers(pieces, dispatch.workers_of_pieces, frequencies.frequency)
        yield from rows_by_worker(*assigned, context)


def _write_part(root: str, context: TaskContext, worker: int, received: ReceivedRows) -> list[DataFile]:
    return write_index_rows(root, context.index_version, worker, (rows for _, rows in received))


def make_pieces(queries: Queries, thresholds: np.ndarray) -> pa.RecordBatch:
    """Return the pieces (PIECES) of subscriptions with these thresholds (metres, float32[n])."""
    owner, columns = cut_regions(_regions(queries.points, thresholds))
    row = pa.array(owner)
    has_window = (queries.window_micros > 0) | (queries.window_objects > 0)
    values = {
        "subscription_key": pa.array(queries.key[owner]),
        **columns,
        "clauses": clauses_of(queries).take(row),
        "created_at": pa.array(np.where(has_window, NO_TIME, queries.created_at)[owner]),
        "end_at": pa.array(queries.expires_at[owner]),
        "kind": pa.array([KNN.name] * len(owner)),
    }
    nulls = {field.name: pa.nulls(len(owner), field.type) for field in PIECES if field.name not in values}
    return pa.RecordBatch.from_pydict(values | nulls, schema=PIECES)


def _regions(points: np.ndarray, thresholds: np.ndarray) -> pa.RecordBatch:
    """Return circles as columns of regions; the world for an infinite threshold, and for each circle whose box has the
    same south-western corner: pieces of a subscription are known by this corner (domain/pieces.IDENTITY).
    """
    radius = np.nextafter(thresholds, np.float32(np.inf)).astype(np.float64)
    is_world = ~np.isfinite(radius)
    owner, boxes = boxes_around(np.column_stack([points, np.where(is_world, 0.0, radius)]))
    is_world[owner[(boxes[:, 0] == WORLD[0]) & (boxes[:, 1] == WORLD[1])]] = True
    kept = ~is_world[owner]
    owner = np.concatenate([owner[kept], np.flatnonzero(is_world)])
    boxes = np.concatenate([boxes[kept], np.tile(WORLD, (int(is_world.sum()), 1))])
    order = np.argsort(owner, kind="stable")
    offsets = np.searchsorted(owner[order], np.arange(len(points) + 1))
    circles = np.column_stack([points, radius])
    numbers = lists(np.concatenate([[0], np.cumsum(3 * ~is_world)]), circles[~is_world].ravel())
    schema = request_schema()
    columns = {side: lists(offsets, boxes[order, place]) for place, side in enumerate(SIDES)}
    columns["circle"] = pa.ListArray.from_arrays(numbers.offsets, numbers.values, mask=pa.array(is_world))
    count = len(points)
    return pa.RecordBatch.from_pydict(
        {field.name: columns.get(field.name, pa.nulls(count, field.type)) for field in schema}, schema=schema
    )
