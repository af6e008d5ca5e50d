"""Parse the tokens of a keyword expression, with numbers in place of words, into CNF clauses, and cache the result.

The parser works by operator precedence.

The result is a list of clauses: each an OR of words, all of which must hold. In a shape, numbers stand for the words,
so that expressions of equal shape share a cache entry.

The parser has stacks of its own, so that nesting is bounded by memory and not by Python's recursion limit.
"""

import sys
from functools import lru_cache

from pststream.queries.text.normal_form import Clauses, TooManyClauses, join_and, join_or

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
        try:
            self._operands.append((join_and if operator == "AND" else join_or)(left, right, self._max_clauses))
        except TooManyClauses:
            raise self._too_many(at) from None

    def _too_many(self, at: int) -> ShapeError:
        reason = f"it needs more than {self._max_clauses} clauses (groups of OR alternatives, joined by AND)"
        return ShapeError(reason, at, "a simpler expression")

    def _unexpected(self, token: str, at: int) -> ShapeError:
        if not self._shape:
            return ShapeError("there is no word", 0, _STARTS_PART)
        after = f" after {self._shape[at - 1]}" if at > 0 else ""
        hint = f'; as a word it is written "{token}" in quotes' if token in OPERATORS else ""
        return ShapeError(f"found {token}{after}", at, _STARTS_PART + hint)
