"""Split texts into words, and parse and evaluate keyword expressions as trees: the part of `twin.py` on words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regex as re

from tests.oracles import text
from tests.oracles.text import words as words_of
from tests.oracles.twin_rows import BadRow

STOP_WORDS = Path(__file__).parents[2] / "pststream" / "queries" / "text" / "stop-words.json"

Tree = tuple[str, Any]


def parse(expression: str) -> Tree:
    """Parse a keyword expression to a tree: ("words", [w, ...]) side by side, ("every", None), ("not", tree),
    ("and", [trees]) or ("or", [trees]).
    """
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
            yield (word, word) if word in ("AND", "OR", "NOT", "*") else ("word", word)
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
    while tokens and tokens[0][0] in ("AND", "NOT", "(", "word"):
        part, tokens = _factor(tokens[1:] if tokens[0][0] == "AND" else tokens)
        parts.append(part)
    return ("and", parts), tokens


def _factor(tokens: list[tuple[str, str]]) -> tuple[Tree, list[tuple[str, str]]]:
    if not tokens:
        raise BadRow("a word is missing at the end")
    kind, value = tokens[0]
    if kind == "NOT" and tokens[1:2] != [("NOT", "NOT")]:
        tree, tokens = _factor(tokens[1:])
        return ("not", tree), tokens
    if kind == "*":
        return ("every", None), tokens[1:]
    if kind == "(":
        tree, tokens = _alternatives(tokens[1:])
        if not tokens or tokens[0][0] != ")":
            raise BadRow("a parenthesis is not closed")
        return tree, tokens[1:]
    if kind == "word":
        pieces = words_of(value)
        if not pieces:
            raise BadRow(f"{value!r} has no letter and no digit")
        return ("words", pieces), tokens[1:]
    raise BadRow(f"unexpected {value}")


Parts = tuple[tuple[str, ...], ...]
"""The words of each part of a text in order; a text that is joined from columns has a part for each."""


def parts_of(*texts: str) -> Parts:
    """Split the parts of a text into words."""
    return tuple(tuple(words_of(text)) for text in texts)


def reported_words(parts: Parts, stop_words: Any = None) -> set[str]:
    """Return the words that count in reports, each character of a script without blanks with the one that follows it.

    stop_words   the field of the request: a code, or a list of which each entry is one word or one such pair
    """
    counted = set[str]()
    for words in parts:
        counted |= {word for word in words if not _is_of_a_script_without_blanks(word)}
        for word, following in zip(words, words[1:]):
            if _is_of_a_script_without_blanks(word) and _is_of_a_script_without_blanks(following):
                counted.add(word + following)
    if isinstance(stop_words, str):
        stop_words = json.loads(STOP_WORDS.read_text("utf-8"))[stop_words]["words"].split()
    return counted - {"".join(words_of(word)) for word in stop_words or ()}


def _is_of_a_script_without_blanks(word: str) -> bool:
    return re.match(text.WITHOUT_BLANKS, word) is not None and not text.is_mark(word[0])


def holds(tree: Tree, parts: Parts) -> bool:
    """Whether a text satisfies the expression."""
    kind, inside = tree
    if kind == "words":
        wanted = tuple(inside)
        return any(words[at : at + len(wanted)] == wanted for words in parts for at in range(len(words)))
    if kind == "not":
        return not holds(inside, parts)
    if kind == "and":
        return all(holds(part, parts) for part in inside)
    return kind == "every" or any(holds(part, parts) for part in inside)


def words_that_count(tree: Tree, parts: Parts) -> tuple[set[str], set[str]]:
    """Return the words of a list of words and phrases, and those that count for a text: of a phrase, if it occurs."""
    wanted, unwanted = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for kind, inside in _items(tree):
        (unwanted if kind == "not" else wanted).append(tuple(inside[1][0][1]) if kind == "not" else tuple(inside))
    counting = set[str]()
    if not any(holds(("words", words), parts) for words in unwanted):
        counting.update(word for words in wanted if holds(("words", words), parts) for word in words)
    return {word for words in wanted for word in words}, counting


def _items(tree: Tree) -> Iterator[Tree]:
    kind, inside = tree
    if kind in ("and", "or"):
        for part in inside:
            yield from _items(part)
    else:
        yield tree if kind == "words" else ("not", ("and", [inside]))
