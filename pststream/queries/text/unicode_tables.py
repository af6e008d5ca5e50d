"""Decide by pinned Unicode tables, not by those of the running Python, which characters are assigned or in words.

Each release of Python has a newer version of Unicode, with more characters. Unicode guarantees that NFKC and the case
folding of NFKC texts never change for texts of assigned characters (Unicode Character Encoding Stability Policies). So
it is enough to pin which characters are assigned, and their categories, which may change: a text in which a space
replaces the characters that the pinned version does not assign has the same words in each Python. In the pinned version
such a character separates words, as a space does. `infra/make_unicode_tables.py` writes the tables.
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


def hide_newer_characters(text: str) -> str:
    """Return the text with a space for each character that the pinned version does not assign.

    A Python with the pinned version returns the text as it is: the words are the same.
    """
    return text if _HAS_PINNED_VERSION or text.isascii() else hide_unassigned(text)


def hide_unassigned(text: str) -> str:
    """Return the text with a space for each character that the pinned version does not assign."""
    return _maybe_unassigned().sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    return match[0] if is_assigned(ord(match[0])) else " "


@cache
def _maybe_unassigned() -> re.Pattern[str]:
    """A character that is not assigned, or is above U+FFFF: beyond that the search is slow for many ranges."""
    assigned = _TABLES["assigned"]
    gaps = [(first, last) for first, last in zip(assigned[1::2], assigned[2::2]) if first <= 0xFFFF]
    listed = "".join(f"\\u{first:04x}-\\u{last - 1:04x}" for first, last in gaps)
    return re.compile(f"[{listed}\\U00010000-\\U0010ffff]")
