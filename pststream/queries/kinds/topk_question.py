"""Parse a question of the kind `topk`: the k objects with the best score of place and text.

Departures from Skype (Equation 1): a text is a set of words, so a word that a text repeats weighs no more; this changes
the answers for long texts. The distance is the great-circle distance, and its part of the score is not less than 0. A
word weighs ln(1 + N / max(df, 1)), rounded to 1/65,536, by the version of the term statistics that is in force.
"""

import math
from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.contract import FieldError, RequestLimits
from pststream.queries.kinds.keywords import parse_keyword_field
from pststream.queries.kinds.question_contract import ParsedQuestion, QuestionKind, QuestionLimits
from pststream.queries.kinds.question_fields import (
    parse_k_field,
    parse_number_field,
    parse_point_field,
    parse_window_field,
)
from pststream.queries.shapes.great_circle import EARTH_RADIUS_M
from pststream.queries.text.expression import MAX_CLAUSES
from pststream.queries.text.expression_parser import OPERATORS
from pststream.queries.text.words import tokenize

GREATEST_DISTANCE_M = math.pi * EARTH_RADIUS_M
"""The default of `distance_scale_m`: the greatest distance on the sphere."""

ALPHA_BOUNDS = (0.0, 1.0)
SCALE_BOUNDS = (1.0, 1e9)
"""Least and greatest `alpha`, and `distance_scale_m`."""


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        point=parse_point_field(record),
        clauses=tuple(map(tuple, parse_words(record, limits.request)[1])),
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=True),
        alpha=parse_alpha(record),
        distance_scale_m=parse_distance_scale(record),
    )


def parse_alpha(record: Mapping[str, Any]) -> float:
    """Return the field `alpha`, 0 to 1; raises FieldError."""
    alpha = parse_number_field(record, "alpha", *ALPHA_BOUNDS)
    if alpha is None:
        raise FieldError("alpha", "missing", record)
    return alpha


def parse_distance_scale(record: Mapping[str, Any]) -> float:
    """Return the field `distance_scale_m`, GREATEST_DISTANCE_M without it; raises FieldError."""
    scale = parse_number_field(record, "distance_scale_m", *SCALE_BOUNDS)
    return GREATEST_DISTANCE_M if scale is None else scale


def parse_words(record: Mapping[str, Any], limits: RequestLimits) -> tuple[str, list[list[int]]]:
    """Return the keywords and each of their words as a clause of its own; raises FieldError.

    An operator is an error, and so are more than MAX_CLAUSES different words.
    """
    keywords = record.get("keywords")
    fault = _find_fault(keywords) if isinstance(keywords, str) else None
    if fault:
        raise FieldError("keywords", "unreadable_expression", keywords, fault)
    return parse_keyword_field(record, limits)


def _find_fault(keywords: str) -> str | None:
    if any(part in OPERATORS for part in keywords.split()) or "(" in keywords or ")" in keywords:
        return "keywords of topk are words alone, without AND, OR and parentheses"
    if len(set(tokenize(keywords))) > MAX_CLAUSES:
        return f"keywords of topk are at most {MAX_CLAUSES} different words"
    return None


TOPK_QUESTION = QuestionKind(
    "topk",
    frozenset({"keywords", "point", "k", "window", "alpha", "distance_scale_m"}),
    "the objects with the best score of place and words",
    parse_question,
)
