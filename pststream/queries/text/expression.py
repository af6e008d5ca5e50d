"""Parse keyword expressions (words, phrases, AND, OR, NOT, parentheses) into clauses: an AND of ORs.

    expression = conjunction { "OR" conjunction }
    conjunction = part { ["AND"] part }
    part = ["NOT"] (word | phrase | "(" expression ")")

NOT binds first, then AND, then OR; words side by side mean AND. A phrase is words in quotes, which a text must have
side by side in this order, or a word that the tokenizer splits (`f-16`). What other languages take for an operator
(`-decaf`, `coff*`, `text:coffee`) is an error, and no word.

An expression is first converted to a shape, in which numbers replace its distinct words. Few shapes are in use, so the
clauses of a shape are cached. The parser works by operator precedence, with stacks of its own, so that nesting is
bounded by memory and not by Python's recursion limit. NOT stands before its group, so whether a token is negated is
known when it is read, and De Morgan's laws are applied as it is: below a NOT, AND joins as OR does, and OR as AND.
"""

import re
import sys
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from pststream.base.errors import UsageError
from pststream.queries.text.words import tokenize

# Clauses

Clauses = list[int]
"""Each clause has a bit for each of its literals: 2 * a for the atom number a, 2 * a + 1 for its exclusion."""


class Literal(NamedTuple):
    """A word, or the words of a phrase, that a text has; `excluded`: that it does not have."""

    words: tuple[str, ...]
    excluded: bool = False


class Keywords(NamedTuple):
    """What a text satisfies if it satisfies an expression, and conversely.

    required   clauses of words: the text has a word of each. The index holds them
    verified   clauses with a phrase or an exclusion: a literal of each holds. They are tested at the texts that satisfy
               `required`
    """

    required: list[list[str]]
    verified: list[list[Literal]]


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

Atom = tuple[int, ...]
"""The numbers of the words of a phrase, or of one word."""

Shape = tuple[str | Atom, ...]
"""Tokens of an expression: `(`, `)`, `AND`, `OR`, `NOT`, or atoms."""

BINARY = ("AND", "OR")
OPERATORS = (*BINARY, "NOT")
SYMBOLS = frozenset({"(", ")", *OPERATORS})

_STARTS_PART = "a word, a quoted text, NOT or ("
_MAX_CACHED_TOKENS = 64

NO_LIMIT = sys.maxsize

UNREADABLE, NO_REQUIRED_WORD, NEVER_SATISFIED = "unreadable_expression", "no_required_word", "never_satisfied"
"""Kinds of errors: an expression that cannot be parsed or is too large, that a text without any of its words satisfies,
and that no text satisfies.
"""


