"""Answer questions of the kind `knn`: the k nearest objects, nearest first.

Distances are compared as metres in float32, so that objects at equal distances are ties, however a distance is rounded.
"""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.questions.nearest_rows import find_nearest
from pststream.kernels.questions.question_arrays import choose_clauses
from pststream.stored_objects.answer_rows import AnswerRows, BestRows, ranked
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.question_batch import Clauses, TimedQuestion, reached, window_bounds


def answer_nearest(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, with their distances."""
    after, up_to = window_bounds(snapshot, questions)
    points = np.array([question.parsed.point for question in questions], np.float64).reshape(-1, 2)
    clauses, best = Clauses(questions), BestRows([question.parsed.k or 0 for question in questions])
    # The newest segments first: they have what most windows ask for.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, after, up_to)
        if len(asked):
            within = clauses.within(segment)
            find_nearest(
                segment.objects, asked, choose_clauses(segment.objects, within, asked), points, within, after, up_to,
                best.starts, best.sizes, best.values, best.rows,
            )  # fmt: skip
            best.number_places(number)
    question, metres, rows = best.entries()
    return ranked(snapshot, question, metres, rows, points)[0]
