"""Parse the keywords of a request into clauses of term ids (CNF), and explain which clauses a text does not satisfy."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import Column
from pststream.queries.kinds.contract import FieldError, ObjectRows, RequestLimits, required_value
from pststream.queries.raw_fields import ParsedColumns, RawField
from pststream.queries.text.expression import ExpressionError, parse_keywords
from pststream.queries.text.words import tokenize

KEYWORD_COLUMNS = (
    Column("keywords", pa.string(), "the expression as written; null: every object (`*`)", True),
    Column("clauses", pa.list_(pa.list_(pa.int64())), "insert: conjunctive normal form, term ids", True),
)

STAR = "*"
"""The keywords of requests and questions that every object satisfies."""

EVERY_OBJECT_TEXT = "(every object)"
"""What commands and pages show in place of the keywords of a subscription without them."""

MAX_LEVELS = 100
"""Parentheses of a new expression that may be open at once."""

MAX_PAIRS = 10_000
"""Clauses that the conversion of a new expression may combine: some milliseconds of work. See `clauses_of_shape`."""

_LONGEST_CACHED = 1_000
_SHOWN_WORDS = 30
_SHOWN_CLAUSES = 3


def parse_keyword_field(record: Mapping[str, Any], limits: RequestLimits) -> tuple[str, list[list[int]]]:
    """Return the expression of a request and its clauses, term ids ascending inside a clause; raises FieldError."""
    keywords = required_value(record, "keywords")
    # Readers give NaN as a subclass of str.
    if type(keywords) is not str:
        raise FieldError("keywords", "not_a_value", keywords, 'keywords are one text, such as "fire OR smoke"')
    parse = _clauses if len(keywords) <= _LONGEST_CACHED else _clauses.__wrapped__
    clauses = parse(keywords, limits.max_expression_words)
    if isinstance(clauses, str):
        raise FieldError("keywords", "unreadable_expression", keywords, clauses)
    return keywords, clauses


def parse_keywords_or_every(record: Mapping[str, Any], limits: RequestLimits) -> tuple[str | None, list[list[int]]]:
    """Return what `parse_keyword_field` does; of STAR, None and the clause that every object satisfies."""
    keywords = record.get("keywords")
    if keywords is None or keywords == "":
        raise FieldError("keywords", "missing", record, 'no keywords are given; say "keywords": "*" for every object')
    if is_every_object(keywords):
        return None, [[names.EVERY_OBJECT]]
    return parse_keyword_field(record, limits)


def is_every_object(keywords: Any) -> bool:
    """Return whether the value of the field `keywords` is STAR alone."""
    return isinstance(keywords, str) and keywords.strip() == STAR


def parse_keyword_column(field: RawField, limits: RequestLimits) -> ParsedColumns:
    """Parse the expressions of many requests into KEYWORD_COLUMNS, as `parse_keywords_or_every` does each."""
    from pststream.queries.text.tokenizer import parse_expressions  # loads the kernels

    keywords = field.texts()
    clauses, parsed = parse_expressions(keywords, limits.max_expression_words, MAX_PAIRS)
    # Expressions beyond ASCII, or with quotes, one by one; those that are not valid stay unparsed.
    most = limits.max_expression_words
    every = pc.fill_null(pc.equal(keywords, STAR), False).to_numpy(zero_copy_only=False)
    if every.any():
        clause = pa.array([[[names.EVERY_OBJECT]]], clauses.type)
        index = np.where(every, len(keywords), np.arange(len(keywords)))
        clauses, parsed = pa.concat_arrays([clauses, clause]).take(pa.array(index)), parsed | every
        keywords = pc.if_else(pa.array(every), pa.scalar(None, pa.string()), keywords)
    left = [row for row in np.flatnonzero(~parsed).tolist() if 0 < len(keywords[row].as_py() or "") <= _LONGEST_CACHED]
    read = {row: one for row in left if not isinstance(one := _clauses(keywords[row].as_py(), most), str)}
    if read:
        rows, order = np.array(list(read)), np.arange(len(keywords))
        order[rows] = len(keywords) + np.arange(len(rows))
        clauses = pa.concat_arrays([clauses, pa.array(list(read.values()), clauses.type)]).take(pa.array(order))
        parsed[rows] = True
    return ParsedColumns({"keywords": keywords, "clauses": clauses}, parsed)


@lru_cache(maxsize=1 << 14)
def _clauses(keywords: str, max_words: int) -> list[list[int]] | str:
    """Return the clauses as term ids, or the error as a text. Cached, since many subscriptions have equal keywords."""
    try:
        clauses = parse_keywords(keywords, max_words=max_words, max_levels=MAX_LEVELS, max_pairs=MAX_PAIRS)
        return [sorted({term_of(word) for word in clause}) for clause in clauses]
    except ExpressionError as error:
        return str(error)


def term_of(word: str) -> int:
    """Return the term id of a word."""
    from pststream.queries.text.tokenizer import term_id  # loads the kernels

    return term_id(word)


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
    """Return all words of an expression."""
    if keywords is None:
        return frozenset()
    return frozenset(word for clause in parse_keywords(keywords) for word in clause)


def words_by_term(keywords: str | None) -> dict[int, str]:
    """Return all words of an expression by their term ids; without one, a text for the term of every object."""
    if keywords is None:
        return {names.EVERY_OBJECT: EVERY_OBJECT_TEXT}
    return {term_of(word): word for word in words_of_keywords(keywords)}


def find_clause_fault(keywords: str | None, clauses: tuple[tuple[int, ...], ...]) -> str | None:
    """Say that stored clauses are not those of the expression; None if they are, in any order."""
    if keywords is None:
        parsed = [[names.EVERY_OBJECT]]
    else:
        parsed = sorted(sorted({term_of(word) for word in clause}) for clause in parse_keywords(keywords))
    if parsed == sorted(sorted(clause) for clause in clauses):
        return None
    return "the subscription's stored clauses are not those of its keywords"


def satisfy_keywords(keywords: str | None, objects: ObjectRows) -> np.ndarray:
    """Return which objects have a word of each clause of an expression, without the kernels: bool[n]; None: all."""
    satisfied = np.ones(len(objects.key), bool)
    for clause in parse_keywords(keywords) if keywords is not None else []:
        satisfied &= objects.have_any([term_of(word) for word in clause])
    return satisfied


def explain_missing_words(keywords: str | None, text: str) -> str | None:
    """Explain why a text does not satisfy an expression, in a sentence; None if it does, as every text without one."""
    if keywords is None:
        return None
    words = tokenize(text)
    missing = [clause for clause in parse_keywords(keywords) if not set(words).intersection(clause)]
    if not missing:
        return None
    shown = [("any of " if len(clause) > 1 else "") + show_words(clause) for clause in missing[:_SHOWN_CLAUSES]]
    wanted, left = "; nor ".join(shown), len(missing) - _SHOWN_CLAUSES
    more = f" (and {left} more clause{'s' if left > 1 else ''})" if left > 0 else ""
    return f"the text does not have {wanted}{more}, which {keywords[:200]!r} asks for; {describe_words(words)}"


def describe_words(words: list[str]) -> str:
    """Say which words a text has, each once."""
    words = list(dict.fromkeys(words))
    shown = ", ".join(words[:_SHOWN_WORDS]) + (", ..." if len(words) > _SHOWN_WORDS else "")
    return f"it has: {shown}" if words else "it has no word"


def show_words(words: list[str]) -> str:
    """Return the first of some words in quotes."""
    return ", ".join([f"'{word}'" for word in words[:_SHOWN_WORDS]] + (["..."] if len(words) > _SHOWN_WORDS else []))
