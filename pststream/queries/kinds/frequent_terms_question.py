"""Parse a question of the kind `frequent_terms`: the k terms that the most objects of a region have."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.question_contract import ParsedQuestion, QuestionKind, QuestionLimits
from pststream.queries.kinds.question_fields import parse_k_field, parse_window_field
from pststream.queries.kinds.region_field import parse_region_field
from pststream.queries.shapes.registry import request_fields


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        region=parse_region_field(record, limits.request.region),
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=False),
    )


FREQUENT_TERMS_QUESTION = QuestionKind(
    "frequent_terms",
    frozenset({"k", "window", *request_fields()}),
    "the most frequent words of a region",
    parse_question,
)
