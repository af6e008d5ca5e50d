"""Make a new plan version (`pststream plan`): draw a sample, run the planner, build the plan's worker index.

The units, the vocabulary and the index of the new plan are written while the old plan is in force; the row in `plans`
is written last and puts the new plan in force. A killed run leaves rows of a version without a row in `plans`; the next
run deletes them.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, hash_to_unit, look_up
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.texts import counted
from pststream.base.utc_times import to_micros
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, make_task_context
from pststream.kernels.matching.contains_point import boxes_around
from pststream.matching.matcher import add_every_object
from pststream.pipeline.index.build_index import (
    PIECES,
    PlanAndFrequencies,
    ending_requests,
    make_pieces,
    read_pieces,
    read_requests,
    rebuild_index,
)
from pststream.pipeline.index.place_pieces import save_counts, save_start
from pststream.pipeline.questions.question_ledger import unfinished_files
from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners.registry import check_planner, make_plan, place_sample
from pststream.plans.imbalance import finite_imbalance
from pststream.plans.pieces import rarest_clause_first, recorded_units
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import SampleCounts, SampledQuestions, WorkloadSample, count_sample
from pststream.queries.shapes.contract import EARTH_RADIUS_M
from pststream.queries.shapes.registry import SIDES
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFiles, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import NO_FILES, IndexFiles, delete_older_indexes, index_files
from pststream.state.plans import (
    TermFrequencies,
    current_version,
    save_plan,
    save_units,
    save_vocabulary,
    term_frequencies_of,
    topk_version_of,
)
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

    Rows are chosen by a hash of their key, so that the choice does not depend on files, and at most about as many as
    the settings say.

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


MAX_TEXTS, MAX_BYTES = 20_000, 4_000_000
"""Texts of the newest objects that are searched for words, and their bytes, at most."""


def fill_words(home: Home, vocabulary: pa.Table) -> pa.Table:
    """Return the vocabulary with `term` filled for words of the newest texts; it stays null for other terms.

    The words are for people: the tables identify terms by their hashes only.
    """
    words: dict[int, str] = {}
    for text in _newest_texts(home):
        words |= {term_id(word): word for word in tokenize(text)}
    column = [words.get(term) for term in vocabulary.column("term_id").to_pylist()]
    return vocabulary.set_column(vocabulary.schema.get_field_index("term"), "term", pa.array(column, pa.string()))


def _newest_texts(home: Home) -> list[str]:
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.high.get("object_key", 0))
    texts: list[str] = []
    left = MAX_BYTES
    for path, rows in reversed(addresses_and_rows(home, names.OBJECTS, files)):
        for batch in read_slices([Slice(path, 0, rows)], ["text"]):
            column = batch.column("text").slice(0, MAX_TEXTS - len(texts))
            for text in column.drop_null():
                if (left := left - len(text.as_buffer())) < 0:
                    return texts
                texts.append(text.as_py())
            if len(texts) >= MAX_TEXTS:
                return texts
    return texts


def plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan with `settings.planner` for `settings.workers`.

    versions  two versions of the Delta table `objects`: the sample has objects written after the first version and up
              to the second; None: no bound

    Returns {"plan_version", "plan_version_before", "planner", "workers", "units", "load_total", "load_max", "load_min",
    "imbalance" (None if a worker has no load), "sigma" (the imbalance allowed by Definition 2: the option of the
    planner, or the setting), "worker_loads" (seconds), "dry_run", "seconds"}, what `pststream plan --json` prints; of
    the planner `auto` also {"choice": {"planner", "greatest_loads": {planner: seconds}}}.
    """
    home.check()
    with home.locked():
        return new_plan(home, settings, dry_run=dry_run, versions=versions, progress=progress)


