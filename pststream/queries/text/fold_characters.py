"""Normalize texts character by character, where no character depends on its neighbours: a twin of `tokenize` for most.

Normalization (NFKC) joins or sorts characters only if one of them is a mark or a vowel or final of Hangul. In all other
texts it replaces each character by itself, and so do case folding and the choice of the characters of words. The bytes
that replace a character are kept in a table, which is filled by `tokenize` when a character first occurs.
"""

import unicodedata

import numpy as np
import pyarrow as pa

from pststream.base.buffers import utf8_of
from pststream.kernels.parsing.characters import (
    CODE_POINTS,
    ENTRY_BYTES,
    NOT_ALONE,
    find_unknown,
    replace_characters,
)
from pststream.queries.text.words import tokenize

_TABLE = np.zeros((CODE_POINTS, ENTRY_BYTES), np.uint8)
_HANGUL_LETTERS = range(0x1100, 0x1200)


def fold_characters(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return texts with the words of `tokenize`, and whether each text is done: bool[n]; a text that is not is empty.

    `texts` is string or large_string without nulls. The words may have letters of ASCII in upper case, and any
    characters of ASCII that are in no word between them.
    """
    data, offsets = utf8_of(texts)
    for code in find_unknown(data, offsets, _TABLE).tolist():
        _fill(code)
    new_offsets, content, done = replace_characters(data, offsets, _TABLE)
    buffers = [None, pa.py_buffer(new_offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(texts.type), done


def _fill(code: int) -> None:
    """Fill the entry of a code point; its size last, since other threads read the table."""
    character = chr(code)
    content = _fold(character) if _is_alone(character) else None
    if content is None or len(content) >= ENTRY_BYTES:
        _TABLE[code, 0] = NOT_ALONE
        return
    _TABLE[code, 1 : 1 + len(content)] = list(content)
    _TABLE[code, 0] = 1 + len(content)


def _fold(character: str) -> bytes:
    """The words of the character as UTF-8, between spaces where it begins or ends with a separator."""
    before, after = (tokenize(text)[place] == "a" for text, place in (("a" + character, 0), (character + "a", -1)))
    return (" " * before + " ".join(tokenize(character)) + " " * after).encode()


def _is_alone(character: str) -> bool:
    """Whether the character, normalized, neither joins its neighbours nor is sorted among them."""
    parts = character + unicodedata.normalize("NFKC", character)
    return not any(
        unicodedata.combining(one) or unicodedata.category(one)[0] == "M" or ord(one) in _HANGUL_LETTERS
        for one in parts
    )
