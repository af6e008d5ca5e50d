"""Convert a batch of questions into the arrays that kernels take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.kernels.questions.question_arrays import ClauseArrays, RegionArrays
from pststream.kernels.questions.text_weights import sum_squares
from pststream.kinds.question_contract import ParsedQuestion
from pststream.shapes.region import Region
from pststream.shapes.registry import SHAPES, SIDES, cut_regions, request_schema, to_columns
from pststream.stored_objects.object_segments import ObjectSegment
from pststream.stored_objects.object_snapshot import EARLIEST, LAST_KEY, ObjectSnapshot
from pststream.stored_objects.term_weights import TermWeights


@dataclass(frozen=True)
class TimedQuestion:
    """A parsed question with its time: `as_of` in microseconds (None: the last ts), objects up to a key.

    bounds: the bounds of its window, ts and key after which and ts and key up to which, if they are known already
    """

    parsed: ParsedQuestion
    as_of: int | None = None
    up_to_key: int = LAST_KEY
    bounds: tuple[int, int, int, int] | None = None


def window_bounds(snapshot: ObjectSnapshot, questions: Iterable[TimedQuestion]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds `after`, `up_to` of each question: int64[q,2] each (kernels/questions/question_arrays.py)."""
    after, up_to = [], []
    for question in questions:
        if question.bounds is not None:
            after.append(question.bounds[:2])
            up_to.append(question.bounds[2:])
            continue
        window, last_key = question.parsed.window, question.up_to_key
        as_of = snapshot.last_time(last_key) if question.as_of is None else question.as_of
        up_to.append((as_of, last_key))
        if window.objects is not None:
            after.append(snapshot.before_most_recent(window.objects, as_of, last_key))
        elif window.micros is not None:
            after.append((max(as_of - window.micros, EARLIEST), LAST_KEY))
        else:
            after.append((EARLIEST, LAST_KEY))
    return np.array(after, np.int64).reshape(-1, 2), np.array(up_to, np.int64).reshape(-1, 2)


def reached(bounds: np.ndarray, after: np.ndarray, up_to: np.ndarray) -> np.ndarray:
    """Return the questions whose windows may contain objects of a segment with these bounds: int64[n]."""
    first, last, first_key, _ = bounds
    return np.flatnonzero((after[:, 0] <= last) & (up_to[:, 0] >= first) & (up_to[:, 1] >= first_key))


def region_arrays(regions: Sequence[Region]) -> RegionArrays:
    """Return the pieces of regions."""
    rows = pa.RecordBatch.from_pylist([to_columns(region) for region in regions], schema=request_schema())
    owner, columns = cut_regions(rows)
    tests, lengths = np.zeros(len(owner), np.int64), np.zeros(len(owner), np.int64)
    parts = []
    for shape in SHAPES:
        if shape.PIECE_COLUMN is None:
            continue
        column = columns[shape.PIECE_COLUMN.name]
        has = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if len(has):
            given = column.drop_null()
            tests[has], lengths[has] = shape.CODE, given.value_lengths().to_numpy()
            parts.append((has, given.flatten().to_numpy()))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    numbers = np.empty(offsets[-1], np.float64)
    for has, values in parts:
        widths = lengths[has]
        source = np.cumsum(widths) - widths
        numbers[np.repeat(offsets[has] - source, widths) + np.arange(len(values))] = values
    boxes = np.column_stack([columns[side].to_numpy() for side in SIDES])
    piece_offsets = np.searchsorted(owner, np.arange(len(regions) + 1)).astype(np.int64)
    return RegionArrays(piece_offsets, boxes, tests, offsets, numbers)


class Clauses:
    """The clauses of a batch of questions, as term ids."""

    def __init__(self, questions: Iterable[TimedQuestion]) -> None:
        clauses = [question.parsed.clauses for question in questions]
        self._clause_offsets = _offsets(len(some) for some in clauses)
        self._literal_offsets = _offsets(len(clause) for some in clauses for clause in some)
        self._ids = np.array([term for some in clauses for clause in some for term in clause], np.int64)

    def weighed(self, weights: TermWeights) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of each clause, which is a word, and the sum of the squares of each question: float32[]."""
        weight_of = weights.of_terms(self._ids)
        return weight_of, sum_squares(self._clause_offsets, np.arange(len(self._ids)), weight_of)

    def within(self, segment: ObjectSegment) -> ClauseArrays:
        """Return the clauses with terms numbered as in a segment."""
        return ClauseArrays(self._clause_offsets, self._literal_offsets, segment.find_terms(self._ids))


def _offsets(lengths: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *lengths]).astype(np.int64)
