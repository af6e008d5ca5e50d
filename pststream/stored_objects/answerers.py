"""List the functions that answer a batch of questions, by kind."""

from collections.abc import Callable, Sequence

from pststream.stored_objects.answer_nearest import answer_nearest
from pststream.stored_objects.answer_range import answer_range
from pststream.stored_objects.answer_rows import AnswerRows
from pststream.stored_objects.answer_scored import answer_scored
from pststream.stored_objects.answer_terms import answer_terms
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.question_batch import TimedQuestion

ANSWERERS: dict[str, Callable[[ObjectSnapshot, Sequence[TimedQuestion]], AnswerRows]] = {
    "range": answer_range,
    "knn": answer_nearest,
    "topk": answer_scored,
    "frequent_terms": answer_terms,
}
"""A new kind is one more line."""
