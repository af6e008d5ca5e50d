"""Keyword expressions of random tokens are parsed as by the slow twin, or refused with a position, in bounded time."""

import random

from pststream.base.errors import UsageError
from pststream.queries.text.expression import ExpressionError, parse_keywords
from tests.fuzz.cases import cases, trying
from tests.fuzz.mutations import TOKENS
from tests.fuzz.values import TEXTS
from tests.oracles import twin_expressions, twin_rows
from tests.worlds import WORDS, some_expression

PARTS = ("(", ")", " AND ", " OR ", " ", '"', '""', "and", "Or", "NOT", "-", "*", "\n", "\u2028", "(" * 200, ")" * 200)
SHORT = 400
"""Length limit for the slow twin, which is recursive."""


def test_expressions() -> None:
    read = refused = 0
    for number, rnd in cases("expressions", 2500):
        expression = _expression(rnd)
        with trying(("expression", number, expression[:200])):
            clauses = _clauses(expression)
            read, refused = read + bool(clauses), refused + (not clauses)
            if len(expression) < SHORT and expression.count("(") < 50:
                _same_as_the_tree(rnd, expression, clauses)
    assert read and refused


def _expression(rnd: random.Random) -> str:
    """Make an expression of a world with parts inserted, removed or repeated."""
    text = some_expression(rnd, rnd.choice((1, 2, 3)))
    for _ in range(rnd.choice((0, 1, 1, 2, 4))):
        low = rnd.randint(0, len(text))
        high = rnd.randint(low, len(text))
        foreign = rnd.choice(TOKENS).decode("utf-8", "surrogateescape")
        part = rnd.choice((rnd.choice(PARTS), rnd.choice(WORDS), rnd.choice(TEXTS), foreign, text[low:high] * 9))
        text = text[:low] + part + text[rnd.choice((low, low, high)) :]
    return text


def _clauses(expression: str) -> list[list[str]]:
    """Parse the clauses; return none if the expression is refused with a position."""
    try:
        clauses = parse_keywords(expression)
    except ExpressionError as error:
        assert isinstance(error, UsageError) and error.reason
        assert 1 <= error.position <= len(expression) + 1
        return []
    assert clauses and all(clauses) and len(clauses) <= 64
    assert clauses == sorted((sorted(set(clause)) for clause in clauses), key=lambda clause: (len(clause), clause))
    return clauses


def _same_as_the_tree(rnd: random.Random, expression: str, clauses: list[list[str]]) -> None:
    """Assert that accepted expressions mean the same to the slow twin; it cannot read refused ones."""
    try:
        tree = twin_expressions.parse(expression)
    except twin_rows.BadRow:
        assert not clauses
        return
    known = sorted({word for clause in clauses for word in clause})
    for _ in range(4 if clauses else 0):
        words = {word for word in known if rnd.randrange(2)}
        assert all(map(words.intersection, clauses)) == twin_expressions.holds(tree, frozenset(words))
