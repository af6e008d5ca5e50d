"""Split a text into normalized words: NFKC, case-folded, then the longest runs of letters, marks, digits and `_`."""

import re
import unicodedata

from pststream.queries.text.unicode_tables import UNICODE, hide_newer_characters, is_in_words

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
    text = hide_newer_characters(text)
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
