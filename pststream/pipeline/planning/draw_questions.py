"""Draw a sample of the logged questions, for SSTD's query distribution statistics."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import one_array
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.running_engine import get_engine
from pststream.kernels.matching.circle import boxes_around
from pststream.pipeline.planning.choose_rows import choose_rows, merge_rows, share_of
from pststream.pipeline.questions.question_ledger import unfinished_files
from pststream.plans.planner_sample import SampledQuestions
from pststream.queries.shapes.great_circle import EARTH_RADIUS_M
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.state.tables import TABLES

KINDS = ("range", "knn")
_READ = ["question_file", "row", "kind", *SIDES, "clauses", "k", "rows", "distance_m"]
_STORED = TABLES[names.QUESTIONS].schema
_SAMPLED = pa.schema([pa.field("question_key", pa.int64()), *(_STORED.field(name) for name in _READ)])
"""Columns of a sampled question; question_key: its file and row as one number."""


def draw_questions(home: Home, settings: Settings, progress: Progress) -> SampledQuestions | None:
    """Return sampled questions of KINDS, about as many as subscriptions at most; None if none are logged."""
    files = list_data_files(home, names.QUESTIONS)
    if not files:
        return None
    unfinished = tuple(file["question_file"] for file in unfinished_files(home))
    share = share_of(settings.sample_subscriptions, sum(file.rows for file in files))
    choose = partial(choose_rows, "question_key", _SAMPLED, share, partial(_answered, unfinished))
    tasks = split_into_tasks(addresses_and_rows(home, names.QUESTIONS, files))
    counter = TaskCounter(progress, Counted("sampling questions", "question", rows_of_tasks(tasks)))
    rows, _ = merge_rows(get_engine(settings).run_tasks(tasks, choose, counter), _SAMPLED)
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
    places = [np.flatnonzero(plain), np.flatnonzero(is_near)[near], *2 * [np.flatnonzero(crosses)]]
    boxes = np.concatenate([sides[plain], circles, west, east])
    return SampledQuestions(boxes, *_keywords(one_array(rows.column("clauses")), np.concatenate(places)))


def _keywords(clauses: pa.ListArray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct words of the clauses at some places: offsets int64[n+1], words int64[m], ascending."""
    inner = pc.list_flatten(clauses)
    question = np.asarray(pc.list_parent_indices(clauses))[np.asarray(pc.list_parent_indices(inner))]
    words = np.asarray(pc.list_flatten(inner)).astype(np.int64)
    question, words = np.unique(np.column_stack([question, words]), axis=0).T
    starts = np.searchsorted(question, np.arange(len(clauses) + 1))
    lengths = np.diff(starts)[places]
    offsets = np.append(0, np.cumsum(lengths))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return offsets, words[np.repeat(starts[places], lengths) + within]
