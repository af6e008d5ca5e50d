"""Make the rows of answers: ranks, ids, times and distances of objects."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import TIME
from pststream.kernels.questions.place_codes import distances_m
from pststream.search.best_objects import BestObjects, rows_of
from pststream.search.object_snapshot import ObjectSnapshot


class AnswerRows(NamedTuple):
    """Rows of the answers of a batch, by question and rank.

    question    int64[n]    place of the question in the batch
    rank        int64[n]    from 1
    columns     n values of each column that the kind has: object_key, object_id, ts, distance_m, score, term, count
    """

    question: np.ndarray
    rank: np.ndarray
    columns: dict[str, pa.Array]


def make_answer_rows(snapshot: ObjectSnapshot, best: BestObjects, points: np.ndarray | None) -> AnswerRows:
    """Return the rows of objects, in their order: object_key, object_id, ts and, with points, distance_m.

    points  float64[q,2]: places that distances are measured from, None: no distance
    """
    segment, row = rows_of(best.place)
    columns = {
        "sort_value": pa.array(best.value),
        "object_key": pa.array(best.key),
        "object_id": snapshot.object_ids(segment, row),
        "ts": pa.array(best.ts).cast(TIME),
    }
    if points is not None:
        columns["distance_m"] = pa.array(_distances(snapshot, segment, row, points[best.question]))
    return AnswerRows(best.question, ranks(best.question), columns)


def ranks(question: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its question, from 1: int64[n]; `question` int64[n] ascending."""
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    return np.arange(1, len(question) + 1) - np.repeat(starts, np.diff(starts, append=len(question)))


def _distances(snapshot: ObjectSnapshot, segment: np.ndarray, row: np.ndarray, points: np.ndarray) -> np.ndarray:
    metres = np.empty(len(row), np.float64)
    for number in np.flatnonzero(np.bincount(segment)).tolist():
        chosen = np.flatnonzero(segment == number)
        metres[chosen] = distances_m(points[chosen], snapshot.segments[number].places[row[chosen]])
    return metres
