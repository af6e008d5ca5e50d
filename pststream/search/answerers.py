"""List the functions that answer a batch of questions, by kind."""

from collections.abc import Callable, Sequence

from pststream.search.answer_nearest import answer_nearest
from pststream.search.answer_range import answer_range
from pststream.search.answer_rows import AnswerRows
from pststream.search.answer_scored import answer_scored
from pststream.search.answer_terms import answer_terms
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion

ANSWERERS: dict[str, Callable[[ObjectSnapshot, Sequence[TimedQuestion]], AnswerRows]] = {
    "range": answer_range,
    "knn": answer_nearest,
    "topk": answer_scored,
    "frequent_terms": answer_terms,
}
"""A new kind is one more line."""
