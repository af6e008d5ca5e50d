"""Answer questions of the kind `knn`: the k nearest objects, nearest first.

Distances are compared as metres in float32, so that objects at equal distances are ties, however a distance is rounded.
"""

from collections.abc import Sequence

from pststream.search.answer_rows import AnswerRows, make_answer_rows
from pststream.search.best_objects import find_nearest_objects
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.point_questions import point_questions
from pststream.search.question_batch import TimedQuestion


def answer_nearest(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, with their distances."""
    asked = point_questions(snapshot, questions)
    return make_answer_rows(snapshot, find_nearest_objects(snapshot, asked), asked.points)
