"""Split a text into normalized words.

In this order: emoji are found, each a word; zero-width spaces and trade mark signs part words, other characters that
Unicode calls default-ignorable go; then NFKC and case folding, and the dot goes that folding leaves on i. Words are the
longest runs of letters, marks, decimal digits and `_` that are not of marks alone. In scripts that do not part words by
blanks (Han, kana, Thai, Lao, Khmer, Burmese) each character with its marks is a word. docs/words.md has examples.

Pinned Unicode tables decide which characters are assigned or in words, not those of the running Python, which differ by
release. Unicode guarantees that NFKC and the case folding of NFKC texts never change for texts of assigned characters
(Unicode Character Encoding Stability Policies). So a text in which a space replaces the characters that the pinned
version does not assign has the same words in each Python; in the pinned version such a character separates words, as a
space does. The tables of emoji and of ignorable characters may be newer. `infra/make_unicode_tables.py` writes them.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

UNICODE = "14.0.0"
"""The pinned version."""

_TABLES: dict[str, list[int]] = json.loads(Path(__file__).with_name(f"unicode-{UNICODE}.json").read_bytes())
_HAS_PINNED_VERSION = unicodedata.unidata_version == UNICODE


def _is_in(table: str, code: int) -> bool:
    return bisect_right(_TABLES[table], code) % 2 == 1


is_in_words = partial(_is_in, "word")
"""Whether words contain this code point: a letter, a mark, a decimal digit or `_`."""

is_assigned = partial(_is_in, "assigned")
"""Whether the pinned version assigns this code point; it does to surrogates and private use."""

is_emoji = partial(_is_in, "emoji")
"""Whether this code point is an emoji: not ASCII, and no copyright, registered or trade mark sign."""

is_ignorable = partial(_is_in, "ignorable")
"""Whether this code point is default-ignorable: it has no glyph of its own."""


def is_one_of_a_run(word: str) -> bool:
    """Whether this word of `tokenize` is a character, with its marks, of a script that does not part words by blanks.

    The table is the one by which `tokenize` makes such a character a word.
    """
    return _is_in("without_blanks", ord(word[0]))


def hide_unassigned(text: str) -> str:
    """Return the text with a space for each character that the pinned version does not assign."""
    return _maybe_unassigned().sub(lambda match: match[0] if is_assigned(ord(match[0])) else " ", text)


def _class_of(ranges: list[int]) -> str:
    """Return the characters of ranges, from the first up to the second, and so on, for a class of a pattern."""
    return "".join(f"\\U{first:08x}-\\U{stop - 1:08x}" for first, stop in zip(ranges[::2], ranges[1::2], strict=True))


@cache
def _maybe_unassigned() -> re.Pattern[str]:
    """A character that is not assigned, or is above U+FFFF: beyond that the search is slow for many ranges."""
    gaps = [code for code in _TABLES["assigned"][1:] if code <= 0x10000]
    return re.compile(f"[{_class_of(gaps)}\\U00010000-\\U0010ffff]")


TOKENIZER: dict[str, str | int] = {
    "name": "nfkc-casefold-words",
    "version": 2,
    "unicode": UNICODE,
    "term_id": "fnv1a64-fmix64",
}
"""The properties that term ids depend on. A home stores them, since ids of another tokenizer would not match."""

_MAX_MARKS = 1_000
_FOREIGN_RUN = re.compile(rf"(?<![^\x00-\x7f])[^\x00-\x7f]{{{_MAX_MARKS + 1},}}+")
"""The lookbehind lets a search begin at the start of a run only, so that no run is read once for each of its places."""
_GRAPHEME_JOINER = "\u034f"

_KEYCAP = "\u20e3"
_WIDE = {"#": "\uff03", "*": "\uff0a"}
"""Kernels take ASCII signs for separators, so a keycap has the wide ones."""


class _KeptCharacters(dict[int, str | None]):
    """Table for `str.translate` before normalization, filled on demand."""

    def __missing__(self, code: int) -> str | None:
        parts_words = chr(code) in "\u200b™℠©®"
        self[code] = " " if parts_words else None if is_ignorable(code) else chr(code)
        return self[code]


class _WordCharacters(dict[int, str]):
    """Table for `str.translate`, filled on demand: characters of words stay, others become a space."""

    def __missing__(self, code: int) -> str:
        self[code] = chr(code) if is_in_words(code) else " "
        return self[code]


_KEPT_CHARACTERS = _KeptCharacters()
_WORD_CHARACTERS = _WordCharacters()


@cache
def _maybe_emoji() -> re.Pattern[str]:
    """A keycap with its sign, or a character that may be an emoji: those above U+FFFF are a single range, since a
    search is slow for many.
    """
    low = [code for code in _TABLES["emoji"] if code <= 0xFFFF]
    return re.compile(f"[{_class_of(low)}\U0001f000-\U0001faff]|([0-9#*\uff03\uff0a])[\ufe0e\ufe0f]?{_KEYCAP}")


_AFTER_EMOJI = re.compile(
    "(?<=[\U0001f1e6-\U0001f1ff])([\U0001f1e6-\U0001f1ff])"
    "|[\ufe0e\ufe0f]?(?:([\U000e0020-\U000e007e]+\U000e007f)|[\U0001f3fb-\U0001f3ff])?"
)
"""The second letter of a flag, the tags of one, or the presentation and skin tone of an emoji; it may be empty."""


def tokenize(text: str) -> list[str]:
    """Return the words of `text` in order, with repeats; a lone surrogate separates words, as punctuation does.

    Presentation and skin tone are dropped from emoji; a joined emoji is its parts; flags and keycaps are one word. A
    grapheme joiner is inserted after each 1,000 combining marks in a row (the Stream-Safe format of UAX #15, with 1,000
    in place of 30): normalization sorts a run of marks in quadratic time, which takes minutes for a text of 1 MB.
    """
    if text.isascii():
        return [text.lower()] if text.isalnum() else text.translate(_WORD_CHARACTERS).lower().split()
    words: list[str] = []
    start = at = 0
    while match := _maybe_emoji().search(text, at):
        first, at = match[0][0], match.end()
        if match[1]:
            word = _WIDE.get(first, first) + _KEYCAP
        elif is_emoji(ord(first)) and (after := _AFTER_EMOJI.match(text, at)):
            word, at = first + (after[1] or after[2] or ""), after.end()
        else:
            continue
        words += [*_words_without_emoji(text[start : match.start()]), word]
        start = at
    return words + _words_without_emoji(text[start:])


def ranges_without_blanks() -> list[int]:
    """Return the code points at which scripts without blanks begin and end, in turn, ascending."""
    return _TABLES["without_blanks"]


def reported_words(parts: Iterable[str]) -> set[str]:
    """Return the words of a text, given by its parts, that count in reports of frequent terms.

    In scripts without blanks these are pairs of neighbours, as `tokenize` returns them, in place of single characters.
    """
    counted: set[str] = set()
    for words in map(tokenize, parts):
        of_run = list(map(is_one_of_a_run, words))
        counted.update(word for word, is_one in zip(words, of_run) if not is_one)
        pairs = zip(pairwise(words), pairwise(of_run))
        counted.update("".join(pair) for pair, are_of_run in pairs if all(are_of_run))
    return counted


def _words_without_emoji(text: str) -> list[str]:
    text = text.translate(_KEPT_CHARACTERS)
    if not _HAS_PINNED_VERSION:  # with the pinned version the words are the same
        text = hide_unassigned(text)
    if len(text) > _MAX_MARKS:
        text = _FOREIGN_RUN.sub(_separate_marks, text)
    folded = unicodedata.normalize("NFKC", text).casefold().replace(_GRAPHEME_JOINER, "").replace("i\u0307", "i")
    spaced = folded.translate(_WORD_CHARACTERS)
    if spaced.isascii():
        return spaced.split()
    parts = _parts_of_runs(max(spaced) <= "\uffff").findall(spaced)
    return [part for part in parts if not (_IS_MARK[part[0]] and _has_marks_alone(part))]


@cache
def _parts_of_runs(is_low: bool) -> re.Pattern[str]:
    """A character of a script without blanks with its marks, or a run of others.

    is_low: in a text whose characters are at most U+FFFF. A search is slow for many ranges beyond.
    """
    tables = [_TABLES[name] for name in ("without_blanks", "mark")]
    alone, marks = (_class_of([code for code in table if not is_low or code <= 0xFFFF]) for table in tables)
    return re.compile(f"[{alone}][{marks}]*|[^ {alone}]+")


class _IsMark(dict[str, bool]):
    """Whether a character is a combining mark; filled on demand."""

    def __missing__(self, character: str) -> bool:
        self[character] = _is_in("mark", ord(character))
        return self[character]


_IS_MARK = _IsMark()


def _has_marks_alone(word: str) -> bool:
    return all(map(_IS_MARK.__getitem__, word))


def _separate_marks(run: re.Match[str]) -> str:
    pieces = []
    marks = 0
    for character in run.group():
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > _MAX_MARKS:
            pieces.append(_GRAPHEME_JOINER)
            marks = 1
        pieces.append(character)
    return "".join(pieces)
