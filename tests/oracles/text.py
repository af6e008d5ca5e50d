"""Slow twins of the tokenizer, term ids, expressions and distances: one character, one row, one formula at a time."""

import json
import math
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import regex

EARTH_RADIUS_M = 6_371_008.8
PINNED = Path(__file__).parents[2] / "pststream" / "queries" / "text" / "unicode-14.0.0.json"
HAS_PINNED = PINNED.stem == f"unicode-{unicodedata.unidata_version}"
"""Whether this Python has the pinned version of Unicode and can judge by itself; Python 3.11 has it."""

Tree = tuple[str, Any]


WITHOUT_BLANKS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\u3031-\u3035]"
PRESENTATION = ("\ufe0e", "\ufe0f")


def words(text: str) -> list[str]:
    """Split a text into words, character by character."""
    words_of_text: list[str] = []
    plain, at = "", 0
    while at < len(text):
        word, size = emoji_at(text, at)
        if size:
            words_of_text += [*words_without_emoji(plain), word]
            plain, at = "", at + size
        else:
            plain, at = plain + text[at], at + 1
    return words_of_text + words_without_emoji(plain)


def emoji_at(text: str, at: int) -> tuple[str, int]:
    """Return the word of the emoji that begins here, and its number of characters; 0 if none does."""
    first, end = text[at], at + 1
    follower = text[end : end + 1]
    if is_letter_of_flag(first) and follower and is_letter_of_flag(follower):
        return first + follower, 2
    if follower in PRESENTATION:
        end += 1
        follower = text[end : end + 1]
    if follower == "\u20e3" and first in "0123456789#*＃＊":
        return {"#": "＃", "*": "＊"}.get(first, first) + follower, end + 1 - at
    if first.isascii() or first in "©®™" or not has("Emoji", first):
        return "", 0
    tags = regex.match("[\U000e0020-\U000e007e]+\U000e007f", text[end:])
    if tags:
        return first + tags[0], end + len(tags[0]) - at
    return first, end + (follower != "" and has("Emoji_Modifier", follower)) - at


def is_letter_of_flag(character: str) -> bool:
    """Whether two such characters are a flag."""
    return has("Regional_Indicator", character)


@cache
def has(name: str, character: str) -> bool:
    """Whether a character has a property of Unicode."""
    return regex.match(rf"\p{{{name}}}", character) is not None


def words_without_emoji(text: str) -> list[str]:
    """Split a text without emoji into words, character by character."""
    kept = ""
    for character in text:
        if character in "\u200b©®™℠":
            kept += " "
        elif not has("Default_Ignorable_Code_Point", character):
            kept += character if HAS_PINNED or character in pinned("assigned") else " "
    folded = unicodedata.normalize("NFKC", kept).casefold().replace("i\u0307", "i")
    runs = "".join(character if is_in_word(character) else " " for character in folded).split(" ")
    words_of_text: list[str] = []
    for run in runs:
        current, ended = "", False
        for character in run:
            stands_alone = regex.match(WITHOUT_BLANKS, character) is not None and not is_mark(character)
            if stands_alone or (ended and not is_mark(character)):
                words_of_text.append(current)
                current, ended = "", stands_alone
            current += character
        words_of_text.append(current)
    return [word for word in words_of_text if not all(map(is_mark, word))]


def is_mark(character: str) -> bool:
    """Whether a character is a combining mark in the pinned version of Unicode."""
    return unicodedata.category(character)[0] == "M" if HAS_PINNED else character in pinned("mark")


def is_in_word(character: str) -> bool:
    """Whether a character is a letter, a mark, a decimal digit or `_` in the pinned version of Unicode."""
    if not HAS_PINNED:
        return character in pinned("word")
    category = unicodedata.category(character)
    return category.startswith(("L", "M")) or category == "Nd" or character == "_"


@cache
def pinned(name: str) -> frozenset[str]:
    """Return the characters of a pinned table. Tests on a Python with the pinned version compare the tables with it."""
    edges = json.loads(PINNED.read_text("utf-8"))[name]
    ranges = zip(edges[::2], [*edges[1::2], 0x110000])
    return frozenset(chr(code) for first, stop in ranges for code in range(first, stop))


def term_id(word: str) -> int:
    """Compute FNV-1a 64, then fmix64, in Python's unbounded integers."""
    mask = (1 << 64) - 1
    hashed = 0xCBF29CE484222325
    for byte in word.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & mask
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashed = ((hashed ^ (hashed >> 33)) * multiplier) & mask
    hashed ^= hashed >> 33
    return hashed - (1 << 64) if hashed >> 63 else hashed


def holds(tree: Tree, words_of_text: set[str]) -> bool:
    """Whether a text with these words satisfies a tree of ("word", w), ("and", trees), ("or", trees)."""
    kind, inside = tree
    if kind == "word":
        return inside in words_of_text
    parts = [holds(part, words_of_text) for part in inside]
    return all(parts) if kind == "and" else any(parts)


def words_of_tree(tree: Tree) -> Iterator[str]:
    """Yield all words of a tree."""
    kind, inside = tree
    if kind == "word":
        yield inside
        return
    for part in inside:
        yield from words_of_tree(part)


def great_circle_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Compute the distance by the angle between two vectors: exact near and far, without the haversine formula."""
    a, b = _vector(lon1, lat1), _vector(lon2, lat2)
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return EARTH_RADIUS_M * math.atan2(math.hypot(*cross), sum(x * y for x, y in zip(a, b)))


def _vector(lon: float, lat: float) -> tuple[float, float, float]:
    across, up = math.radians(lon), math.radians(lat)
    return math.cos(up) * math.cos(across), math.cos(up) * math.sin(across), math.sin(up)
