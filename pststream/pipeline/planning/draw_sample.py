"""Draw a sample of stored objects, live subscriptions and logged questions, the input of planners and adjustments.

Rows are chosen by a hash of their key, so that the choice does not depend on files, and at most about as many as the
settings say.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, hash_to_unit, look_up
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import UsageError
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.utc_times import to_micros
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, make_task_context
from pststream.kernels.matching.contains_point import boxes_around
from pststream.matching.matcher import add_every_object
from pststream.pipeline.index.build_index import PIECES, ending_requests, make_pieces, read_pieces, read_requests
from pststream.pipeline.questions.question_ledger import unfinished_files
from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel
from pststream.plans.pieces import rarest_clause_first, recorded_units
from pststream.plans.planner_sample import SampledQuestions, WorkloadSample
from pststream.queries.shapes.contract import EARTH_RADIUS_M
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.state.data_files import DataFiles, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import NO_FILES, IndexFiles, index_files
from pststream.state.plans import TermFrequencies, current_version
from pststream.state.slices import KeyRange, Slice, read_places, read_slices, rows_of_tasks, split_into_tasks
from pststream.state.tables import TABLES
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import WithdrawnRows, withdrawn_requests

SEED = 7


@dataclass(frozen=True)
class SampledRows:
    """The rows that a task chose, and the number of rows that it chose from."""

    rows: pa.Table
    seen: int


def share_of(max_rows: int, rows: int) -> float:
    """Return the share of the rows to choose so that about `max_rows` are chosen at most."""
    return 1.0 if rows <= max_rows else max_rows / rows


def choose_rows(
    key: str,
    schema: pa.Schema,
    share: float,
    read: Callable[[tuple[Slice, ...]], Iterator[pa.RecordBatch]],
    slices: tuple[Slice, ...],
) -> SampledRows:
    """Choose a share of the rows by a hash of their key."""
    seen, chosen = 0, []
    for rows in read(slices):
        seen += rows.num_rows
        if share < 1.0:
            rows = rows.filter(pa.array(hash_to_unit(rows.column(key).to_numpy(), SEED) < share))
        chosen.append(rows.select(schema.names))
    return SampledRows(pa.Table.from_batches(chosen, schema), seen)


def merge_rows(drawn: list[SampledRows], schema: pa.Schema) -> tuple[pa.Table, float]:
    """Return all chosen rows in the order of their keys, and the number of rows that each of them represents."""
    rows = pa.concat_tables([schema.empty_table(), *(part.rows for part in drawn)])
    by = [(name, "ascending") for name in (schema.names[0], "west", "south") if name in schema.names]
    seen = sum(part.seen for part in drawn)
    return rows.sort_by(by).combine_chunks(), seen / rows.num_rows if rows.num_rows else 1.0


KINDS = ("range", "knn")
_READ = ["question_file", "row", "kind", *SIDES, "clauses", "k", "rows", "distance_m"]
_STORED = TABLES[names.QUESTIONS].schema
_SAMPLED = pa.schema([pa.field("question_key", pa.int64()), *(_STORED.field(name) for name in _READ)])
"""Columns of a sampled question; question_key: its file and row as one number."""


def draw_questions(home: Home, settings: Settings, progress: Progress) -> SampledQuestions | None:
    """Return sampled questions of KINDS, about as many as subscriptions at most; None if none are logged.

    SSTD takes them as its query distribution statistics.
    """
    files = list_data_files(home, names.QUESTIONS)
    if not files:
        return None
    unfinished = tuple(file["question_file"] for file in unfinished_files(home))
    share = share_of(settings.sample_subscriptions, sum(file.rows for file in files))
    choose = partial(choose_rows, "question_key", _SAMPLED, share, partial(_answered, unfinished))
    tasks = split_into_tasks(addresses_and_rows(home, names.QUESTIONS, files))
    counter = TaskCounter(progress, Counted("sampling questions", "question", rows_of_tasks(tasks)))
    rows, _ = merge_rows(get_engine(settings, home).run_tasks(tasks, choose, counter), _SAMPLED)
    return describe_questions(rows) if rows.num_rows else None


def _answered(unfinished: tuple[int, ...], slices: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the questions of KINDS in files that are answered, with their keys."""
    for rows in read_slices(slices, _READ):
        counts = pc.is_in(rows.column("kind"), pa.array(KINDS))
        counts = pc.and_not(counts, pc.is_in(rows.column("question_file"), pa.array(unfinished, pa.int64())))
        rows = rows.filter(counts)
        key = (rows.column("question_file").to_numpy() << names.ROW_BITS) | rows.column("row").to_numpy()
        yield pa.RecordBatch.from_arrays([pa.array(key), *(rows.column(name) for name in _READ)], _SAMPLED.names)


