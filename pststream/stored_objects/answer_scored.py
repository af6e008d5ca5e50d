"""Answer questions of the kind `topk`: the k objects with the best score of place and text, best first.

Scores are compared as float32, so that equal scores are ties, however a score is rounded.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pststream.kernels.questions.scored_rows import find_scored
from pststream.stored_objects.answer_rows import AnswerRows, BestRows, ranked
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.question_batch import Clauses, TimedQuestion, reached, window_bounds


def answer_scored(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, with distances and scores."""
    after, up_to = window_bounds(snapshot, questions)
    points = np.array([question.parsed.point for question in questions], np.float64).reshape(-1, 2)
    pairs = [(question.parsed.alpha, question.parsed.distance_scale_m) for question in questions]
    scales = np.array(pairs, np.float64).reshape(-1, 2)
    clauses, best = Clauses(questions), BestRows([question.parsed.k or 0 for question in questions])
    weights, squares = clauses.weighed(snapshot.term_weights)
    # The newest segments first: they have what most windows ask for.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, after, up_to)
        if len(asked):
            find_scored(
                segment.objects, snapshot.text_arrays(number), asked, points, scales, clauses.within(segment), weights,
                squares, after, up_to, best.starts, best.sizes, best.values, best.rows,
            )  # fmt: skip
            best.number_places(number)
    question, negated, rows = best.entries()
    answered, order = ranked(snapshot, question, negated, rows, points)
    answered.columns["score"] = pa.array(-negated[order].astype(np.float64))
    version = pa.repeat(pa.scalar(snapshot.term_weights.version, pa.int64()), len(order))
    answered.columns["term_statistics_version"] = version
    return answered
