"""Find the objects of a segment that pieces of subscriptions may match, by asking a question for each piece."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import concatenate_ranges, offsets_of
from pststream.base.arrow_columns import TIME, lists
from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.questions.question_arrays import RegionArrays, Windows
from pststream.kernels.questions.rows_in_regions import mark_rows
from pststream.plans.pieces import nested_lists
from pststream.queries.shapes.registry import SIDES
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import LAST_KEY
from pststream.search.question_batch import Clauses, box_regions, reached

ROW_WORK = 4
"""Reading an object from its data file costs as much as reading this many list entries: beyond that, all are read."""

FIRST_QUESTIONS = 500
"""Questions that are asked first, about."""

QUESTION_COLUMNS = (*SIDES, "clauses", "created_at", "end_at")
"""Columns of pieces that are asked about: exact tests of shapes are left to matching."""


class PieceQuestions(NamedTuple):
    """A question for each piece: the objects in its box that satisfy its clauses while it is valid.

    regions          the boxes, without exact tests
    clauses          of each piece
    after, up_to     int64[q,2]  as kernels/questions/question_arrays.py describes them
    """

    regions: RegionArrays
    clauses: Clauses
    after: np.ndarray
    up_to: np.ndarray


def make_piece_questions(pieces: pa.RecordBatch, up_to_key: int) -> PieceQuestions:
    """Return the questions of pieces (QUESTION_COLUMNS) about the objects with keys up to `up_to_key`."""
    outer, inner, terms = nested_lists(pieces.column("clauses"))
    if (terms == names.EVERY_OBJECT).any():  # a clause of its own, which no object fails
        is_asked = terms[inner[:-1]] != names.EVERY_OBJECT
        outer = np.append(0, np.cumsum(is_asked))[outer]
        inner = np.append(0, np.cumsum(np.diff(inner)[is_asked]))
        terms = terms[terms != names.EVERY_OBJECT]
    created, end = (pieces.column(name).to_numpy() for name in ("created_at", "end_at"))
    count = pieces.num_rows
    return PieceQuestions(
        regions=box_regions(np.column_stack([pieces.column(side).to_numpy() for side in SIDES])),
        clauses=Clauses(outer, inner, terms),
        after=np.column_stack([created - 1, np.full(count, LAST_KEY)]),
        up_to=np.column_stack([end - 1, np.full(count, up_to_key)]),
    )


def find_wanted_rows(segment: ObjectSegment, questions: PieceQuestions) -> np.ndarray | None:
    """Return the rows of the objects that answer one of the questions, ascending: int64[n].

    None: it is less work to read all objects.
    """
    asked = reached(segment.bounds, questions.after, questions.up_to)
    clauses = questions.clauses.within(segment)
    marked = np.zeros(len(segment.keys), bool)
    regions, windows = questions.regions, Windows(after=questions.after, up_to=questions.up_to)
    left = ROW_WORK * len(marked)
    # A part of the questions is asked first, with its share of the work.
    step = len(asked) // FIRST_QUESTIONS + 1
    is_first = np.arange(len(asked)) % step == 0
    for some, most_work in ((asked[is_first], left // step), (asked[~is_first], left)):
        work = mark_rows(segment.objects, some, regions, clauses, windows, most_work, marked)
        if work > most_work:
            return None
    return np.flatnonzero(marked)


def object_columns(segment: ObjectSegment, rows: np.ndarray) -> dict[str, pa.Array]:
    """Return columns of `objects` for some rows (int64[n]): object_key, object_id, ts, lon, lat, terms, ascending."""
    starts, lengths = segment.offsets[rows], segment.offsets[rows + 1] - segment.offsets[rows]
    terms = segment.terms[unpack_numbers(segment.row_terms[concatenate_ranges(starts, lengths)])]
    terms = terms[np.lexsort((terms, np.repeat(np.arange(len(rows)), lengths)))]
    return {
        "object_key": pa.array(segment.keys[rows]),
        "object_id": segment.object_ids(rows),
        "ts": pa.array(segment.times[rows]).cast(TIME),
        "lon": pa.array(segment.places[rows, 0]),
        "lat": pa.array(segment.places[rows, 1]),
        "terms": lists(offsets_of(lengths), terms),
    }
