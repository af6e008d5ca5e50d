"""Convert a batch of parsed questions around points into the arrays that `best_objects` takes."""

from collections.abc import Sequence

import numpy as np

from pststream.search.best_objects import PointQuestions
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion, clauses_of, window_bounds


def point_questions(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> PointQuestions:
    """Return questions as arrays, without the scales of scores; their windows are resolved in the snapshot."""
    points = np.array([question.parsed.point for question in questions], np.float64).reshape(-1, 2)
    k = np.array([question.parsed.k or 0 for question in questions], np.int64)
    return PointQuestions(points, k, clauses_of(questions), *window_bounds(snapshot, questions))
