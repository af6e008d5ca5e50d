"""Convert a batch of questions into the arrays that kernels take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import offsets_of, sum_slices
from pststream.base.arrow_columns import take_lists
from pststream.kernels.questions.codes import LEVELS, place_codes
from pststream.kernels.questions.question_arrays import ClauseArrays, RegionArrays
from pststream.kernels.questions.scores import sum_squares
from pststream.queries.kinds.contract import ParsedQuestion
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import SIDES, cut_regions, exact_tests, request_schema, to_columns
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.term_weights import TermWeights


@dataclass(frozen=True)
class TimedQuestion:
    """A parsed question with its time: `as_of` in microseconds (None: the last ts), objects up to a key.

    bounds: the bounds of its window, ts and key after which and ts and key up to which, if they are known already
    where: its condition on attributes in the canonical form, None without one
    """

    parsed: ParsedQuestion
    as_of: int | None = None
    up_to_key: int = LAST_KEY
    bounds: tuple[int, int, int, int] | None = None
    where: str | None = None


def window_bounds(snapshot: ObjectSnapshot, questions: Iterable[TimedQuestion]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds `after`, `up_to` of each question: int64[q,2] each (kernels/questions/question_arrays.py)."""
    after, up_to = [], []
    counted: dict[tuple[int, int], list[tuple[int, int]]] = {}  # count windows by their last ts and key: place, count
    for index, question in enumerate(questions):
        if question.bounds is not None:
            after.append(question.bounds[:2])
            up_to.append(question.bounds[2:])
            continue
        window, last_key = question.parsed.window, question.up_to_key
        as_of = snapshot.last_time(last_key) if question.as_of is None else question.as_of
        up_to.append((as_of, last_key))
        if window.objects is not None:
            counted.setdefault((as_of, last_key), []).append((index, window.objects))
        start = names.NO_TIME if window.micros is None else max(as_of - window.micros, names.NO_TIME)
        after.append((start, LAST_KEY))
    bounds = np.array(after, np.int64).reshape(-1, 2)
    for latest, asked in counted.items():
        bounds[[index for index, _ in asked]] = snapshot.before_most_recent([count for _, count in asked], *latest)
    return bounds, np.array(up_to, np.int64).reshape(-1, 2)


def reached(bounds: np.ndarray, after: np.ndarray, up_to: np.ndarray) -> np.ndarray:
    """Return the questions whose windows may contain objects of a segment with these bounds: int64[n]."""
    first, last, first_key, _ = bounds
    return np.flatnonzero((after[:, 0] <= last) & (up_to[:, 0] >= first) & (up_to[:, 1] >= first_key))


def region_arrays(regions: Sequence[Region]) -> RegionArrays:
    """Return the pieces of regions."""
    return cut_region_arrays(pa.RecordBatch.from_pylist([to_columns(one) for one in regions], schema=request_schema()))


def regions_of(questions: Iterable[TimedQuestion]) -> RegionArrays:
    """Return the regions of questions that have one."""
    return region_arrays([question.parsed.region for question in questions if question.parsed.region])


def limits_of(questions: Iterable[TimedQuestion]) -> np.ndarray:
    """Return the greatest number of rows of the answer of each question, 0 without one: int64[q]."""
    return np.array([question.parsed.k or 0 for question in questions], np.int64)


def cut_region_arrays(rows: pa.RecordBatch) -> RegionArrays:
    """Return the pieces of the regions of rows of `requests` (columns of queries/shapes/registry.py)."""
    owner, columns = cut_regions(rows)
    boxes = np.column_stack([columns[side].to_numpy() for side in SIDES])
    piece_offsets = np.searchsorted(owner, np.arange(rows.num_rows + 1)).astype(np.int64)
    return RegionArrays(piece_offsets, boxes, *exact_tests(columns, len(owner)))


def box_regions(boxes: np.ndarray) -> RegionArrays:
    """Return regions that are one box each: float64[q,4], west, south, east, north."""
    zeros = np.zeros(len(boxes) + 1, np.int64)
    return RegionArrays(np.arange(len(boxes) + 1), boxes, zeros[:-1], zeros, np.empty(0))


def take_regions(regions: RegionArrays, rows: np.ndarray) -> RegionArrays:
    """Return some of the regions of a batch, by their places: int64[n]."""
    offsets, pieces = take_lists((regions.piece_offsets, np.arange(len(regions.boxes))), rows)
    numbers = take_lists((regions.number_offsets, regions.numbers), pieces)
    return RegionArrays(offsets, regions.boxes[pieces], regions.tests[pieces], *numbers)


def concatenate_regions(parts: Sequence[RegionArrays]) -> RegionArrays:
    """Return the regions of several batches, one batch after the other; at least one."""
    pieces, boxes, tests, numbers, values = zip(*parts)
    pieces, numbers = (offsets_of(np.concatenate([np.diff(one) for one in offsets])) for offsets in (pieces, numbers))
    return RegionArrays(pieces, np.concatenate(boxes), np.concatenate(tests), numbers, np.concatenate(values))


