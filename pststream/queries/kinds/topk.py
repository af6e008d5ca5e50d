"""Define the kind `topk`: the k objects of a window with the best scores of place and text.

Source: Skype, section 3 (Definitions 2 and 3, Equation 1). Of equal scores the newest object comes first, then the last
in the log; the paper does not say which. Departures in the score:

- a text is a set of words, so a word that a text repeats weighs no more; this changes the answers for long texts;
- the distance is the great-circle distance, and its part of the score is not less than 0;
- a word weighs ln(1 + N / max(df, 1)), rounded to 1/65,536, by the version of the term statistics that is in force.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.queries.kinds.answer_query import AnswerQuery, kind_with_answers, window_field
from pststream.queries.kinds.contract import (
    ALPHA,
    DISTANCE_SCALE,
    LAT,
    LON,
    WINDOW_OBJECTS,
    WINDOW_US,
    Description,
    FieldError,
    K,
    ObjectRows,
    ParsedQuestion,
    QuestionKind,
    QuestionLimits,
    RankedAnswers,
    RequestLimits,
    WordWeights,
)
from pststream.queries.kinds.fields import (
    join_columns,
    parse_k_column,
    parse_k_field,
    parse_number_column,
    parse_number_field,
    parse_point_column,
    parse_point_field,
    parse_required_window,
    parse_window_column,
    parse_window_field,
)
from pststream.queries.kinds.keywords import (
    KEYWORD_COLUMNS,
    StoredKeywords,
    describe_words,
    parse_keyword_column,
    parse_keyword_field,
    show_words,
    stored_clauses,
    words_by_term,
    words_of_keywords,
)
from pststream.queries.raw_fields import ParsedColumns, RawField, RawFields
from pststream.queries.shapes.contract import haversine_of_arrays
from pststream.queries.text.expression import EVERY, MAX_CLAUSES, OPERATORS
from pststream.queries.text.words import tokenize

# Answers, without the kernels


@dataclass(frozen=True)
class WordsQuery(AnswerQuery):
    """A stored query for the best scores, whose keywords are words alone: one of them is enough."""

    def explain_missing(self, parts: Sequence[str]) -> str | None:
        """Explain that a text has none of the words, in a sentence; None if it has one."""
        words, own = words_of_keywords(self.keywords), tokenize(" ".join(parts))
        if not words.isdisjoint(own):
            return None
        return f"the text has none of the words {show_words(sorted(words))}; {describe_words(own)}"


class Score(NamedTuple):
    """The distances of objects in metres, and the parts of their scores: float64[n] each.

    text   not a number: the object has none of the words
    """

    metres: np.ndarray
    place: np.ndarray
    text: np.ndarray


def score(asked: Description, objects: ObjectRows, weights: WordWeights) -> Score:
    """Return the parts of the scores of objects.

    A score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine of the weighted words. The squared lengths of
    both vectors are rounded to float32, as where they are stored.
    """
    alpha, point = asked["alpha"], asked["point"]
    metres = haversine_of_arrays(point["lon"], point["lat"], objects.lon, objects.lat)
    words = sorted(words_by_term(asked["keywords"]))
    has_word = objects.have_any(words)
    chosen = has_word[objects.owner]
    owner, terms = objects.owner[chosen], objects.terms[chosen]
    squares, shared, count = weights.of_terms(terms) ** 2, np.isin(terms, words), len(objects.key)
    length = np.bincount(owner, squares, count).astype(np.float32).astype(np.float64)
    own = float(np.float32((weights.of_terms(np.array(words, np.int64)) ** 2).sum()))
    common = np.bincount(owner[shared], squares[shared], count)
    cosine = np.divide(common, np.sqrt(own * length), out=np.full(count, np.nan), where=has_word)
    return Score(metres, alpha * np.maximum(0.0, 1.0 - metres / asked["distance_scale_m"]), (1.0 - alpha) * cosine)


def negative_scores(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the scores below 0: float32[n]; not a number for objects without any of the words."""
    _, place, text = score(asked, objects, weights)
    return -(place + text).astype(np.float32)


def parts(asked: Description, objects: ObjectRows, weights: WordWeights) -> dict[str, Any]:
    """Return the distance of an object, the two parts of its score, and the weights of the shared words."""
    metres, place, text = (float(part[0]) for part in score(asked, objects, weights))
    words = {term: word for term, word in words_by_term(asked["keywords"]).items() if term in objects.terms}
    shared = weights.of_terms(np.array(list(words), np.int64)).tolist()
    return {
        "distance_m": metres,
        "distance_part": place,
        "text_part": text,
        "alpha": asked["alpha"],
        "words": dict(sorted(zip(words.values(), shared, strict=True))),
        "term_statistics_version": weights.version,
    }


