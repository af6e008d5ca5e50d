"""Parse a keyword expression (words, AND, OR, parentheses, quotes) into conjunctive normal form: lists of words.

    expression = conjunction { "OR" conjunction }
    conjunction = part { ["AND"] part }
    part = word | quoted words | "(" expression ")"

Adjacent words mean AND; AND binds more tightly than OR. A word that the tokenizer splits in two means both words.

An expression is first converted to a shape, in which numbers replace its distinct words. Few shapes are in use, so the
clauses of a shape are cached (queries/text/expression_parser.py).
"""

import re
from collections.abc import Iterable
from itertools import islice

from pststream.base.errors import UsageError
from pststream.queries.text.expression_parser import NO_LIMIT, SYMBOLS, Shape, ShapeError, clauses_of_shape
from pststream.queries.text.words import tokenize

MAX_CHARACTERS = 100_000
MAX_CLAUSES = 64
MAX_TERMS = 512
MAX_WORDS = 1_000

_TOKEN = re.compile(r"""[()]|"[^"]*"?|[^\s()"]+""")


class ExpressionError(UsageError):
    """An expression that cannot be parsed, or is too large.

    `reason` describes the error, `position` is its character (from 1), `expected` what is expected there.
    """

    def __init__(self, reason: str, position: int, expected: str = "") -> None:
        wanted = f"; expected {expected}" if expected else ""
        super().__init__(f"at character {position}: {reason}{wanted}")
        self.reason = reason
        self.position = position
        self.expected = expected


def parse_keywords(
    expression: str,
    *,
    max_clauses: int = MAX_CLAUSES,
    max_terms: int = MAX_TERMS,
    max_words: int = MAX_WORDS,
    max_levels: int = NO_LIMIT,
    max_pairs: int = NO_LIMIT,
) -> list[list[str]]:
    """Parse an expression into clauses, which are lists of words: a text must have a word of each.

    Clauses that another clause implies are dropped. Words are sorted inside a clause, clauses by length, then by words,
    so that equivalent expressions give equal lists.

    Raises ExpressionError if the expression cannot be parsed, has more than `max_words` words or parentheses in more
    than `max_levels` levels, if it or a part of it needs more than `max_clauses` clauses, if its conversion combines
    more than `max_pairs` clauses (`clauses_of_shape`), or if its clauses have more than `max_terms` words in all. Each
    limit is checked before the work that it limits. The defaults are those of stored expressions, which stay valid when
    the limits of new ones change.
    """
    try:
        shape, words = _read(expression, max_words)
        _check_levels(shape, max_levels)
        numbers = clauses_of_shape(shape, max_clauses, max_pairs)
        clauses = [sorted([words[number] for number in clause]) for clause in numbers]
    except ShapeError as error:
        position = _position(expression, error.token)
        raise ExpressionError(error.reason, position, error.expected) from None
    literals = sum(map(len, clauses))
    if literals > max_terms:
        reason = f"its {len(clauses)} clauses have {literals} words in all, more than {max_terms}"
        raise ExpressionError(reason, 1, "fewer alternatives")
    return sorted(clauses, key=lambda clause: (len(clause), clause))


def evaluate(clauses: Iterable[Iterable[str]], words: set[str]) -> bool:
    """Return whether a text with these words satisfies every clause."""
    return all(any(word in words for word in clause) for clause in clauses)


def _read(expression: str, max_words: int) -> tuple[Shape, list[str]]:
    """Return the shape of an expression, and the words that its numbers stand for."""
    if len(expression) > MAX_CHARACTERS:
        reason = f"it has {len(expression)} characters, more than {MAX_CHARACTERS}"
        raise ExpressionError(reason, MAX_CHARACTERS + 1, "a shorter expression")
    numbers: dict[str, int] = {}
    shape: list[str | tuple[int, ...]] = []
    count = 0
    for at, text in enumerate(_TOKEN.findall(expression)):
        if text in SYMBOLS:
            shape.append(text)
            continue
        words = _words(text, at)
        count += len(words)
        if count > max_words:
            raise ShapeError(f"it has more than {max_words} words", at, "a shorter expression")
        shape.append(tuple([numbers.setdefault(word, len(numbers)) for word in words]))
    return tuple(shape), list(numbers)


def _check_levels(shape: Shape, max_levels: int) -> None:
    level = 0
    for at, token in enumerate(shape):
        level += (token == "(") - (token == ")")
        if level > max_levels:
            raise ShapeError(f"more than {max_levels} parentheses are open", at, "a simpler expression")


def _words(text: str, at: int) -> list[str]:
    if text[0] == '"' and (len(text) == 1 or text[-1] != '"'):
        raise ShapeError("the quote that opens here is never closed", at, 'a closing "')
    words = tokenize(text)
    if not words:
        shown = text if len(text) <= 40 else text[:39] + "…"
        raise ShapeError(f"{shown} has no letter and no digit", at, "a word")
    return words


def _position(expression: str, token: int) -> int:
    """The position of a token's first character, from 1; after the last token, one beyond the end."""
    match = next(islice(_TOKEN.finditer(expression), token, None), None)
    return match.start() + 1 if match else len(expression) + 1
