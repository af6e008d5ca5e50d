"""Parse a question of the kind `knn`: the k objects nearest to a point, with or without keywords."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.question_contract import ParsedQuestion, QuestionKind, QuestionLimits
from pststream.queries.kinds.question_fields import (
    parse_k_field,
    parse_keywords_of_question,
    parse_point_field,
    parse_window_field,
)


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        point=parse_point_field(record),
        clauses=parse_keywords_of_question(record, limits.request),
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=True),
    )


KNN_QUESTION = QuestionKind(
    "knn", frozenset({"keywords", "point", "k", "window"}), "the nearest objects", parse_question
)
