"""Answer questions of the kind `topk`: the k objects with the best score of place and text, best first.

Scores are compared as float32, so that equal scores are ties, however a score is rounded.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pststream.search.answer_rows import AnswerRows, make_answer_rows
from pststream.search.best_objects import find_scored_objects
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.point_questions import point_questions
from pststream.search.question_batch import TimedQuestion


def answer_scored(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, with distances and scores."""
    pairs = [(question.parsed.alpha, question.parsed.distance_scale_m) for question in questions]
    asked = point_questions(snapshot, questions)._replace(scales=np.array(pairs, np.float64).reshape(-1, 2))
    best = find_scored_objects(snapshot, asked)
    answered = make_answer_rows(snapshot, best, asked.points)
    answered.columns["score"] = pa.array(-best.value.astype(np.float64))
    version = pa.repeat(pa.scalar(snapshot.term_weights.version, pa.int64()), len(best.question))
    answered.columns["term_statistics_version"] = version
    return answered
