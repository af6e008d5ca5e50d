"""Split a text into normalized words: NFKC, case-folded, then the longest runs of letters, marks, digits and `_`.

Pinned Unicode tables decide which characters are assigned or in words, not those of the running Python, which differ by
release. Unicode guarantees that NFKC and the case folding of NFKC texts never change for texts of assigned characters
(Unicode Character Encoding Stability Policies). So a text in which a space replaces the characters that the pinned
version does not assign has the same words in each Python; in the pinned version such a character separates words, as a
space does. `infra/make_unicode_tables.py` writes the tables.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from functools import cache
from pathlib import Path

UNICODE = "14.0.0"
"""The pinned version."""

_TABLES: dict[str, list[int]] = json.loads(Path(__file__).with_name(f"unicode-{UNICODE}.json").read_bytes())
_HAS_PINNED_VERSION = unicodedata.unidata_version == UNICODE


def is_in_words(code: int) -> bool:
    """Whether words contain this code point: a letter, a mark, a decimal digit or `_`."""
    return bisect_right(_TABLES["word"], code) % 2 == 1


def is_assigned(code: int) -> bool:
    """Whether the pinned version assigns this code point; it does to surrogates and private use."""
    return bisect_right(_TABLES["assigned"], code) % 2 == 1


def hide_unassigned(text: str) -> str:
    """Return the text with a space for each character that the pinned version does not assign."""
    return _maybe_unassigned().sub(lambda match: match[0] if is_assigned(ord(match[0])) else " ", text)


@cache
def _maybe_unassigned() -> re.Pattern[str]:
    """A character that is not assigned, or is above U+FFFF: beyond that the search is slow for many ranges."""
    assigned = _TABLES["assigned"]
    gaps = [(first, last) for first, last in zip(assigned[1::2], assigned[2::2]) if first <= 0xFFFF]
    listed = "".join(f"\\u{first:04x}-\\u{last - 1:04x}" for first, last in gaps)
    return re.compile(f"[{listed}\\U00010000-\\U0010ffff]")


TOKENIZER: dict[str, str | int] = {
    "name": "nfkc-casefold-words",
    "version": 1,
    "unicode": UNICODE,
    "term_id": "fnv1a64-fmix64",
}
"""The properties that term ids depend on. A home stores them, since ids of another tokenizer would not match."""

_MAX_MARKS = 1_000
_FOREIGN_RUN = re.compile(rf"(?<![^\x00-\x7f])[^\x00-\x7f]{{{_MAX_MARKS + 1},}}+")
"""The lookbehind lets a search begin at the start of a run only, so that no run is read once for each of its places."""
_GRAPHEME_JOINER = "\u034f"


class _WordCharacters(dict[int, str]):
    """Table for `str.translate`, filled on demand: characters of words stay, others become a space."""

    def __missing__(self, code: int) -> str:
        self[code] = chr(code) if is_in_words(code) else " "
        return self[code]


_WORD_CHARACTERS = _WordCharacters()


def tokenize(text: str) -> list[str]:
    """Return the words of `text` in order, with repeats; a lone surrogate separates words, as punctuation does.

    Digits are decimal digits (category Nd). A grapheme joiner is inserted after each 1,000 combining marks in a row
    (the Stream-Safe format of UAX #15, with 1,000 in place of 30): normalization sorts a run of marks in quadratic
    time, which takes minutes for a text of 1 MB.
    """
    if text.isascii() and text.isalnum():
        return [text.lower()]
    if not (_HAS_PINNED_VERSION or text.isascii()):  # with the pinned version the words are the same
        text = hide_unassigned(text)
    if len(text) > _MAX_MARKS and not text.isascii():
        text = _FOREIGN_RUN.sub(_separate_marks, text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(_WORD_CHARACTERS).split()


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
