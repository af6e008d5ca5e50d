"""Find the objects of a segment that pieces of subscriptions may match, by asking a question for each piece."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.questions.question_arrays import ClauseArrays, RegionArrays, Windows
from pststream.kernels.questions.rows_in_regions import mark_rows
from pststream.queries.shapes.registry import SIDES
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import LAST_KEY
from pststream.search.question_batch import reached

ROW_WORK = 4
"""Work for which an object of the segment is read from its data file instead, in places of lists read."""

FIRST_QUESTIONS = 500
"""Questions that are asked first, about."""

QUESTION_COLUMNS = (*SIDES, "clauses", "created_at", "end_at")
"""Columns of pieces that are asked about: exact tests of shapes are left to matching."""


class PieceQuestions(NamedTuple):
    """A question for each piece: the objects in its box that satisfy its clauses while it is valid.

    boxes            float64[q,4]       west, south, east, north
    clause_offsets   int64[q+1]         the clauses of each piece
    literal_offsets  int64[clauses+1]   the terms of each clause
    terms            int64[]            term ids
    after, up_to     int64[q,2]         as kernels/questions/question_arrays.py describes them
    """

    boxes: np.ndarray
    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    terms: np.ndarray
    after: np.ndarray
    up_to: np.ndarray

    @property
    def regions(self) -> RegionArrays:
        """The boxes as regions of one piece each, without exact tests."""
        count = len(self.boxes)
        none = np.zeros(count, np.int64), np.zeros(count + 1, np.int64), np.empty(0, np.float64)
        return RegionArrays(np.arange(count + 1), self.boxes, *none)


def make_piece_questions(pieces: pa.RecordBatch, up_to_key: int) -> PieceQuestions:
    """Return the questions of pieces (QUESTION_COLUMNS) about the objects with keys up to `up_to_key`."""
    clauses = pieces.column("clauses")
    outer = clauses.offsets.to_numpy().astype(np.int64)
    inner_list = clauses.values.slice(outer[0], outer[-1] - outer[0])
    inner = inner_list.offsets.to_numpy().astype(np.int64)
    terms = inner_list.values.to_numpy(zero_copy_only=False)[inner[0] : inner[-1]].astype(np.int64, copy=False)
    outer, inner = outer - outer[0], inner - inner[0]
    if (terms == names.EVERY_OBJECT).any():  # a clause of its own, which no object fails
        is_asked = terms[inner[:-1]] != names.EVERY_OBJECT
        outer = np.append(0, np.cumsum(is_asked))[outer]
        inner = np.append(0, np.cumsum(np.diff(inner)[is_asked]))
        terms = terms[terms != names.EVERY_OBJECT]
    created, end = (pieces.column(name).to_numpy() for name in ("created_at", "end_at"))
    count = pieces.num_rows
    return PieceQuestions(
        boxes=np.column_stack([pieces.column(side).to_numpy() for side in SIDES]),
        clause_offsets=outer,
        literal_offsets=inner,
        terms=terms,
        after=np.column_stack([created - 1, np.full(count, LAST_KEY)]),
        up_to=np.column_stack([end - 1, np.full(count, up_to_key)]),
    )


def find_wanted_rows(segment: ObjectSegment, questions: PieceQuestions) -> np.ndarray | None:
    """Return the rows of the objects that answer one of the questions, ascending: int64[n].

    None: it is less work to read all objects.
    """
    asked = reached(segment.bounds, questions.after, questions.up_to)
    literals = segment.find_terms(questions.terms)
    clauses = ClauseArrays(questions.clause_offsets, questions.literal_offsets, literals)
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
    """Return columns of `objects` for some rows (int64[n]): object_key, object_id, ts, lon, lat, terms."""
    lengths = segment.offsets[rows + 1] - segment.offsets[rows]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    positions = np.repeat(segment.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    numbers = unpack_numbers(segment.row_terms[positions])
    return {
        "object_key": pa.array(segment.keys[rows]),
        "object_id": segment.object_ids(rows),
        "ts": pa.array(segment.times[rows]).cast(TIME),
        "lon": pa.array(segment.places[rows, 0]),
        "lat": pa.array(segment.places[rows, 1]),
        "terms": pa.ListArray.from_arrays(pa.array(offsets), pa.array(segment.terms[numbers])),
    }