def describe_questions(rows: pa.Table) -> SampledQuestions:
    """Return the boxes and keywords of questions (columns of `questions`).

    A question of the kind `knn` has the boxes around the circle to its last object, around the world if it found fewer
    than k. A region over the antimeridian has two boxes.
    """
    sides = np.column_stack([one_array(rows.column(side)).to_numpy() for side in SIDES])
    is_near = np.asarray(pc.equal(rows.column("kind"), "knn"))
    answered, wanted, distance = (
        np.asarray(pc.fill_null(rows.column(name), 0)).astype(np.float64) for name in ("rows", "k", "distance_m")
    )
    radius = np.where(answered >= wanted, distance, np.pi * EARTH_RADIUS_M)
    near, circles = boxes_around(np.column_stack([sides[:, :2], radius])[is_near])
    crosses = ~is_near & (sides[:, 0] > sides[:, 2])
    west, east, plain = sides[crosses], sides[crosses], ~is_near & ~crosses
    west[:, 0], east[:, 2] = -180.0, 180.0
    positions = [np.flatnonzero(plain), np.flatnonzero(is_near)[near], *2 * [np.flatnonzero(crosses)]]
    boxes = np.concatenate([sides[plain], circles, west, east])
    return SampledQuestions(boxes, *_keywords(one_array(rows.column("clauses")), np.concatenate(positions)))