class ShapeError(Exception):
    """An error in a shape: the reason, the token (from 0), what is expected there, and its kind."""

    def __init__(self, reason: str, token: int, expected: str, kind: str = UNREADABLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token
        self.expected = expected
        self.kind = kind


class ShapeClauses(NamedTuple):
    """The clauses of a shape, each a list of atoms with whether it is excluded; see `Keywords`."""

    required: list[list[int]]
    verified: list[list[tuple[Atom, bool]]]


def clauses_of_shape(shape: Shape, max_clauses: int, max_pairs: int) -> ShapeClauses:
    """Return the clauses of a shape, the numbers of words ascending; raises ShapeError.

    No part may need more than `max_clauses` clauses; redundant clauses do not count. All operators together may combine
    at most `max_pairs` clauses, or pairs of clauses, each of which takes up to `max_clauses` comparisons.
    """
    return (_parse_cached if len(shape) <= _MAX_CACHED_TOKENS else _parse)(shape, max_clauses, max_pairs)


def _parse(shape: Shape, max_clauses: int, max_pairs: int) -> ShapeClauses:
    parser = _Parser(shape, max_clauses, max_pairs)
    for at in range(len(shape)):
        parser.read_token(at)
    clauses, atoms = parser.finish(), list(parser.atoms)
    required = _find_required(clauses, atoms, max_clauses)
    if parser.has_exclusion and not _is_satisfiable(clauses + _implied(atoms), max_pairs):
        raise ShapeError("no text satisfies it", 0, "a condition that some text satisfies", NEVER_SATISFIED)
    verified = [[(atoms[bit >> 1], bool(bit & 1)) for bit in _bits(clause)] for clause in clauses]
    return ShapeClauses(
        list(map(_bits, required)),
        [clause for clause in verified if any(excluded or len(atom) > 1 for atom, excluded in clause)],
    )


_parse_cached = lru_cache(maxsize=1 << 12)(_parse)


def _bits(clause: int) -> list[int]:
    return [bit for bit in range(clause.bit_length()) if clause >> bit & 1]


def _find_required(clauses: Clauses, atoms: list[Atom], max_clauses: int) -> Clauses:
    """Return the clauses that the words of a text satisfy, as bits of the numbers of words.

    All words of a phrase that is a clause are required; of a phrase among alternatives, the first one is.
    """
    required = set[int]()
    for clause in clauses:
        literals = _bits(clause)
        if any(bit & 1 for bit in literals):
            continue
        if len(literals) == 1:
            required.update(1 << number for number in atoms[literals[0] >> 1])
        else:
            required.add(sum({1 << atoms[bit >> 1][0] for bit in literals}))
    if not required:
        reason = "a text without any of its words satisfies it"
        raise ShapeError(reason, 0, 'a word that each text must have, or "* AND NOT ..."', NO_REQUIRED_WORD)
    kept = minimal(required, max_clauses)
    if kept is None:
        raise ShapeError(_too_many(max_clauses), 0, "a simpler expression")
    return kept


def _implied(atoms: list[Atom]) -> Clauses:
    """Return the clauses that say: a text with a phrase has the words and phrases inside it."""
    numbers = {atom: number for number, atom in enumerate(atoms)}
    lengths = sorted(set(map(len, atoms)))
    implied = {
        1 << 2 * number + 1 | 1 << 2 * numbers[part]
        for atom, number in numbers.items()
        for length in lengths[: bisect_left(lengths, len(atom))]
        for start in range(len(atom) - length + 1)
        if (part := atom[start : start + length]) in numbers
    }
    return list(implied)


def _is_satisfiable(clauses: Clauses, max_steps: int) -> bool:
    """Return whether some values of the atoms satisfy all clauses, by the algorithm of Davis, Logemann and Loveland.

    Raises ShapeError after `max_steps` values that were tried; with many clauses each counts as several.
    """
    left = [clauses]
    while left:
        clauses = left.pop()
        while clauses:
            max_steps -= 1 + len(clauses) // 64
            if max_steps < 0:
                raise ShapeError(
                    "it takes too many steps to see whether a text satisfies it", 0, "a simpler expression"
                )
            shortest = min(clauses, key=int.bit_count)
            if not shortest:
                break
            literal = shortest & -shortest
            opposite = literal >> 1 if literal.bit_length() % 2 == 0 else literal << 1
            if shortest != literal:
                left.append([clause & ~literal for clause in clauses if not clause & opposite])
            clauses = [clause & ~opposite for clause in clauses if not clause & literal]
        else:
            return True
    return False


def _too_many(max_clauses: int) -> str:
    return f"it needs more than {max_clauses} clauses (groups of OR alternatives, joined by AND)"


class _Parser:
    """Operands are clauses as sets of bits; each operator has the number of its token, and whether it is negated."""

    def __init__(self, shape: Shape, max_clauses: int, max_pairs: int) -> None:
        self._shape = shape
        self._max_clauses = max_clauses
        self._pairs_left = max_pairs
        self._operands: list[Clauses] = []
        self._operators: list[tuple[str, int, bool]] = []
        self._is_negated = False
        self.atoms: dict[Atom, int] = {}
        self.has_exclusion = False

    def read_token(self, at: int) -> None:
        """Read the token number `at`."""
        token = self._shape[at]
        after_part = self._ends_part(at - 1)
        if isinstance(token, tuple) or token in ("(", "NOT"):
            if after_part:
                self._push("AND", at)
            if token == "NOT":
                if at and self._shape[at - 1] == "NOT":
                    raise self._unexpected(token, at)
            elif isinstance(token, tuple):
                self._operands.append([self._literal(token, at)])
            else:
                # The entry of a group has what holds outside of it.
                self._operators.append((token, at, self._is_negated))
                self._is_negated ^= self._follows_not(at)
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

    def _follows_not(self, at: int) -> bool:
        return at > 0 and self._shape[at - 1] == "NOT"

    def _literal(self, atom: Atom, at: int) -> int:
        if len(set(atom)) > self._max_clauses:
            raise ShapeError(_too_many(self._max_clauses), at, "a simpler expression")
        excluded = self._is_negated ^ self._follows_not(at)
        self.has_exclusion |= excluded
        return 1 << 2 * self.atoms.setdefault(atom, len(self.atoms)) + excluded

    def _push(self, operator: str, at: int) -> None:
        while self._operators and self._operators[-1][0] in ("AND", operator):
            self._apply()
        self._operators.append((operator, at, self._is_negated))

    def _close(self, at: int) -> None:
        while self._operators and self._operators[-1][0] != "(":
            self._apply()
        if not self._operators:
            raise ShapeError("this ) closes nothing", at, "a word, AND, OR or the end")
        self._is_negated = self._operators.pop()[2]

    def _apply(self) -> None:
        operator, at, is_negated = self._operators.pop()
        right, left = self._operands.pop(), self._operands.pop()
        joins_all = (operator == "AND") != is_negated
        self._pairs_left -= len(left) + len(right) if joins_all else len(left) * len(right)
        if self._pairs_left < 0:
            raise ShapeError("it takes too many steps to convert to an AND of ORs", at, "a simpler expression")
        joined = {*left, *right} if joins_all else {a | b for a in left for b in right}
        if self.has_exclusion:
            joined = {clause for clause in joined if not self._always_holds(clause)}
        clauses = minimal(joined, self._max_clauses)
        if clauses is None:
            raise ShapeError(_too_many(self._max_clauses), at, "a simpler expression")
        self._operands.append(clauses)

    def _always_holds(self, clause: int) -> bool:
        """Return whether a clause has an atom and its exclusion."""
        included = (4 ** len(self.atoms) - 1) // 3
        return clause & clause >> 1 & included != 0

    def _unexpected(self, token: str, at: int) -> ShapeError:
        if not self._shape:
            return ShapeError("there is no word", 0, _STARTS_PART)
        after = f" after {self._shape[at - 1]}" if at > 0 else ""
        operator = next((one for one in (token, self._shape[at - 1]) if one in OPERATORS), "")
        hint = f'; as a word it is written "{operator}" in quotes' if operator else ""
        return ShapeError(f"found {token}{after}", at, _STARTS_PART + hint)


EVERY = "*"
"""The word of an expression that every object satisfies. No text has it."""

MAX_CHARACTERS = 100_000
MAX_CLAUSES = 64
MAX_TERMS = 512
MAX_WORDS = 1_000

_QUOTES = {'"': '"', "“": "“”", "”": "“”", "„": "“”", "‟": "“”", "«": "»", "»": "«", "＂": '＂"'}
"""The signs that close each opening quote."""

_QUOTED = "|".join(f"{opens}[^{closes}]*[{closes}]?" for opens, closes in _QUOTES.items())
_TOKEN = re.compile(rf"[()（）]|{_QUOTED}|[^\s()（）{''.join(_QUOTES)}]+")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""The wide forms of ASCII, as keyboards for Chinese and Japanese type them, mean the same; so do words of them."""

_OPENING = frozenset({"(", "（", *_QUOTES})

_FOREIGN_OPERATORS = (
    (re.compile(r"[-!¬‐‑‒–—−]+(\w.*|\()"), "a leading sign does not exclude words, NOT does"),
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

    `reason` describes the error, `position` is its character (from 1), `expected` what is expected there; `kind` is
    UNREADABLE, NO_REQUIRED_WORD or NEVER_SATISFIED.
    """

    def __init__(self, reason: str, position: int, expected: str = "", kind: str = UNREADABLE) -> None:
        wanted = f"; expected {expected}" if expected else ""
        super().__init__(f"at character {position}: {reason}{wanted}")
        self.reason = reason
        self.position = position
        self.expected = expected
        self.kind = kind


def parse_keywords(
    expression: str,
    *,
    max_clauses: int = MAX_CLAUSES,
    max_terms: int = MAX_TERMS,
    max_words: int = MAX_WORDS,
    max_levels: int = NO_LIMIT,
    max_pairs: int = NO_LIMIT,
) -> Keywords:
    """Parse an expression into clauses.

    Clauses that another clause implies are dropped. Words are sorted inside a clause, clauses by length, then by words,
    so that equivalent expressions give equal lists.

    Raises ExpressionError if the expression cannot be parsed, has more than `max_words` words or parentheses in more
    than `max_levels` levels, if it or a part of it needs more than `max_clauses` clauses, if its conversion combines
    more than `max_pairs` clauses (`clauses_of_shape`), if its clauses have more than `max_terms` words and phrases in
    all, if a text without any of its words satisfies it, or if no text does. Each limit is checked before the work that
    it limits. The defaults are those of stored expressions, which stay valid when the limits of new ones change.
    """
    try:
        shape, words = _read(expression, max_words)
        _check_levels(shape, max_levels)
        clauses = clauses_of_shape(shape, max_clauses, max_pairs)
    except ShapeError as error:
        position = _position(expression, error.token)
        raise ExpressionError(error.reason, position, error.expected, error.kind) from None
    if EVERY in words and (clauses.required != [[words.index(EVERY)]] or _alternates(clauses, words.index(EVERY))):
        reason = f"{EVERY} stands for every object, alone or before AND NOT"
        position = next(match.start() for match in _TOKEN.finditer(expression) if match[0] == EVERY) + 1
        raise ExpressionError(reason, position, "words alone")
    literals = sum(map(len, clauses.required)) + sum(map(len, clauses.verified))
    if literals > max_terms:
        count = len(clauses.required) + len(clauses.verified)
        reason = f"its {count} clauses have {literals} words in all, more than {max_terms}"
        raise ExpressionError(reason, 1, "fewer alternatives")
    required = [sorted([words[number] for number in clause]) for clause in clauses.required]
    verified = [
        sorted([Literal(tuple([words[number] for number in atom]), excluded) for atom, excluded in clause])
        for clause in clauses.verified
    ]
    return Keywords(
        sorted(required, key=lambda clause: (len(clause), clause)),
        sorted(verified, key=lambda clause: (len(clause), clause)),
    )


class WordList(NamedTuple):
    """Words and phrases of which a text has one at least, and those that it does not have: each once, in order."""

    alone: list[str]
    phrases: list[tuple[str, ...]]
    excluded: list[tuple[str, ...]]


def parse_word_list(expression: str, *, max_words: int = MAX_WORDS, max_distinct: int = NO_LIMIT) -> WordList:
    """Parse words and phrases, some of them after NOT.

    Raises ExpressionError for another operator, for more than `max_words` words, or `max_distinct` different ones that
    are not excluded, if no word is left that a text must have, and if no text satisfies it.
    """
    try:
        shape, words = _read(expression, max_words)
        kept, excluded = set[Atom](), set[Atom]()
        for at, token in enumerate(shape):
            after_not = at > 0 and shape[at - 1] == "NOT"
            if isinstance(token, tuple) and words[token[0]] != EVERY:
                (excluded if after_not else kept).add(token)
            elif token != "NOT" or after_not or at == len(shape) - 1:
                shown = EVERY if isinstance(token, tuple) else token
                raise ShapeError(f"{shown} is not possible here", at, "words, phrases, NOT before one of them")
        if len({number for atom in kept for number in atom}) > max_distinct:
            raise ShapeError(f"it has more than {max_distinct} different words", 0, "fewer words")
        if not kept:
            kind = NO_REQUIRED_WORD if excluded else UNREADABLE
            raise ShapeError("there is no word that a text must have", 0, "a word", kind)
        if all(any(_is_inside(part, atom) for part in excluded) for atom in kept):
            raise ShapeError("no text satisfies it", 0, "a word that is not excluded", NEVER_SATISFIED)
    except ShapeError as error:
        raise ExpressionError(error.reason, _position(expression, error.token), error.expected, error.kind) from None
    wanted, unwanted = (
        sorted(tuple([words[number] for number in atom]) for atom in atoms) for atoms in (kept, excluded)
    )
    return WordList([one[0] for one in wanted if len(one) == 1], [one for one in wanted if len(one) > 1], unwanted)


def _is_inside(part: Atom, atom: Atom) -> bool:
    return any(atom[start : start + len(part)] == part for start in range(len(atom)))


def _alternates(clauses: ShapeClauses, word: int) -> bool:
    return any(atom == (word,) for clause in clauses.verified for atom, _ in clause)


def _read(expression: str, max_words: int) -> tuple[Shape, list[str]]:
    """Return the shape of an expression, and the words that its numbers stand for."""
    if len(expression) > MAX_CHARACTERS:
        reason = f"it has {len(expression)} characters, more than {MAX_CHARACTERS}"
        raise ExpressionError(reason, MAX_CHARACTERS + 1, "a shorter expression")
    numbers: dict[str, int] = {}
    shape: list[str | Atom] = []
    count = 0
    for at, match in enumerate(_TOKEN.finditer(expression)):
        text = match[0].translate(_WIDE)
        if text in SYMBOLS:
            shape.append(text)
            continue
        follower = "(" if expression[match.end() : match.end() + 1] in _OPENING else ""
        words = [EVERY] if text == EVERY else _words(text, at, follower)
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
