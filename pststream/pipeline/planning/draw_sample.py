"""Draw a sample of stored objects and live subscriptions, the input of every planner and adjustment.

The size of the sample is bounded (`choose_rows.py`).
"""

import datetime as dt
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import UsageError
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.sorted_keys import distinct_values
from pststream.base.utc_times import to_micros
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, make_task_context
from pststream.matching.every_object import add_every_object
from pststream.pipeline.index.build_index import PIECES, REQUEST_COLUMNS, make_pieces, read_pieces
from pststream.pipeline.planning.choose_rows import choose_rows, merge_rows, share_of
from pststream.pipeline.planning.draw_questions import draw_questions
from pststream.pipeline.planning.planned_period import find_period, requests_per_subscription
from pststream.planning.load_model import CostModel
from pststream.planning.posting_reads import make_sample_with_reads
from pststream.plans.owners import recorded_units
from pststream.plans.pieces import rarest_clause_first
from pststream.plans.planner_sample import WorkloadSample
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, index_files
from pststream.state.plans import TermFrequencies, current_version
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.state.tables import TABLES
from pststream.tables.log_end import Ledger

OBJECT_COLUMNS = ["object_key", "lon", "lat", "terms"]
SAMPLED_PIECES = pa.schema([PIECES.field(name) for name in ("subscription_key", *SIDES, "clauses", "kind", "unit")])
"""Columns of a sampled piece: without the edges of polygons, which take most of the memory."""

OBJECTS = pa.schema([field for field in TABLES[names.OBJECTS].schema if field.name in OBJECT_COLUMNS])


def draw_sample(
    home: Home,
    settings: Settings,
    versions: tuple[int | None, int | None] = (None, None),
    after_key: int = -1,
    frequencies: TermFrequencies | None = None,
    progress: Progress = no_progress,
) -> tuple[WorkloadSample, pa.Table]:
    """Return a sample of both streams, and its vocabulary (term_id, term, objects, subscriptions).

    versions     objects written after Delta version `versions[0]` of `objects`, and up to `versions[1]`; None: no bound
    after_key    only objects with a greater key
    frequencies  decide under which clause each subscription is posted; None: the term frequencies of this sample

    The subscriptions are those in the index of the plan in force, without those that ended before every object still
    to be matched, and the insertions that no batch has applied yet.

    The insertions and deletions are those that came with the objects (`planned_period.py`).
    """
    object_rows, object_scale, period = draw_objects(home, settings, versions, after_key, progress)
    piece_rows, subscription_scale = _pieces(home, settings, progress)
    sampled = pc.count_distinct(piece_rows.column("subscription_key")).as_py()
    insertions, deletions = requests_per_subscription(home, settings, period, sampled * subscription_scale, progress)
    offsets, terms = csr(one_array(object_rows.column("terms")))
    posted = one_array(piece_rows.column("clauses"))
    if pc.any(pc.equal(pc.list_flatten(pc.list_flatten(posted)), names.EVERY_OBJECT)).as_py():
        offsets, terms = add_every_object(offsets, terms)
    ids, counts = np.unique(terms, return_counts=True)
    clauses, post_offsets, post_terms = rarest_clause_first(
        posted, (frequencies or TermFrequencies(ids, counts)).frequency
    )
    sample = make_sample_with_reads(
        lon=one_array(object_rows.column("lon")).to_numpy(),
        lat=one_array(object_rows.column("lat")).to_numpy(),
        term_offsets=offsets,
        terms=terms,
        boxes=np.column_stack([one_array(piece_rows.column(side)).to_numpy() for side in SIDES]),
        piece_key=one_array(piece_rows.column("subscription_key")).to_numpy(),
        post_offsets=post_offsets,
        post_terms=post_terms,
        piece_unit=recorded_units(one_array(piece_rows.column("unit"))),
        match_reads=CostModel.of(settings).match_reads(one_array(piece_rows.column("kind")).is_valid().to_numpy(False)),
        insertions=insertions,
        deletions=deletions,
        object_scale=object_scale,
        subscription_scale=subscription_scale,
        questions=draw_questions(home, settings, progress),
    )
    return sample, _vocabulary(ids, counts, clauses, piece_rows.num_rows)


def draw_objects(
    home: Home, settings: Settings, versions: tuple[int | None, int | None], after_key: int, progress: Progress
) -> tuple[pa.Table, float, KeyRange]:
    """Return sampled objects, the number of stored objects that each of them represents, and their period."""
    after, to = versions
    files = list_data_files(home, names.OBJECTS, to)
    if after is not None:
        # By key, since `maintain` compacts files of several versions into one.
        before = [file.high["object_key"] for file in list_data_files(home, names.OBJECTS, after)]
        after_key = max([after_key, *before])
    recent = KeyRange("object_key", after_key, names.MAX_INT64)
    files = recent.files(files)
    rows = _rows_within(home, names.OBJECTS, files, recent)
    if after is not None and not rows:
        raise UsageError(
            f"no object was written after version {after} of objects" + (f" up to version {to}" if to else ""),
            "give versions that objects came between",
        )
    read = partial(_stored_objects, recent)
    choose = partial(choose_rows, "object_key", OBJECTS, share_of(settings.sample_objects, rows), read)
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    counter = TaskCounter(progress, Counted("sampling objects", "object", rows_of_tasks(tasks)))
    sampled = merge_rows(get_engine(settings).run_tasks(tasks, choose, counter), OBJECTS)
    return *sampled, find_period(files, recent, to)


