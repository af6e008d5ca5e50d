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

    question    int64[n]    place of the question in the batch
    rank        int64[n]    from 1
    columns     n values of each column that the kind has: object_key, object_id, ts, distance_m, score, term, count
    """

    question: np.ndarray
    rank: np.ndarray
    columns: dict[str, pa.Array]


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

    def oldest_times(self) -> np.ndarray:
        """Return the ts that rows of equal value must have to enter each heap: int64[q], the least ts until it is full.

        Questions without a heap have the least ts too.
        """
        full = (self.sizes > 0) & (self.sizes == np.diff(self.starts))
        times = np.full(len(self.sizes), np.iinfo(np.int64).min)
        times[full] = self.rows[self.starts[:-1][full], 0]
        return times

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
) -> tuple[AnswerRows, np.ndarray]:
    """Order rows by question, value, then newest, then last in the log; return them with their objects.

    The columns are object_key, object_id, ts and, with points, distance_m.

    question  int64[n]
    value     float32[n]
    rows      int64[n,3]    ts, key, place
    points    float64[q,2]  places that distances are measured from, None: no distance
    Returns also the order of the rows: int64[n].
    """
    order = np.lexsort((-rows[:, 1], -rows[:, 0], value, question))
    question, rows = question[order], rows[order]
    segment, row = rows[:, 2] >> _ROW_BITS, rows[:, 2] & ((1 << _ROW_BITS) - 1)
    columns = {
        "sort_value": pa.array(value[order]),
        "object_key": pa.array(rows[:, 1].copy()),
        "object_id": snapshot.object_ids(segment, row),
        "ts": pa.array(rows[:, 0].copy()).cast(pa.timestamp("us", "UTC")),
    }
    if points is not None:
        columns["distance_m"] = pa.array(_distances(snapshot, segment, row, points[question]))
    return AnswerRows(question, ranks(question), columns), order


def ranks(question: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its question, from 1: int64[n]; `question` int64[n] ascending."""
    return np.arange(len(question)) - np.searchsorted(question, question) + 1


def _distances(snapshot: ObjectSnapshot, segment: np.ndarray, row: np.ndarray, points: np.ndarray) -> np.ndarray:
    metres = np.empty(len(row), np.float64)
    for number in np.unique(segment).tolist():
        chosen = np.flatnonzero(segment == number)
        metres[chosen] = distances_m(points[chosen], snapshot.segments[number].places[row[chosen]])
    return metres
