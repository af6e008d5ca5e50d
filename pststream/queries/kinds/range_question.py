"""Parse a question of the kind `range`: the objects in a region, with or without keywords, at most `limit` of them."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.question_contract import ParsedQuestion, QuestionKind, QuestionLimits
from pststream.queries.kinds.question_fields import parse_count_field, parse_keywords_of_question, parse_window_field
from pststream.queries.kinds.region_field import parse_region_field
from pststream.queries.shapes.registry import request_fields


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        region=parse_region_field(record, limits.request.region),
        clauses=parse_keywords_of_question(record, limits.request),
        k=parse_count_field(record, "limit", limits.max_k),
        window=parse_window_field(record, counts_objects=False),
    )


RANGE_QUESTION = QuestionKind(
    "range", frozenset({"keywords", "limit", "window", *request_fields()}), "the objects of a region", parse_question
)