BEST_SCORES = RankedAnswers(
    value_column="score",
    sign=-1,
    value_text=lambda score: f"{score:.6f}",
    values=negative_scores,
    parts=parts,
    numbers=(LON.name, LAT.name, ALPHA.name, DISTANCE_SCALE.name),
    mark=ALPHA.name,
    is_weighed=True,
    reach=lambda asked, value: None,  # a good text makes up for any distance
)

# Questions

DEFAULT_SCALE_M = 25_000.0
"""`distance_scale_m` of requests and questions without it; requests store it, so another default changes no answer."""

ALPHA_BOUNDS = (0.0, 1.0)
SCALE_BOUNDS = (1.0, 1e9)
"""Least and greatest `alpha`, and `distance_scale_m`."""


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        point=parse_point_field(record),
        clauses=tuple(map(tuple, parse_words(record, limits.request).clauses)),
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
    """Return the field `distance_scale_m`, DEFAULT_SCALE_M without it; raises FieldError."""
    scale = parse_number_field(record, "distance_scale_m", *SCALE_BOUNDS)
    return DEFAULT_SCALE_M if scale is None else scale


def parse_words(record: Mapping[str, Any], limits: RequestLimits) -> StoredKeywords:
    """Return the keywords and each of their words as a clause of its own; raises FieldError.

    An operator is an error, and so are more than MAX_CLAUSES different words.
    """
    keywords = record.get("keywords")
    fault = _find_fault(keywords) if isinstance(keywords, str) else None
    if fault:
        raise FieldError("keywords", "unreadable_expression", keywords, fault)
    return parse_keyword_field(record, limits)._replace(verified=None, phrases=None)


def _find_fault(keywords: str) -> str | None:
    if any(part in (*OPERATORS, EVERY) for part in keywords.split()) or "(" in keywords or ")" in keywords:
        return "keywords of topk are words alone, without AND, OR, NOT, * and parentheses"
    if len(set(tokenize(keywords))) > MAX_CLAUSES:
        return f"keywords of topk are at most {MAX_CLAUSES} different words"
    return None


FIELDS = frozenset({"keywords", "point", "k", "alpha", "distance_scale_m", "window"})

TOPK_QUESTION = QuestionKind("topk", FIELDS, "the objects with the best score of place and words", parse_question)

# Requests

COLUMNS = (*KEYWORD_COLUMNS, LON, LAT, K, ALPHA, DISTANCE_SCALE, WINDOW_US, WINDOW_OBJECTS)

_PERHAPS_OPERATOR = r"\b(AND|OR|NOT)\b|[()*]"


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    lon, lat = parse_point_field(record)
    k = parse_k_field(record, limits.max_k)
    alpha, scale = parse_alpha(record), parse_distance_scale(record)
    window = parse_required_window(record, counts_objects=True)
    return {
        **parse_words(record, limits)._asdict(), "lon": lon, "lat": lat, "k": k, "alpha": alpha,
        "distance_scale_m": scale, "window_us": window.micros, "window_objects": window.objects,
    }  # fmt: skip


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    parts = (
        _parse_words_column(fields["keywords"], limits),
        parse_point_column(fields["point"]),
        parse_k_column(fields["k"], limits.max_k),
        _parse_weights(fields),
        parse_window_column(fields["window"], counts_objects=True),
    )
    return join_columns(parts)


def _parse_words_column(field: RawField, limits: RequestLimits) -> ParsedColumns:
    """Parse words without operators; texts that may have one are left to `parse_words`."""
    words = parse_keyword_column(field, limits)
    operators = pc.match_substring_regex(words.columns["keywords"], _PERHAPS_OPERATOR)
    is_plain = pc.and_not(pc.is_null(words.columns["verified"]), pc.fill_null(operators, True))
    return ParsedColumns(words.columns, words.parsed & is_plain.to_numpy(zero_copy_only=False))


def _parse_weights(fields: RawFields) -> ParsedColumns:
    alpha, read = parse_number_column(fields["alpha"], *ALPHA_BOUNDS)
    scale, has_scale = parse_number_column(fields["distance_scale_m"], *SCALE_BOUNDS)
    columns = {
        ALPHA.name: pa.array(alpha),
        DISTANCE_SCALE.name: pa.array(np.where(has_scale, scale, DEFAULT_SCALE_M)),
    }
    return ParsedColumns(columns, read & (has_scale | ~fields["distance_scale_m"].filled))


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row."""
    return {
        "keywords": row["keywords"],
        "point": {"lon": row["lon"], "lat": row["lat"]},
        "k": row["k"],
        "alpha": row["alpha"],
        "distance_scale_m": row["distance_scale_m"],
        "window": window_field(row),
    }


TOPK = kind_with_answers(
    "topk",
    describe,
    COLUMNS,
    fields=FIELDS,
    parse_request=parse_request,
    read_query=lambda row: WordsQuery(describe(row), *stored_clauses(row)),
    parse_columns=parse_columns,
    answers=BEST_SCORES,
)
"""It has an index of its own, and no pieces in the worker index."""
