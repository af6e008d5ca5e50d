"""Keyword expressions to conjunctive normal form: words, AND, OR, parentheses, quotes.

    expression = conjunction { "OR" conjunction }
    conjunction = part { ["AND"] part }
    part = word | quoted words | "(" expression ")"

Words side by side mean AND; AND binds more tightly than OR. A word that the tokenizer cuts in two means both.
The parser keeps its own stacks, so that nesting is bounded by memory and not by Python's recursion.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pststream.errors import UsageError
from pststream.text.clauses import Clauses, TooManyClauses, both, either
from pststream.text.words import tokenize

MAX_CHARACTERS = 100_000

_TOKEN = re.compile(r"""[()]|"[^"]*"?|[^\s()"]+""")
_OPERATORS = {"AND", "OR"}
_STARTS_PART = "a word, a quoted text or ("


class ExpressionError(UsageError):
    """An expression that cannot be read, or is too large.

    `reason` says what is wrong, `position` at which character (from 1), `expected` what would be right there.
    """

    def __init__(self, reason: str, position: int, expected: str = "") -> None:
        wanted = f"; expected {expected}" if expected else ""
        super().__init__(f"at character {position}: {reason}{wanted}")
        self.reason = reason
        self.position = position
        self.expected = expected


class _Token(NamedTuple):
    kind: str
    position: int
    words: tuple[str, ...] = ()


def parse_keywords(
    expression: str, *, max_clauses: int = 64, max_terms: int = 512, max_words: int = 1000
) -> list[list[str]]:
    """The clauses of `expression`: each a list of words of which a text must have one.

    Clauses that another one implies are left out; words are sorted inside a clause, clauses by length, then words,
    so that equivalent expressions give equal lists.

    Raises ExpressionError where the expression cannot be read, has more than `max_words` words, where it or a part
    of it needs more than `max_clauses` clauses, or where its clauses have more than `max_terms` words in all. The
    bound is met before the work is done.
    """
    parser = _Parser(max_clauses)
    for token in _counted(_tokens(expression), max_words):
        parser.take(token)
    clauses = parser.finish(len(expression) + 1)
    literals = sum(clause.bit_count() for clause in clauses)
    if literals > max_terms:
        reason = f"its {len(clauses)} clauses have {literals} words in all, more than {max_terms}"
        raise ExpressionError(reason, 1, "fewer alternatives")
    return parser.spelled(clauses)


def evaluate(clauses: Iterable[Iterable[str]], words: set[str]) -> bool:
    """Whether a text with these words satisfies every clause."""
    return all(any(word in words for word in clause) for clause in clauses)


def _tokens(expression: str) -> Iterator[_Token]:
    if len(expression) > MAX_CHARACTERS:
        reason = f"it has {len(expression)} characters, more than {MAX_CHARACTERS}"
        raise ExpressionError(reason, MAX_CHARACTERS + 1, "a shorter expression")
    for found in _TOKEN.finditer(expression):
        text, position = found.group(), found.start() + 1
        if text in "()" or text in _OPERATORS:
            yield _Token(text, position)
            continue
        if text[0] == '"' and (len(text) == 1 or text[-1] != '"'):
            raise ExpressionError("the quoted text that starts here never ends", position, 'a closing "')
        words = tuple(dict.fromkeys(tokenize(text)))
        if not words:
            reason = f"{_shown(text)} has no letter and no digit"
            raise ExpressionError(reason, position, "a word")
        yield _Token("word", position, words)


def _counted(tokens: Iterator[_Token], max_words: int) -> Iterator[_Token]:
    words = 0
    for token in tokens:
        words += len(token.words)
        if words > max_words:
            reason = f"it has more than {max_words} words"
            raise ExpressionError(reason, token.position, "a shorter expression")
        yield token


class _Parser:
    """Operator-precedence parsing; operands are clauses as sets of bits, a bit for each distinct word."""

    def __init__(self, max_clauses: int) -> None:
        self._max_clauses = max_clauses
        self._bits: dict[str, int] = {}
        self._operands: list[Clauses] = []
        self._operators: list[_Token] = []
        self._last: _Token | None = None

    def take(self, token: _Token) -> None:
        """Read the next token."""
        after_part = self._last is not None and self._last.kind in ("word", ")")
        if token.kind in ("word", "(") and after_part:
            self._push(_Token("AND", token.position))
        elif token.kind not in ("word", "(") and not after_part:
            raise self._unexpected(token.kind, token.position)
        if token.kind == "word":
            if len(token.words) > self._max_clauses:
                raise self._too_many(token.position)
            self._operands.append([1 << self._bits.setdefault(w, len(self._bits)) for w in token.words])
        elif token.kind == "(":
            self._operators.append(token)
        elif token.kind == ")":
            self._close(token)
        else:
            self._push(token)
        self._last = token

    def finish(self, end: int) -> Clauses:
        """The clauses of all that was read; `end` is the position after the last character."""
        if self._last is None or self._last.kind not in ("word", ")"):
            raise self._unexpected("the end", end)
        while self._operators:
            if self._operators[-1].kind == "(":
                opened = self._operators[-1].position
                raise ExpressionError("the parenthesis that opens here is never closed", opened, ")")
            self._apply()
        return self._operands[0]

    def spelled(self, clauses: Clauses) -> list[list[str]]:
        """Clauses as sorted lists of words."""
        words = list(self._bits)
        lists = [sorted(word for bit, word in enumerate(words) if clause >> bit & 1) for clause in clauses]
        return sorted(lists, key=lambda clause: (len(clause), clause))

    def _push(self, operator: _Token) -> None:
        while self._operators and self._operators[-1].kind in ("AND", operator.kind):
            self._apply()
        self._operators.append(operator)

    def _close(self, token: _Token) -> None:
        while self._operators and self._operators[-1].kind != "(":
            self._apply()
        if not self._operators:
            raise ExpressionError("this ) closes nothing", token.position, "a word, AND, OR or the end")
        self._operators.pop()

    def _apply(self) -> None:
        operator = self._operators.pop()
        right, left = self._operands.pop(), self._operands.pop()
        combine = both if operator.kind == "AND" else either
        try:
            self._operands.append(combine(left, right, self._max_clauses))
        except TooManyClauses:
            raise self._too_many(operator.position) from None

    def _too_many(self, position: int) -> ExpressionError:
        reason = f"it needs more than {self._max_clauses} clauses (alternatives joined by AND)"
        return ExpressionError(reason, position, "a simpler expression")

    def _unexpected(self, found: str, position: int) -> ExpressionError:
        if self._last is None and found == "the end":
            return ExpressionError("there is no word", position, _STARTS_PART)
        after = f" after {self._last.kind}" if self._last is not None else ""
        hint = f'; the word itself is written "{found.lower()}"' if found in _OPERATORS else ""
        return ExpressionError(f"found {found}{after}", position, _STARTS_PART + hint)


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
