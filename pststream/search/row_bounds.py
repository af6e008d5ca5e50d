"""Bound the number of objects in the region of a question that have its words, without reading them."""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.questions.place_codes import LEVELS, place_codes
from pststream.kernels.questions.question_arrays import ClauseArrays, RegionArrays
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion, clauses_of, reached, region_arrays, window_bounds

_CELLS = 1 << LEVELS


def bound_rows(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> np.ndarray:
    """Return how many rows the answer of each question has at most: int64[q]; questions without k have a region."""
    most = np.array([question.parsed.k or 0 for question in questions], np.int64)
    unlimited = np.flatnonzero(most == 0)
    if not len(unlimited):
        return most
    open_ended = [questions[place] for place in unlimited.tolist()]
    after, up_to = window_bounds(snapshot, open_ended)
    regions = region_arrays([question.parsed.region for question in open_ended if question.parsed.region])
    low, high = _cover(regions.boxes)
    clauses = clauses_of(open_ended)
    for segment in snapshot.segments:
        of_clauses = _rows_of_clauses(segment, clauses.within(segment))
        rows = np.minimum(of_clauses, _rows_of_cells(segment, regions, low, high))
        asked = reached(segment.bounds, after, up_to)
        most[unlimited[asked]] += rows[asked]
    return most


def _cover(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Morton codes of up to four cells that cover each box: first, and after the last: int64[p,4] each.

    boxes: float64[p,4]. Of equal cells all but one are empty.
    """
    columns = np.clip(((boxes[:, (0, 2)] + 180.0) * (_CELLS / 360.0)).astype(np.int64), 0, _CELLS - 1)
    rows = np.clip(((boxes[:, (1, 3)] + 90.0) * (_CELLS / 180.0)).astype(np.int64), 0, _CELLS - 1)
    extent = np.maximum(columns[:, 1] - columns[:, 0], rows[:, 1] - rows[:, 0])
    shift = np.frexp(extent.astype(np.float64))[1].astype(np.int64)  # a cell is wider and higher than the box
    first, last = columns >> shift[:, None], rows >> shift[:, None]
    x, y = first[:, (0, 1, 0, 1)], last[:, (0, 0, 1, 1)]
    low = _codes(x << shift[:, None], y << shift[:, None])
    size = np.int64(1) << (2 * shift[:, None])
    is_first = np.ones(x.shape, bool)
    is_first[:, 1] = first[:, 0] != first[:, 1]
    is_first[:, 2] = last[:, 0] != last[:, 1]
    is_first[:, 3] = is_first[:, 1] & is_first[:, 2]
    return low, np.where(is_first, low + size, low)


def _codes(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    lon, lat = (columns + 0.5) * (360.0 / _CELLS) - 180.0, (rows + 0.5) * (180.0 / _CELLS) - 90.0
    return place_codes(lon.ravel(), lat.ravel()).astype(np.int64).reshape(columns.shape)


def _rows_of_cells(segment: ObjectSegment, regions: RegionArrays, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the rows in the cells that cover each region, at most all: int64[q]."""
    borders = np.stack([low, high]).ravel()
    # Codes are uint32; the end of the last cell is one more than the greatest.
    places = np.where(borders >> 2 * LEVELS, len(segment.codes), _search(segment.codes, borders))
    first, last = places.reshape(2, -1, 4)
    counts = np.append(0, np.cumsum((last - first).sum(axis=1)))
    return np.minimum(counts[regions.piece_offsets[1:]] - counts[regions.piece_offsets[:-1]], len(segment.codes))


def _search(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.searchsorted(codes, np.minimum(wanted, (1 << 2 * LEVELS) - 1).astype(np.uint32))


def _rows_of_clauses(segment: ObjectSegment, clauses: ClauseArrays) -> np.ndarray:
    """Return the postings of the clause of each question that has the fewest, all rows without clauses: int64[q]."""
    terms = clauses.literals
    counts = np.where(terms >= 0, segment.posting_offsets[terms + 1] - segment.posting_offsets[terms], 0)
    sums = np.append(0, np.cumsum(counts, dtype=np.int64))
    of_clauses = sums[clauses.literal_offsets[1:]] - sums[clauses.literal_offsets[:-1]]
    fewest = np.full(len(clauses.clause_offsets) - 1, len(segment.keys), np.int64)
    owner = np.repeat(np.arange(len(fewest)), np.diff(clauses.clause_offsets))
    np.minimum.at(fewest, owner, of_clauses)
    return fewest