def _pieces(home: Home, settings: Settings, progress: Progress) -> tuple[pa.Table, float]:
    """Return pieces of sampled subscriptions, and the number of stored pieces that each of them represents.

    An index has more rows than subscriptions: a piece is stored at each worker that it reaches, and earlier circles of
    `knn` stay for a while. If these leave less than half of the subscriptions that a sample may have, it is drawn again
    with the share by which the first one fell short.
    """
    version, ledger, wanted = current_version(home), Ledger(home), settings.sample_subscriptions
    waiting = KeyRange("request_key", ledger.requests_applied, names.MAX_INT64)
    indexed = tuple(index_files(home, version)) if version else ()
    requests = waiting.files(list_data_files(home, names.REQUESTS))
    rows = sum(file.rows for file in indexed) + _rows_within(home, names.REQUESTS, requests, waiting)
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    ended_by = to_micros(horizon) if horizon else -1
    draw = partial(_draw_pieces, home, settings, version, waiting, requests, indexed, ended_by, progress)
    share = share_of(wanted, rows)
    pieces, scale = draw(share)
    sampled = pc.count_distinct(pieces.column("subscription_key")).as_py()
    if share < 1.0 and 0 < sampled < wanted / 2:
        pieces, scale = draw(min(1.0, share * wanted / sampled))
    return pieces, scale


def _draw_pieces(
    home: Home,
    settings: Settings,
    version: int,
    waiting: KeyRange,
    requests: list[DataFile],
    indexed: tuple[IndexFile, ...],
    ended_by: int,
    progress: Progress,
    share: float,
) -> tuple[pa.Table, float]:
    """Return the pieces of a share of the subscriptions, and the number of pieces that each of them represents.

    version             of the plan in force
    waiting, requests   the requests that no batch has applied yet, and the files that have some
    indexed             files of the index of the plan
    ended_by            pieces that ended by then are left out; microseconds
    """
    choose, engine = partial(choose_rows, "subscription_key", SAMPLED_PIECES, share), get_engine(settings)
    tasks = split_into_tasks(addresses_and_rows(home, names.REQUESTS, requests))
    counter = TaskCounter(progress, Counted("sampling requests", "request", rows_of_tasks(tasks)))
    drawn = engine.run_tasks(tasks, partial(choose, partial(_waiting_pieces, waiting)), counter)
    if indexed:
        context = make_task_context(home, settings, version)
        tasks = split_into_tasks((file.path, file.rows) for file in indexed if file.worker != names.EVERY_WORKER)
        counter = TaskCounter(progress, Counted("sampling subscriptions", "piece", rows_of_tasks(tasks)))
        drawn += engine.run_tasks(tasks, partial(choose, partial(_live_pieces, context, indexed, ended_by)), counter)
    return merge_rows(drawn, SAMPLED_PIECES)


def _rows_within(home: Home, name: str, files: list[DataFile], rows: KeyRange) -> int:
    """Count the rows of these files in the key range; reads only files that are partly in the range."""
    cut = [file for file in files if file.may_contain(rows.column, -1, rows.after)]
    inside = sum(file.rows for file in files) - sum(file.rows for file in cut)
    slices = [Slice(path, 0, count) for path, count in addresses_and_rows(home, name, cut)]
    return inside + sum(batch.num_rows for batch in read_slices(slices, [rows.column], rows))


def _stored_objects(recent: KeyRange, slices: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
    return read_slices(slices, OBJECT_COLUMNS, recent)


def _waiting_pieces(waiting: KeyRange, slices: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
    for rows in read_slices(slices, ["request_key", *REQUEST_COLUMNS], waiting):
        yield make_pieces(rows)


def _live_pieces(
    context: TaskContext, indexed: tuple[IndexFile, ...], bound: int, slices: tuple[Slice, ...]
) -> Iterator[pa.RecordBatch]:
    for rows in read_pieces(context, indexed, slices):
        yield rows.select(PIECES.names).filter(pc.greater(rows.column("end_at"), bound))


def _vocabulary(ids: np.ndarray, counts: np.ndarray, clauses: pa.ListArray, pieces: int) -> pa.Table:
    """Return term frequencies in the sample; a term in several clauses of a subscription counts once for each."""
    named, uses = np.unique(
        pc.list_flatten(pc.list_flatten(clauses)).to_numpy(zero_copy_only=False).astype(np.int64), return_counts=True
    )
    every = distinct_values(np.concatenate([ids, named]))
    objects = np.zeros(len(every), np.int64)
    objects[np.searchsorted(every, ids)] = counts
    subscribed = np.zeros(len(every), np.int64)
    subscribed[np.searchsorted(every, named)] = np.minimum(uses, max(pieces, 1))
    return pa.table(
        {"term_id": every, "term": pa.nulls(len(every), pa.string()), "objects": objects, "subscriptions": subscribed}
    )
