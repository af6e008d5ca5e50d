"""Answer a batch of questions of the kinds `knn`, `range` and `topk`, and list the answering function of each kind."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pststream.kernels.questions.rows_in_regions import choose_paths, find_rows
from pststream.search.answer_rows import AnswerRows, make_answer_rows
from pststream.search.answer_terms import answer_terms
from pststream.search.best_objects import (
    BestRows,
    find_nearest_objects,
    find_scored_objects,
    order_objects,
    place_of,
    point_questions,
)
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion, clauses_of, reached, region_arrays, window_bounds


def answer_nearest(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `knn`, the nearest object first, with their distances.

    Distances are compared as metres in float32, so that equal distances are ties, however they are rounded.
    """
    asked = point_questions(snapshot, questions)
    return make_answer_rows(snapshot, find_nearest_objects(snapshot, asked), asked.points)


def answer_range(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `range`, each newest first, at most its limit."""
    after, up_to = window_bounds(snapshot, questions)
    regions = region_arrays([question.parsed.region for question in questions if question.parsed.region])
    limits = np.array([question.parsed.k or 0 for question in questions], np.int64)
    clauses, best = clauses_of(questions), BestRows(limits)
    parts = []
    # The newest segments first: older ones have no rows for the limits that are filled then.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, after, up_to)
        asked = asked[best.oldest_times()[asked] <= segment.bounds[1]]
        if not len(asked):
            continue
        within = clauses.within(segment)
        answered = find_rows(
            segment.objects, asked, choose_paths(segment.objects, regions, within, asked), regions, within, after,
            up_to, limits, best.starts, best.sizes, best.values, best.rows,
        )  # fmt: skip
        best.number_places(number)
        answered[:, 3] = place_of(number, answered[:, 3])
        parts.append(answered)
    limited, _, newest = best.entries()
    rows = np.concatenate([np.column_stack([limited, newest]), *parts])
    best_first = order_objects(rows[:, 0], np.zeros(len(rows), np.float32), rows[:, 1:])
    return make_answer_rows(snapshot, best_first, None)


def answer_scored(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch of `topk`, the best score first, with distances and scores.

    Scores are compared as float32, so that equal scores are ties, however they are rounded.
    """
    pairs = [(question.parsed.alpha, question.parsed.distance_scale_m) for question in questions]
    asked = point_questions(snapshot, questions)._replace(scales=np.array(pairs, np.float64).reshape(-1, 2))
    best = find_scored_objects(snapshot, asked)
    answered = make_answer_rows(snapshot, best, asked.points)
    answered.columns["score"] = pa.array(-best.value.astype(np.float64))
    version = pa.repeat(pa.scalar(snapshot.term_weights.version, pa.int64()), len(best.question))
    answered.columns["term_statistics_version"] = version
    return answered


ANSWERERS: dict[str, Callable[[ObjectSnapshot, Sequence[TimedQuestion]], AnswerRows]] = {
    "range": answer_range,
    "knn": answer_nearest,
    "topk": answer_scored,
    "frequent_terms": answer_terms,
}
"""A new kind is one more line."""