def _keywords(clauses: pa.ListArray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct words of the clauses at some positions: offsets int64[n+1], words int64[m], ascending."""
    inner = pc.list_flatten(clauses)
    question = np.asarray(pc.list_parent_indices(clauses))[np.asarray(pc.list_parent_indices(inner))]
    words = np.asarray(pc.list_flatten(inner)).astype(np.int64)
    question, words = np.unique(np.column_stack([question, words]), axis=0).T
    starts = np.searchsorted(question, np.arange(len(clauses) + 1))
    lengths = np.diff(starts)[positions]
    offsets = np.append(0, np.cumsum(lengths))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return offsets, words[np.repeat(starts[positions], lengths) + within]


def find_period(files: DataFiles, recent: KeyRange, up_to: int | None) -> KeyRange:
    """Return the range of the requests that came with the objects of a sample, by their keys.

    files   the data files of the objects
    recent  the range of the objects
    up_to   Delta version of `objects` that the sample ends with; None: the period ends with the log

    The period begins after the last object before the sample. Without such an object it begins at the first object:
    subscriptions older than all objects are not work of the period. Without objects, every request belongs to it. The
    keys of both logs are in the order in which their files came.
    """
    after = recent.after
    if after <= 0 and files:
        after = min(int(file.low.get(recent.column, 0)) for file in files) - 1
    last = names.MAX_INT64
    if up_to is not None and files:
        last = max(int(file.high.get(recent.column, names.MAX_INT64)) for file in files)
    return KeyRange("request_key", after, last)


def requests_per_subscription(
    home: Home, settings: Settings, period: KeyRange, live: float, progress: Progress
) -> tuple[float, float]:
    """Return the insertions and the deletions of a period, each over the number of live subscriptions."""
    files = period.files(list_data_files(home, names.REQUESTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.REQUESTS, files))
    counter = TaskCounter(progress, Counted("counting requests", "request", rows_of_tasks(tasks)))
    counts = get_engine(settings, home).run_tasks(tasks, partial(_count_operations, period), counter)
    insertions, deletions = (sum(count[at] for count in counts) for at in (0, 1))
    return insertions / max(live, 1.0), deletions / max(live, 1.0)


def _count_operations(period: KeyRange, slices: tuple[Slice, ...]) -> tuple[int, int]:
    """Count the insertions and the deletions among the requests of a period; a replacement is both."""
    insertions = deletions = 0
    for rows in read_slices(slices, ["request_key", "op", "subscription_key", "replaced_key"], period):
        insertions += pc.sum(pc.equal(rows.column("op"), "insert")).as_py() or 0
        deletions += ending_requests(rows).num_rows
    return insertions, deletions


SAMPLED_PIECES = pa.schema([PIECES.field(name) for name in ("subscription_key", *SIDES, "clauses", "kind", "unit")])
"""Columns of a sampled piece: without the edges of polygons, which take most of the memory."""

OBJECTS = pa.schema([TABLES[names.OBJECTS].schema.field(name) for name in ("object_key", "lon", "lat", "terms")])


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

    The insertions and deletions are those that came with the objects (`find_period`).
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
    in_force = frequencies or TermFrequencies(ids, counts)
    clauses, post_offsets, post_terms = rarest_clause_first(posted, in_force.frequency)
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
    read = partial(read_places, columns=OBJECTS.names, rows=recent)
    choose = partial(choose_rows, "object_key", OBJECTS, share_of(settings.sample_objects, rows), read)
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    counter = TaskCounter(progress, Counted("sampling objects", "object", rows_of_tasks(tasks)))
    sampled = merge_rows(get_engine(settings, home).run_tasks(tasks, choose, counter), OBJECTS)
    return *sampled, find_period(files, recent, to)


def _pieces(home: Home, settings: Settings, progress: Progress) -> tuple[pa.Table, float]:
    """Return pieces of sampled subscriptions, and the number of stored pieces that each of them represents.

    An index has more rows than subscriptions: a piece is stored at each worker that it reaches, and earlier circles of
    `knn` stay for a while. If these leave less than half of the subscriptions that a sample may have, it is drawn again
    with the share by which the first one fell short.
    """
    version, ledger, wanted = current_version(home), Ledger(home), settings.sample_subscriptions
    waiting = KeyRange("request_key", ledger.requests_applied, names.MAX_INT64)
    indexed = index_files(home, version) if version else NO_FILES
    requests = waiting.files(list_data_files(home, names.REQUESTS))
    rows = sum(file.rows for file in indexed) + _rows_within(home, names.REQUESTS, requests, waiting)
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    ended_by = to_micros(horizon) if horizon else -1

    def draw(share: float) -> tuple[pa.Table, float]:
        choose, engine = partial(choose_rows, "subscription_key", SAMPLED_PIECES, share), get_engine(settings, home)
        tasks = split_into_tasks(addresses_and_rows(home, names.REQUESTS, requests))
        counter = TaskCounter(progress, Counted("sampling requests", "request", rows_of_tasks(tasks)))
        drawn = engine.run_tasks(
            tasks, partial(choose, partial(_waiting_pieces, waiting, withdrawn_requests(home))), counter
        )
        if indexed:
            live = partial(_live_pieces, make_task_context(home, settings, version), indexed, ended_by)
            tasks = split_into_tasks((file.path, file.rows) for file in indexed if file.worker != names.EVERY_WORKER)
            counter = TaskCounter(progress, Counted("sampling subscriptions", "piece", rows_of_tasks(tasks)))
            drawn += engine.run_tasks(tasks, partial(choose, live), counter)
        return merge_rows(drawn, SAMPLED_PIECES)

    share = share_of(wanted, rows)
    pieces, scale = draw(share)
    sampled = pc.count_distinct(pieces.column("subscription_key")).as_py()
    if share < 1.0 and 0 < sampled < wanted / 2:
        pieces, scale = draw(min(1.0, share * wanted / sampled))
    return pieces, scale


def _rows_within(home: Home, name: str, files: DataFiles, rows: KeyRange) -> int:
    """Count the rows of these files in the key range; reads only files that are partly in the range."""
    cut = [file for file in files if file.may_contain(rows.column, -1, rows.after)]
    inside = sum(file.rows for file in files) - sum(file.rows for file in cut)
    slices = [Slice(path, 0, count) for path, count in addresses_and_rows(home, name, cut)]
    return inside + sum(batch.num_rows for batch in read_slices(slices, [rows.column], rows))


def _waiting_pieces(waiting: KeyRange, withdrawn: WithdrawnRows, slices: tuple[Slice, ...]) -> Iterator[pa.RecordBatch]:
    for rows in read_requests(slices, waiting, withdrawn):
        yield make_pieces(rows)


def _live_pieces(
    context: TaskContext, indexed: IndexFiles, bound: int, slices: tuple[Slice, ...]
) -> Iterator[pa.RecordBatch]:
    for rows in read_pieces(context, indexed, slices):
        yield rows.select(PIECES.names).filter(pc.greater(rows.column("end_at"), bound))


def _vocabulary(ids: np.ndarray, counts: np.ndarray, clauses: pa.ListArray, pieces: int) -> pa.Table:
    """Return term frequencies in the sample; a term in several clauses of a subscription counts once for each."""
    words = pc.list_flatten(pc.list_flatten(clauses)).to_numpy(zero_copy_only=False).astype(np.int64)
    named, uses = np.unique(words, return_counts=True)
    every = distinct_values(np.concatenate([ids, named]))
    return pa.table(
        {
            "term_id": every,
            "term": pa.nulls(len(every), pa.string()),
            "objects": look_up(every, ids, counts, 0),
            "subscriptions": look_up(every, named, np.minimum(uses, max(pieces, 1)), 0),
        }
    )