@dataclass(frozen=True)
class Clauses:
    """The clauses of a batch of questions: clause_offsets int64[q+1], literal_offsets int64[c+1], term ids int64[]."""

    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    terms: np.ndarray

    def weighed(self, weights: TermWeights) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of each clause, which is a word, and the sum of the squares of each question: float32[]."""
        weight_of = weights.of_terms(self.terms)
        return weight_of, sum_squares(self.clause_offsets, np.arange(len(self.terms)), weight_of)

    def take(self, questions: np.ndarray) -> "Clauses":
        """Return those of some questions, by their places: int64[n]."""
        offsets, clauses = take_lists((self.clause_offsets, np.arange(len(self.literal_offsets) - 1)), questions)
        return Clauses(offsets, *take_lists((self.literal_offsets, self.terms), clauses))

    def within(self, segment: ObjectSegment) -> ClauseArrays:
        """Return the clauses with terms numbered as in a segment."""
        return ClauseArrays(self.clause_offsets, self.literal_offsets, segment.find_terms(self.terms))


def clauses_of(questions: Iterable[TimedQuestion]) -> Clauses:
    """Return the clauses of parsed questions."""
    clauses = [question.parsed.clauses for question in questions]
    return Clauses(
        offsets_of([len(some) for some in clauses]),
        offsets_of([len(clause) for some in clauses for clause in some]),
        np.array([term for some in clauses for clause in some for term in clause], np.int64),
    )


_CELLS = 1 << LEVELS


def cover(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Morton codes of up to four cells that cover each box: first, and after the last: int64[p,4] each.

    boxes: float64[p,4]. Of equal cells all but one are empty.
    """
    columns = np.clip(((boxes[:, (0, 2)] + 180.0) * (_CELLS / 360.0)).astype(np.int64), 0, _CELLS - 1)
    rows = np.clip(((boxes[:, (1, 3)] + 90.0) * (_CELLS / 180.0)).astype(np.int64), 0, _CELLS - 1)
    extent = np.maximum(columns[:, 1] - columns[:, 0], rows[:, 1] - rows[:, 0])
    shift = np.frexp(extent.astype(np.float64))[1].astype(np.int64)  # a cell is wider and higher than the box
    first, last = columns >> shift[:, None], rows >> shift[:, None]
    x, y = first[:, (0, 1, 0, 1)], last[:, (0, 0, 1, 1)]
    lon = ((x << shift[:, None]) + 0.5) * (360.0 / _CELLS) - 180.0
    lat = ((y << shift[:, None]) + 0.5) * (180.0 / _CELLS) - 90.0
    low = place_codes(lon.ravel(), lat.ravel()).astype(np.int64).reshape(x.shape)
    size = np.int64(1) << (2 * shift[:, None])
    is_first = np.ones(x.shape, bool)
    is_first[:, 1] = first[:, 0] != first[:, 1]
    is_first[:, 2] = last[:, 0] != last[:, 1]
    is_first[:, 3] = is_first[:, 1] & is_first[:, 2]
    return low, np.where(is_first, low + size, low)


def rows_of_any_clause(segment: ObjectSegment, clauses: ClauseArrays) -> np.ndarray:
    """Return how many rows of a segment satisfy a clause of each question at most: int64[q]."""
    return np.minimum(sum_slices(_postings_of(segment, clauses), clauses.clause_offsets), len(segment.keys))


def bound_of_segment(
    segment: ObjectSegment, regions: RegionArrays, cells: tuple[np.ndarray, np.ndarray], clauses: ClauseArrays
) -> np.ndarray:
    """Return how many rows of a segment answer each question at most: int64[q]; `cells`: what `cover` returns."""
    return np.minimum(_rows_of_clauses(segment, clauses), _rows_of_cells(segment, regions, *cells))


def _rows_of_cells(segment: ObjectSegment, regions: RegionArrays, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the rows in the cells that cover each region, at most all: int64[q]."""
    borders = np.stack([low, high]).ravel()
    # Codes are uint32; the end of the last cell is one more than the greatest.
    codes = np.minimum(borders, (1 << 2 * LEVELS) - 1).astype(np.uint32)
    positions = np.where(borders >> 2 * LEVELS, len(segment.codes), np.searchsorted(segment.codes, codes))
    first, last = positions.reshape(2, -1, 4)
    return np.minimum(sum_slices((last - first).sum(axis=1), regions.piece_offsets), len(segment.codes))


def _rows_of_clauses(segment: ObjectSegment, clauses: ClauseArrays) -> np.ndarray:
    """Return the postings of the clause of each question that has the fewest, all rows without clauses: int64[q]."""
    of_clauses = _postings_of(segment, clauses)
    fewest = np.full(len(clauses.clause_offsets) - 1, len(segment.keys), np.int64)
    owner = np.repeat(np.arange(len(fewest)), np.diff(clauses.clause_offsets))
    np.minimum.at(fewest, owner, of_clauses)
    return fewest


def _postings_of(segment: ObjectSegment, clauses: ClauseArrays) -> np.ndarray:
    """Return the postings of each clause: int64[c]."""
    terms = clauses.literals
    counts = np.where(terms >= 0, segment.posting_offsets[terms + 1] - segment.posting_offsets[terms], 0)
    return sum_slices(counts, clauses.literal_offsets)
