"""Split texts into words, and parse and evaluate keyword expressions as trees: the part of `twin.py` on words."""

from collections.abc import Iterator
from typing import Any

from tests.oracles.text import words as words_of
from tests.oracles.twin_rows import BadRow

Tree = tuple[str, Any]


def parse(expression: str) -> Tree:
    """Parse a keyword expression to a tree: ("word", w), ("and", [trees]) or ("or", [trees])."""
    tokens = list(_tokens(expression))
    tree, rest = _alternatives(tokens)
    if rest:
        raise BadRow(f"unexpected {rest[0]}")
    return tree


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        c = expression[at]
        if c.isspace():
            at += 1
        elif c in "()":
            yield c, c
            at += 1
        elif c == '"':
            end = expression.find('"', at + 1)
            if end < 0:
                raise BadRow("quote without its end")
            yield "word", expression[at + 1 : end]
            at = end + 1
        else:
            end = at
            while end < len(expression) and not expression[end].isspace() and expression[end] not in '()"':
                end += 1
            word = expression[at:end]
            yield (word, word) if word in ("AND", "OR") else ("word", word)
            at = end


def _alternatives(tokens: list[tuple[str, str]]) -> tuple[Tree, list[tuple[str, str]]]:
    first, tokens = _conjunction(tokens)
    branches = [first]
    while tokens and tokens[0][0] == "OR":
        branch, tokens = _conjunction(tokens[1:])
        branches.append(branch)
    return ("or", branches), tokens


def _conjunction(tokens: list[tuple[str, str]]) -> tuple[Tree, list[tuple[str, str]]]:
    first, tokens = _factor(tokens)
    parts = [first]
    while tokens and tokens[0][0] in ("AND", "(", "word"):
        part, tokens = _factor(tokens[1:] if tokens[0][0] == "AND" else tokens)
        parts.append(part)
    return ("and", parts), tokens


def _factor(tokens: list[tuple[str, str]]) -> tuple[Tree, list[tuple[str, str]]]:
    if not tokens:
        raise BadRow("a word is missing at the end")
    kind, value = tokens[0]
    if kind == "(":
        tree, tokens = _alternatives(tokens[1:])
        if not tokens or tokens[0][0] != ")":
            raise BadRow("a parenthesis is not closed")
        return tree, tokens[1:]
    if kind == "word":
        pieces = words_of(value)
        if not pieces:
            raise BadRow(f"{value!r} has no letter and no digit")
        return ("and", [("word", piece) for piece in pieces]), tokens[1:]
    raise BadRow(f"unexpected {value}")


def holds(tree: Tree, words: frozenset[str]) -> bool:
    """Whether a text with these words satisfies the expression."""
    kind, inside = tree
    if kind == "word":
        return inside in words
    if kind == "and":
        return all(holds(part, words) for part in inside)
    return any(holds(part, words) for part in inside)
