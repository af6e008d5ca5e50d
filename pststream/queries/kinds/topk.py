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
    has_phrase,
    have_phrase,
    parse_keyword_column,
    read_keywords,
    show_words,
    stored_clauses,
    term_of,
    words_by_term,
)
from pststream.queries.raw_fields import ParsedColumns, RawField, RawFields
from pststream.queries.shapes.contract import haversine_of_arrays
from pststream.queries.text.expression import MAX_CLAUSES, MAX_WORDS, ExpressionError, WordList, parse_word_list
from pststream.queries.text.words import tokenize

# Answers, without the kernels


@dataclass(frozen=True)
class WordsQuery(AnswerQuery):
    """A stored query for the best scores, whose keywords are words alone: one of them is enough."""

    def find_fault(self) -> str | None:
        """Compare the stored clauses with the words."""
        stored = store_words(self.keywords or "", MAX_WORDS)
        if (sorted(stored.clauses), sorted(stored.verified or [])) == (
            sorted(map(list, self.clauses)),
            sorted(map(list, self.verified)),
        ):
            return None
        return "the subscription's stored clauses are not those of its keywords"

    def explain_missing(self, parts: Sequence[str]) -> str | None:
        """Explain that a text has none of the words, or an excluded one, in a sentence; None if it counts."""
        asked = parse_word_list(self.keywords or "")
        unwanted = next((words for words in asked.excluded if has_phrase(words, parts)), None)
        if unwanted is not None:
            return f"the text has {' '.join(unwanted)!r}, which the keywords exclude"
        wanted = [*((word,) for word in asked.alone), *asked.phrases]
        if any(has_phrase(words, parts) for words in wanted):
            return None
        shown = show_words([" ".join(words) for words in sorted(wanted)])
        own = [word for part in parts for word in tokenize(part)]
        kinds = "words and phrases" if asked.phrases else "words"
        return f"the text has none of the {kinds} {shown}; {describe_words(own)}"


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
    words = [term_of(word) for word in words_of_list(parse_word_list(asked["keywords"]))]
    counts = words_that_count(asked["keywords"], objects)
    has_word = np.bincount(objects.owner[counts], minlength=len(objects.key)) > 0
    chosen = has_word[objects.owner]
    squares, count = weights.of_terms(objects.terms[chosen]) ** 2, len(objects.key)
    owner, shared = objects.owner[chosen], counts[chosen]
    length = np.bincount(owner, squares, count).astype(np.float32).astype(np.float64)
    own = float(np.float32((weights.of_terms(np.array(words, np.int64)) ** 2).sum()))
    common = np.bincount(owner[shared], squares[shared], count)
    cosine = np.divide(common, np.sqrt(own * length), out=np.full(count, np.nan), where=has_word)
    return Score(metres, alpha * np.maximum(0.0, 1.0 - metres / asked["distance_scale_m"]), (1.0 - alpha) * cosine)


def words_that_count(keywords: str, objects: ObjectRows) -> np.ndarray:
    """Return which words of objects count in their scores: bool[words] of `ObjectRows`; none of an excluded object."""
    asked = parse_word_list(keywords)
    counts = np.isin(objects.terms, [term_of(word) for word in asked.alone])
    for words in asked.phrases:
        is_word = np.isin(objects.terms, [term_of(word) for word in words])
        counts |= is_word & have_phrase(words, objects)[objects.owner]
    for words in asked.excluded:
        counts &= ~have_phrase(words, objects)[objects.owner]
    return counts


def negative_scores(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the scores below 0: float32[n]; not a number for objects without any of the words."""
    _, place, text = score(asked, objects, weights)
    return -(place + text).astype(np.float32)


def parts(asked: Description, objects: ObjectRows, weights: WordWeights) -> dict[str, Any]:
    """Return the distance of an object, the two parts of its score, and the weights of the shared words."""
    metres, place, text = (float(part[0]) for part in score(asked, objects, weights))
    counted = objects.terms[words_that_count(asked["keywords"], objects)]
    words = {term: word for term, word in words_by_term(asked["keywords"]).items() if term in counted}
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
    point, words = parse_point_field(record), parse_words(record, limits.request)
    parts = (words.clauses, words.verified, words.phrases)
    clauses, verified, phrases = (tuple(map(tuple, part or ())) for part in parts)
    return ParsedQuestion(
        point=point,
        clauses=clauses,
        verified=verified,
        phrases=phrases,
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
    """Return the keywords as `store_words` does; raises FieldError, also for more than MAX_CLAUSES different words."""
    keywords = read_keywords(record)
    try:
        return store_words(keywords, limits.max_expression_words)
    except ExpressionError as error:
        raise FieldError("keywords", error.kind, keywords, str(error)) from None


def store_words(keywords: str, max_words: int) -> StoredKeywords:
    """Return the keywords with each of their words, in phrases or alone, as a clause of its own.

    `verified` has a clause for each word or phrase that is excluded, and if there are phrases or exclusions one with
    the words that count wherever they stand. Raises ExpressionError.
    """
    asked = parse_word_list(keywords, max_words=max_words, max_distinct=MAX_CLAUSES)
    alone = sorted({term_of(word) & ~1 for word in asked.alone})
    verified = [[term_of(*words) | 1] for words in asked.excluded]
    verified += [alone] if alone and (asked.phrases or asked.excluded) else []
    phrases = [[term_of(word) for word in words] for words in (*asked.phrases, *asked.excluded) if len(words) > 1]
    clauses = [[term_of(word)] for word in words_of_list(asked)]
    return StoredKeywords(keywords, clauses, verified or None, phrases or None)


def words_of_list(asked: WordList) -> list[str]:
    """Return the distinct words that are not excluded, in order."""
    return sorted({*asked.alone, *(word for words in asked.phrases for word in words)})


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
    columns = {ALPHA.name: pa.array(alpha), DISTANCE_SCALE.name: pa.array(np.where(has_scale, scale, DEFAULT_SCALE_M))}
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
