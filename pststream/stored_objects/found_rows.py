"""Collect the rows of answers over all segments, order them, and look up their ids and times."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.kernels.questions.place_codes import distances_m
from pststream.stored_objects.object_snapshot import ObjectSnapshot

_ROW_BITS = 32


class AnswerRows(NamedTuple):
    """Rows of the answers of a batch, by question and rank.

    question    int64[n]           place of the question in the batch
    rank        int64[n]           from 1
    object_id   large_string[n]
    ts          int64[n]           microseconds since 1970
    value       float64[n]         distance in metres; NaN without one
    """

    question: np.ndarray
    rank: np.ndarray
    object_id: pa.Array
    ts: np.ndarray
    value: np.ndarray


class BestRows:
    """The heaps of a batch: the best rows of each question so far (kernels/questions/best_rows.py).

    capacities  greatest number of rows of each question; 0: the question has no heap
    """

    def __init__(self, capacities: Sequence[int]) -> None:
        self.starts = np.cumsum([0, *capacities]).astype(np.int64)
        self.sizes = np.zeros(len(capacities), np.int64)
        self.values = np.zeros(self.starts[-1], np.float32)
        self.rows = np.zeros((self.starts[-1], 3), np.int64)

    def number_places(self, segment: int) -> None:
        """Replace the places that kernels have written for rows of this segment by `place_of` them."""
        places = self.rows[:, 2]
        new = places < 0
        places[new] = place_of(segment, -1 - places[new])

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return question, value and (ts, key, place) of all rows."""
        question = np.repeat(np.arange(len(self.sizes)), self.sizes)
        within = np.arange(len(question)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        at = self.starts[question] + within
        return question, self.values[at], self.rows[at]


def place_of(segment: int, row: np.ndarray) -> np.ndarray:
    """Return one number for each row of a segment: int64[n]."""
    return np.int64(segment << _ROW_BITS) | row.astype(np.int64)


def ranked(
    snapshot: ObjectSnapshot, question: np.ndarray, value: np.ndarray, rows: np.ndarray, points: np.ndarray | None
) -> AnswerRows:
    """Order rows by question, value, then newest, then last in the log.

    question  int64[n]
    value     float32[n]
    rows      int64[n,3]    ts, key, place
    points    float64[q,2]  places that distances are measured from, None: no distance
    """
    order = np.lexsort((-rows[:, 1], -rows[:, 0], value, question))
    question, rows = question[order], rows[order]
    first = np.searchsorted(question, question)
    segment, row = rows[:, 2] >> _ROW_BITS, rows[:, 2] & ((1 << _ROW_BITS) - 1)
    away = np.full(len(question), np.nan)
    if points is not None:
        for number in np.unique(segment).tolist():
            chosen = np.flatnonzero(segment == number)
            places = snapshot.segments[number].places[row[chosen]]
            away[chosen] = distances_m(points[question[chosen]], places)
    ids = snapshot.object_ids(segment, row)
    return AnswerRows(question, np.arange(len(question)) - first + 1, ids, rows[:, 0].copy(), away)
