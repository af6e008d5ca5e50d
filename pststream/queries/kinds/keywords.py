"""Parse the keywords of a request into clauses of term ids (CNF), and explain which clauses a text does not satisfy.

Clauses of words are required: the index holds them. Clauses with phrases or exclusions are verified at the objects that
satisfy the required ones. A phrase has a term id too, which objects that have the phrase get where they are read.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import Column
from pststream.queries.kinds.contract import ClauseTuples, FieldError, ObjectRows, RequestLimits
from pststream.queries.raw_fields import ParsedColumns, RawField
from pststream.queries.text.expression import EVERY, ExpressionError, Literal, parse_keywords
from pststream.queries.text.words import tokenize

_LISTS = pa.list_(pa.list_(pa.int64()))

KEYWORD_COLUMNS = (
    Column("keywords", pa.string(), "the expression as written; null: every object (`*`)", True),
    Column("clauses", _LISTS, "insert: required words, in conjunctive normal form, term ids", True),
    Column(
        "verified",
        _LISTS,
        "insert: further clauses, of words, phrases and exclusions, which have 1 as the lowest bit; null: none",
        True,
    ),
    Column("phrases", _LISTS, "insert: the words of each phrase in `verified`, term ids in order; null: none", True),
)


class StoredKeywords(NamedTuple):
    """Keywords as KEYWORD_COLUMNS have them."""

    keywords: str | None
    clauses: list[list[int]]
    verified: list[list[int]] | None = None
    phrases: list[list[int]] | None = None


EVERY_OBJECT_TEXT = "(every object)"
"""What commands and pages show in place of the keywords of a subscription without them."""

MAX_LEVELS = 100
"""Parentheses of a new expression that may be open at once."""

MAX_PAIRS = 10_000
"""Clauses that the conversion of a new expression may combine: some milliseconds of work. See `clauses_of_shape`."""

_LONGEST_CACHED = 1_000
_SHOWN_WORDS = 30
_SHOWN_CLAUSES = 3


def parse_keyword_field(record: Mapping[str, Any], limits: RequestLimits) -> StoredKeywords:
    """Return the expression of a request and its clauses, term ids ascending inside a clause; of `*`, None and the
    clause that every object satisfies. Raises FieldError.
    """
    keywords = read_keywords(record, 'no keywords are given; say "keywords": "*" for every object')
    parse = _stored if len(keywords) <= _LONGEST_CACHED else _stored.__wrapped__
    stored = parse(keywords, limits.max_expression_words)
    if isinstance(stored, ExpressionError):
        raise FieldError("keywords", stored.kind, keywords, str(stored))
    return stored


def read_keywords(record: Mapping[str, Any], missing: str = "") -> str:
    """Return the field `keywords`; raises FieldError without one, for which `missing` is the sentence."""
    keywords = record.get("keywords")
    if keywords is None or keywords == "":
        raise FieldError("keywords", "missing", record, missing)
    # Readers give NaN as a subclass of str.
    if type(keywords) is not str:
        raise FieldError("keywords", "not_a_value", keywords, 'keywords are one text, such as "fire OR smoke"')
    return keywords


def stored_clauses(row: Mapping[str, Any]) -> tuple[ClauseTuples, ClauseTuples]:
    """Return the required and the verified clauses of a row of `requests`."""
    return tuple(map(tuple, row["clauses"])), tuple(map(tuple, row["verified"] or ()))


def is_every_object(keywords: Any) -> bool:
    """Return whether the value of the field `keywords` is `*` alone."""
    return isinstance(keywords, str) and keywords.strip() == EVERY


def parse_keyword_column(field: RawField, limits: RequestLimits) -> ParsedColumns:
    """Parse the expressions of many requests into KEYWORD_COLUMNS, as `parse_keyword_field` does each."""
    from pststream.queries.text.tokenizer import parse_expressions  # loads the kernels

    keywords, most = field.texts(), limits.max_expression_words
    clauses, parsed = parse_expressions(keywords, most, MAX_PAIRS)
    # Expressions beyond ASCII, or with quotes, phrases or NOT, each distinct one; those not valid stay unparsed.
    sizes = pc.fill_null(pc.utf8_length(keywords), 0).to_numpy()
    left = np.flatnonzero(~parsed & (sizes > 0) & (sizes <= _LONGEST_CACHED))
    distinct = keywords.take(pa.array(left)).dictionary_encode()
    stored = [_stored(text, most) for text in distinct.dictionary.to_pylist()]
    read = [one for one in stored if isinstance(one, StoredKeywords)]
    is_read = np.array([isinstance(one, StoredKeywords) for one in stored], bool)
    place = (np.cumsum(is_read) - 1)[distinct.indices.to_numpy()]
    chosen = is_read[distinct.indices.to_numpy()]
    rows, order = left[chosen], np.arange(len(keywords))
    order[rows] = len(keywords) + place[chosen]
    parsed[rows] = True
    nothing = pa.nulls(len(keywords), _LISTS)
    columns = {"keywords": keywords, "clauses": clauses, "verified": nothing, "phrases": nothing}
    for name, column in columns.items():
        further = pa.array([getattr(one, name) for one in read], column.type)
        columns[name] = pa.concat_arrays([column, further]).take(pa.array(order)) if read else column
    return ParsedColumns(columns, parsed)


@lru_cache(maxsize=1 << 14)
def _stored(keywords: str, max_words: int) -> StoredKeywords | ExpressionError:
    """Return an expression as stored, or the error. Cached, since many subscriptions have equal keywords."""
    try:
        required, verified = parse_keywords(keywords, max_words=max_words, max_levels=MAX_LEVELS, max_pairs=MAX_PAIRS)
    except ExpressionError as error:
        return error
    phrases = {literal.words for clause in verified for literal in clause if len(literal.words) > 1}
    return StoredKeywords(
        None if is_every_object(keywords) else keywords,
        [sorted({term_of(word) for word in clause}) for clause in required],
        [sorted({_literal_id(literal) for literal in clause}) for clause in verified] or None,
        [list(map(term_of, words)) for words in sorted(phrases)] or None,
    )


def _literal_id(literal: Literal) -> int:
    """Return the term id of a word or phrase; its lowest bit says whether it is excluded."""
    return term_of(*literal.words) & ~1 | literal.excluded


def term_of(*words: str) -> int:
    """Return the term id of a word, or of the phrase of several words."""
    from pststream.queries.text.tokenizer import phrase_id, term_id  # loads the kernels

    if words == (EVERY,):
        return names.EVERY_OBJECT
    return term_id(words[0]) if len(words) == 1 else phrase_id(tuple(map(term_id, words)))


def is_expression(keywords: str | None) -> bool:
    """Return whether an expression can be parsed, or is None: no keywords."""
    if keywords is None:
        return True
    try:
        parse_keywords(keywords)
    except ExpressionError:
        return False
    return True


def words_of_keywords(keywords: str | None) -> frozenset[str]:
    """Return all words of an expression but those that it excludes."""
    if keywords is None:
        return frozenset()
    required, verified = parse_keywords(keywords)
    words = {word for clause in required for word in clause}
    words.update(word for clause in verified for literal in clause if not literal.excluded for word in literal.words)
    return frozenset(words - {EVERY})


def words_by_term(keywords: str | None) -> dict[int, str]:
    """Return the words of an expression that it does not exclude, by their term ids; if every object has what is
    required, a text for the term of every object.
    """
    if keywords is None or [EVERY] in parse_keywords(keywords).required:
        return {names.EVERY_OBJECT: EVERY_OBJECT_TEXT}
    return {term_of(word): word for word in words_of_keywords(keywords)}


def find_clause_fault(
    keywords: str | None, clauses: Collection[Collection[int]], verified: Collection[Collection[int]] | None
) -> str | None:
    """Say that stored clauses are not those of the expression; None if they are, in any order."""
    of_words, with_phrases = parse_keywords(EVERY if keywords is None else keywords)
    parsed = (
        [{term_of(word) for word in clause} for clause in of_words],
        [{_literal_id(literal) for literal in clause} for clause in with_phrases],
    )
    stored = (clauses, verified or ())
    if all(sorted(map(sorted, one)) == sorted(map(sorted, other)) for one, other in zip(parsed, stored)):
        return None
    return "the subscription's stored clauses are not those of its keywords"


def satisfy_keywords(keywords: str | None, objects: ObjectRows) -> np.ndarray:
    """Return which objects satisfy an expression, without the kernels: bool[n]; None: all."""
    required, verified = parse_keywords(EVERY if keywords is None else keywords)
    satisfied = np.ones(len(objects.key), bool)
    for words in required:
        satisfied &= objects.have_any(list(map(term_of, words))) if words != [EVERY] else True
    for clause in verified:
        satisfied &= np.any([_objects_hold(literal, objects, satisfied) for literal in clause], axis=0)
    return satisfied


def _objects_hold(literal: Literal, objects: ObjectRows, asked: np.ndarray) -> np.ndarray:
    """Return for which of the objects that are asked about a literal holds: bool[n]."""
    return have_phrase(literal.words, objects, asked) != literal.excluded


def have_phrase(words: tuple[str, ...], objects: ObjectRows, asked: np.ndarray | None = None) -> np.ndarray:
    """Return which objects have a word or phrase: bool[n]; asked: those that are asked about, None: all."""
    if len(words) == 1:
        return objects.have_any([term_of(*words)])
    has = np.zeros(len(objects.key), bool)
    for row in np.flatnonzero(np.ones(len(has), bool) if asked is None else asked).tolist():
        has[row] = has_phrase(words, objects.parts[row])
    return has


def has_phrases(keywords: str | None) -> bool:
    """Return whether an expression has a phrase: then texts decide whether objects satisfy it."""
    verified = parse_keywords(keywords).verified if keywords is not None else []
    return any(len(literal.words) > 1 for clause in verified for literal in clause)


def explain_missing_words(keywords: str | None, parts: Sequence[str]) -> str | None:
    """Explain why a text does not satisfy an expression, in a sentence; None if it does, as every text without one.

    parts: those of the text, which no phrase crosses
    """
    if keywords is None:
        return None
    required, verified = parse_keywords(keywords)
    words = [word for part in parts for word in tokenize(part)]
    missing = [clause for clause in required if clause != [EVERY] and not set(words).intersection(clause)]
    if missing:
        shown = [("any of " if len(clause) > 1 else "") + show_words(clause) for clause in missing[:_SHOWN_CLAUSES]]
        wanted, left = "; nor ".join(shown), len(missing) - _SHOWN_CLAUSES
        more = f" (and {left} more clause{'s' if left > 1 else ''})" if left > 0 else ""
        return f"the text does not have {wanted}{more}, which {keywords[:200]!r} asks for; {describe_words(words)}"
    failed = next((clause for clause in verified if not any(_holds(literal, parts) for literal in clause)), None)
    if failed is None:
        return None
    reasons = "; ".join(_why_not(literal, parts) for literal in failed[:_SHOWN_CLAUSES])
    return f"{reasons}; {keywords[:200]!r} allows none of that" if len(failed) > 1 else reasons


def _holds(literal: Literal, parts: Sequence[str]) -> bool:
    return has_phrase(literal.words, parts) != literal.excluded


def has_phrase(words: tuple[str, ...], parts: Sequence[str]) -> bool:
    """Return whether a part has these words side by side, in order."""
    return any(
        words == tuple(own[start : start + len(words)]) for own in map(tokenize, parts) for start in range(len(own))
    )


def _why_not(literal: Literal, parts: Sequence[str]) -> str:
    shown = "'" + " ".join(literal.words) + "'"
    if literal.excluded:
        return f"the text has {shown}, which the keywords exclude"
    if len(literal.words) == 1:
        return f"the text does not have {shown}"
    longest = max((stop for stop in range(1, len(literal.words)) if has_phrase(literal.words[:stop], parts)), default=0)
    if not longest:
        return f"the text does not have the phrase {shown}"
    begun = " ".join(literal.words[:longest])
    return f"the text does not have the phrase {shown}: {literal.words[longest]!r} does not follow {begun!r} in it"


def describe_words(words: list[str]) -> str:
    """Say which words a text has, each once."""
    words = list(dict.fromkeys(words))
    shown = ", ".join(words[:_SHOWN_WORDS]) + (", ..." if len(words) > _SHOWN_WORDS else "")
    return f"it has: {shown}" if words else "it has no word"


def show_words(words: list[str]) -> str:
    """Return the first of some words in quotes."""
    return ", ".join([f"'{word}'" for word in words[:_SHOWN_WORDS]] + (["..."] if len(words) > _SHOWN_WORDS else []))