def first_plan(home: Home, settings: Settings, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Make the plan of a home that has none, which is locked already, as `plan` does.

    The first batch does not wait for `auto`, which judges by a sample: `names.FIRST_PLANNER` takes its place.
    """
    planner = names.FIRST_PLANNER if settings.planner == names.AUTO else settings.planner
    return new_plan(home, replace(settings, planner=planner), progress=progress)


def new_plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan as `plan` does, in a home that is locked already."""
    began = time.perf_counter()
    if Ledger(home).unfinished_batch() is not None:
        raise RetryableError("a batch is unfinished", "run: pststream match, then plan again")
    made = _make_plan(home, settings, versions, progress)
    new = made.plan
    figures = {**made.loads.figures, "seconds": time.perf_counter() - began}
    before = current_version(home)
    version = before + 1
    if not dry_run:
        delete_rows_of_killed_planner(home, version)
        _save_parts(home, version, made)
        crash_point("plan.units_written")
        _build_index(home, settings, PlanAndFrequencies(new, term_frequencies_of(made.vocabulary)), before, progress)
        crash_point("plan.indexed")
        figures |= {"seconds": time.perf_counter() - began}
        placement = None if made.counts is None else version
        row = {**figures, "options": stored_options(settings, made.sample, settings.planner_options)}
        save_plan(home, version, new, row, placement=placement, topk=topk_version_of(home, before))
        crash_point("plan.done")
        delete_older_indexes(home, version)
    choice = {"choice": new.options["choice"]} if "choice" in new.options else {}
    return {
        "plan_version": version, "planner": new.planner, "workers": new.workers, "units": new.units, **figures,
        "imbalance": finite_imbalance(made.loads.imbalance, None), **choice, "plan_version_before": before,
        "sigma": new.options.get("sigma", settings.sigma), "dry_run": dry_run,
        "seconds": round(time.perf_counter() - began, 3),
    }  # fmt: skip


@dataclass(frozen=True)
class _MadePlan:
    """A plan that is not stored yet, and what it was made from.

    sample, vocabulary  as `draw_sample` returns them
    counts              of a plan that shares by subscription: the counts of objects by which later subscriptions are
                        placed; None of other plans
    loads               of the workers and units on the sample
    """

    plan: PartitionPlan
    sample: WorkloadSample
    vocabulary: pa.Table
    counts: SampleCounts | None
    loads: WorkerLoads


def _make_plan(
    home: Home, settings: Settings, versions: tuple[int | None, int | None], progress: Progress
) -> _MadePlan:
    """Draw a sample and run the planner on it."""
    check_planner(settings.planner, progress)
    sample, vocabulary = draw_sample(home, settings, versions, progress=progress)
    boxes = counted(sample.pieces, "subscription box", "subscription boxes")
    progress(f"sample: {counted(sample.objects, 'object')}, {boxes}, {counted(vocabulary.num_rows, 'term')}")
    cost = CostModel.of(settings)
    given = read_planner_options(settings.planner_options)
    new = make_plan(settings.planner, sample, settings.workers, cost, given)
    counts = count_sample(sample, new.grid) if isinstance(new, SubscriptionPlan) else None
    loads = compute_worker_loads(sample if counts is None else place_sample(sample, new, counts), new, cost)
    return _MadePlan(new, sample, vocabulary, counts, loads)


def _save_parts(home: Home, version: int, made: _MadePlan) -> None:
    """Write the units, the vocabulary and the start of placement of a plan; they have no effect without its row."""
    new, loads = made.plan, made.loads
    of_units = {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions}
    save_units(home, version, new, of_units)
    save_vocabulary(home, version, fill_words(home, made.vocabulary) if len(new.terms) else made.vocabulary)
    if made.counts is not None:
        save_counts(home, version, made.counts)
        requests = list_data_files(home, names.REQUESTS)
        last_request = max((file.high["request_key"] for file in requests), default=-1)
        save_start(home, version, last_request, made.counts.object_scale, new.units)


def stored_options(settings: Settings, sample: WorkloadSample, planner_options: str) -> dict[str, Any]:
    """Return what the column `options` of a plan has beside the options that were in force: the costs, the size of the
    sample, and the options that the planner was given.
    """
    return {
        **{f"cost_{name}": value for name, value in asdict(CostModel.of(settings)).items()},
        "sample_objects": sample.objects,
        "sample_pieces": sample.pieces,
        "planner_options": planner_options,
    }


PLANNED = (
    *(names.PLAN_UNITS, names.PLAN_NODES, names.VOCABULARY, names.MIGRATIONS, names.PLACEMENT_COUNTS),
    *(names.PLACEMENTS, names.PLACEMENT_AREAS, names.TOPK_PLANS),
)
"""Control tables with rows of a plan version that has no row in `plans` yet."""


def delete_rows_of_killed_planner(home: Home, version: int) -> None:
    """Delete what a killed planner of this version has left in the control tables."""
    for name in PLANNED:
        ledger_tables.delete_versions(home, name, "plan_version", version)


def _build_index(home: Home, settings: Settings, new: PlanAndFrequencies, before: int, progress: Progress) -> None:
    """Build the index of the plan for the requests that batches have applied; later requests come with their batch."""
    ledger_tables.delete_versions(home, names.WORKER_INDEX, "index_version", before + 1)
    if before == 0:
        return
    old_context, version = make_task_context(home, settings, before), before + 1
    workers = new.plan.workers
    context = replace(
        old_context, plan_version=version, plans=(version,), index_version=version, workers=workers, index_numbers=()
    )
    rebuild_index(home, old_context, context, new, settings, progress)
