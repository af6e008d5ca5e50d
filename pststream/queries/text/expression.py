"""Parse keyword expressions (words, AND, OR, parentheses, quotes) into clauses: an AND of ORs.

    expression = conjunction { "OR" conjunction }
    conjunction = part { ["AND"] part }
    part = word | quoted words | "(" expression ")"

Adjacent words mean AND; AND binds more tightly than OR. A word that the tokenizer splits in two means both words. What
other languages take for an operator (`-decaf`, `coff*`, `text:coffee`) is an error, and no word.

An expression is first converted to a shape, in which numbers replace its distinct words. Few shapes are in use, so the
clauses of a shape are cached. The parser works by operator precedence, with stacks of its own, so that nesting is
bounded by memory and not by Python's recursion limit.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from pststream.base.errors import UsageError
from pststream.queries.text.words import tokenize

# Clauses

Clauses = list[int]
"""Each clause has a bit for each of its words."""


def minimal(clauses: Iterable[int], limit: int) -> Clauses | None:
    """Drop the clauses that contain another clause; return None once more than `limit` remain.

    Clauses are visited by size. A clause that contains none of the clauses kept so far is in the result, so the work is
    bounded by `limit` times the number of clauses.
    """
    kept: Clauses = []
    for clause in sorted(clauses, key=int.bit_count):
        if any(clause & other == other for other in kept):
            continue
        if len(kept) == limit:
            return None
        kept.append(clause)
    return kept


# Shapes

Shape = tuple[str | tuple[int, ...], ...]
"""Tokens of an expression: `(`, `)`, `AND`, `OR`, or the numbers of adjacent words."""

OPERATORS = ("AND", "OR")
SYMBOLS = frozenset({"(", ")", *OPERATORS})

_STARTS_PART = "a word, a quoted text or ("
_MAX_CACHED_TOKENS = 64

NO_LIMIT = sys.maxsize


class ShapeError(Exception):
    """An error in a shape: the reason, the token (from 0), and what is expected there."""

    def __init__(self, reason: str, token: int, expected: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token
        self.expected = expected


def clauses_of_shape(shape: Shape, max_clauses: int, max_pairs: int) -> list[list[int]]:
    """Return the clauses of a shape as lists of numbers, ascending; raises ShapeError.

    No part may need more than `max_clauses` clauses; redundant clauses do not count. All operators together may combine
    at most `max_pairs` clauses, or pairs of clauses, each of which takes up to `max_clauses` comparisons.
    """
    return (_parse_cached if len(shape) <= _MAX_CACHED_TOKENS else _parse)(shape, max_clauses, max_pairs)


def _parse(shape: Shape, max_clauses: int, max_pairs: int) -> list[list[int]]:
    parser = _Parser(shape, max_clauses, max_pairs)
    for at in range(len(shape)):
        parser.read_token(at)
    return [[bit for bit in range(clause.bit_length()) if clause >> bit & 1] for clause in parser.finish()]


_parse_cached = lru_cache(maxsize=1 << 12)(_parse)


class _Parser:
    """Operands are clauses as sets of bits; each operator has the number of its token."""

    def __init__(self, shape: Shape, max_clauses: int, max_pairs: int) -> None:
        self._shape = shape
        self._max_clauses = max_clauses
        self._pairs_left = max_pairs
        self._operands: list[Clauses] = []
        self._operators: list[tuple[str, int]] = []

    def read_token(self, at: int) -> None:
        """Read the token number `at`."""
        token = self._shape[at]
        after_part = self._ends_part(at - 1)
        if isinstance(token, tuple) or token == "(":
            if after_part:
                self._push("AND", at)
            if isinstance(token, tuple):
                self._operands.append(self._adjacent_words(token, at))
            else:
                self._operators.append((token, at))
        elif not after_part:
            raise self._unexpected(token, at)
        elif token == ")":
            self._close(at)
        else:
            self._push(token, at)

    def finish(self) -> Clauses:
        """Return the clauses of all tokens read."""
        if not self._ends_part(len(self._shape) - 1):
            raise self._unexpected("the end", len(self._shape))
        while self._operators:
            if self._operators[-1][0] == "(":
                raise ShapeError("the parenthesis that opens here is never closed", self._operators[-1][1], ")")
            self._apply()
        return self._operands[0]

    def _ends_part(self, at: int) -> bool:
        return at >= 0 and (self._shape[at] == ")" or isinstance(self._shape[at], tuple))

    def _adjacent_words(self, numbers: tuple[int, ...], at: int) -> Clauses:
        clauses = [1 << number for number in dict.fromkeys(numbers)]
        if len(clauses) > self._max_clauses:
            raise self._too_many(at)
        return clauses

    def _push(self, operator: str, at: int) -> None:
        while self._operators and self._operators[-1][0] in ("AND", operator):
            self._apply()
        self._operators.append((operator, at))

    def _close(self, at: int) -> None:
        while self._operators and self._operators[-1][0] != "(":
            self._apply()
        if not self._operators:
            raise ShapeError("this ) closes nothing", at, "a word, AND, OR or the end")
        self._operators.pop()

    def _apply(self) -> None:
        operator, at = self._operators.pop()
        right, left = self._operands.pop(), self._operands.pop()
        self._pairs_left -= len(left) + len(right) if operator == "AND" else len(left) * len(right)
        if self._pairs_left < 0:
            raise ShapeError("it takes too many steps to convert to an AND of ORs", at, "a simpler expression")
        joined = {*left, *right} if operator == "AND" else {a | b for a in left for b in right}
        clauses = minimal(joined, self._max_clauses)
        if clauses is None:
            raise self._too_many(at)
        self._operands.append(clauses)

    def _too_many(self, at: int) -> ShapeError:
        reason = f"it needs more than {self._max_clauses} clauses (groups of OR alternatives, joined by AND)"
        return ShapeError(reason, at, "a simpler expression")

    def _unexpected(self, token: str, at: int) -> ShapeError:
        if not self._shape:
            return ShapeError("there is no word", 0, _STARTS_PART)
        after = f" after {self._shape[at - 1]}" if at > 0 else ""
        operator = next((one for one in (token, self._shape[at - 1]) if one in OPERATORS), "")
        hint = f'; as a word it is written "{operator}" in quotes' if operator else ""
        return ShapeError(f"found {token}{after}", at, _STARTS_PART + hint)


MAX_CHARACTERS = 100_000
MAX_CLAUSES = 64
MAX_TERMS = 512
MAX_WORDS = 1_000

_QUOTES = {'"': '"', "“": "“”", "”": "“”", "„": "“”", "‟": "“”", "«": "»", "»": "«", "＂": "＂"}
"""The signs that close each opening quote."""

_QUOTED = "|".join(f"{opens}[^{closes}]*[{closes}]?" for opens, closes in _QUOTES.items())
_TOKEN = re.compile(rf"[()（）]|{_QUOTED}|[^\s()（）{''.join(_QUOTES)}]+")
_PARENTHESES = {"（": "(", "）": ")"}
_OPENING = frozenset({"(", "（", *_QUOTES})

_FOREIGN_OPERATORS = (
    (re.compile(r"NOT"), "NOT is not possible"),
    (re.compile(r"[-!‐‑‒–—−]+(\w.*|\()"), "a leading sign does not exclude words"),
    (re.compile(r"\++([^\W\d].*|\()"), "a leading + has no meaning, all words joined by AND are required"),
    (re.compile(r".*\w\*.*|\*\w.*"), "* does not stand for letters, words are found as a whole"),
    (re.compile(r".*[^~]~|.*~\d+(\.\d+)?"), "~ does not find similar words"),
    (re.compile(r".*\^\d+(\.\d+)?"), "^ gives no word more weight"),
    (re.compile(r".*(\|\||&&|\w\|\w).*"), "operators are written AND and OR"),
    (re.compile(r"[^\W\d]+:([^\W\d].*|\()"), "words are not searched in a named field"),
)
"""Tokens, with a quote or parenthesis that follows as `(`, that other languages of expressions read as an operator, and
what they do not mean here.
"""


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


def _read(expression: str, max_words: int) -> tuple[Shape, list[str]]:
    """Return the shape of an expression, and the words that its numbers stand for."""
    if len(expression) > MAX_CHARACTERS:
        reason = f"it has {len(expression)} characters, more than {MAX_CHARACTERS}"
        raise ExpressionError(reason, MAX_CHARACTERS + 1, "a shorter expression")
    numbers: dict[str, int] = {}
    shape: list[str | tuple[int, ...]] = []
    count = 0
    for at, match in enumerate(_TOKEN.finditer(expression)):
        text = match[0]
        if (symbol := _PARENTHESES.get(text, text)) in SYMBOLS:
            shape.append(symbol)
            continue
        words = _words(text, at, "(" if expression[match.end() : match.end() + 1] in _OPENING else "")
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


def _words(text: str, at: int, follower: str) -> list[str]:
    closes = _QUOTES.get(text[0])
    if closes and (len(text) == 1 or text[-1] not in closes):
        raise ShapeError("the quote that opens here is never closed", at, f"a closing {closes[-1]}")
    foreign = None
    if not closes:
        forms = (text, text + follower)
        foreign = next((advice for form, advice in _FOREIGN_OPERATORS if any(map(form.fullmatch, forms))), None)
    if foreign:
        raise ShapeError(f"{_shown(text)}: {foreign}", at, "a word; in quotes these signs mean nothing")
    words = tokenize(text)
    if not words:
        raise ShapeError(f"{_shown(text)} has no letter and no digit", at, "a word")
    return words


REMARKS = SMALL, SIGNS = "small operator", "lost sign"
"""Kinds of remarks on an expression that is valid, but may mean something else than its author thinks."""

MAYBE_REMARKABLE = r"(^|\s)(and|or|not)(\s|$)|[#@%&^\p{Sc}\p{Sm}]"
"""A pattern (RE2) in each expression with a remark; \\p{Sc} and \\p{Sm} are signs of currency and of mathematics."""


def find_remarks(expression: str) -> dict[str, str]:
    """Return a sentence for each kind of remark on an expression: one is written in small letters like an operator, or
    has a sign, such as those of C++ and $T, that no word has.
    """
    remarks = {}
    tokens = _TOKEN.findall(expression)
    for text in tokens:
        if text in ("and", "or", "not") and len(tokens) > 1:
            remarks[SMALL] = f"{text} in small letters is a word, and no operator"
        elif any(sign in "#@%&^" or unicodedata.category(sign) in ("Sc", "Sm") for sign in text):
            remarks[SIGNS] = (
                f"{_shown(text)} is found as {_shown(' '.join(tokenize(text)))}: signs are no part of words"
            )
    return remarks


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _position(expression: str, token: int) -> int:
    """The position of a token's first character, from 1; after the last token, one beyond the end."""
    match = next(islice(_TOKEN.finditer(expression), token, None), None)
    return match.start() + 1 if match else len(expression) + 1
