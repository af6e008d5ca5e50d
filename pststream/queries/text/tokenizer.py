"""Convert the texts of objects, and the words of subscriptions, to term ids: 64-bit hashes of normalized words.

A term id is a hash of the word, so it never changes, needs no dictionary, and is the same in every process: FNV-1a 64
over the word's UTF-8 bytes, then the fmix64 finalizer of MurmurHash3, as a signed integer. Two of n distinct words
share an id with probability about n^2 / 2^65: 3e-8 for a million words, 3e-4 for a hundred million. Two words that
share an id count as one word.
"""

import unicodedata
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import utf8_of
from pststream.kernels.parsing.expressions import AND, CLOSE, FIRST_WORD, OPEN, OR, fill_clauses, read_expressions
from pststream.kernels.parsing.texts import (
    CODE_POINTS,
    ENTRY_BYTES,
    FOLDED,
    NOT_ALONE,
    distinct_terms,
    find_unknown,
    hash_word,
    replace_characters,
)
from pststream.queries.text.expression import MAX_CLAUSES, MAX_TERMS, ShapeError, clauses_of_shape
from pststream.queries.text.words import is_ignorable, tokenize

_TABLE = np.zeros((CODE_POINTS, ENTRY_BYTES), np.uint8)
_HANGUL_LETTERS = range(0x1100, 0x1200)
_PARTS_OF_EMOJI = (range(0x1F1E6, 0x1F200), range(0x1F3FB, 0x1F400), range(0xE0020, 0xE0080))
"""Letters of flags, skin tones and tags."""


def fold_characters(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return texts with the words of `tokenize`, and whether each text is done: bool[n]; a text that is not is empty.

    Normalization (NFKC) joins or sorts characters only if one of them is a mark or a vowel or final of Hangul; emoji
    have parts that stand for nothing alone. In all other texts each character is replaced by itself.
    The bytes that replace a character are kept in a table, which `tokenize` fills when a character first occurs.

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
    if not tokenize(character):
        return b" " if len(tokenize(f"a{character}a")) > 1 else b""
    before, after = (tokenize(text)[index] == "a" for text, index in (("a" + character, 0), (character + "a", -1)))
    return (" " * before + " ".join(tokenize(character)) + " " * after).encode()


def _is_alone(character: str) -> bool:
    """Whether the character, normalized, neither joins its neighbours nor is sorted among them."""
    if any(ord(character) in part for part in _PARTS_OF_EMOJI):
        return False
    if is_ignorable(ord(character)):
        return True
    parts = character + unicodedata.normalize("NFKC", character)
    return not any(
        unicodedata.combining(one) or unicodedata.category(one)[0] == "M" or ord(one) in _HANGUL_LETTERS
        for one in parts
    )


_LONGEST_CACHED = 64
"""Characters of a word whose id is cached; most words of any language are shorter."""


def term_id(word: str) -> int:
    """Return the id of a word of `tokenize`: signed 64 bits."""
    return (_cached_id if len(word) <= _LONGEST_CACHED else _hash)(word)


def _hash(word: str) -> int:
    return int(hash_word(np.frombuffer(word.encode(), dtype=np.uint8)))


_cached_id = lru_cache(maxsize=1 << 16)(_hash)


def phrase_id(words: tuple[int, ...]) -> int:
    """Return the id of a phrase from the ids of its words, in order: signed 64 bits, a term id like that of a word."""
    return int(hash_word(np.array(words, np.int64).view(np.uint8)))


def terms_of(texts: pa.Array) -> pa.ListArray:
    """Return the distinct term ids of each text, ascending: list<int64>, never null; an empty list for a null text.

    `texts` is string or large_string, valid UTF-8. Raises TypeError for another type, and OverflowError for 4 GiB
    of text or more, which may have 2^31 terms.
    """
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise TypeError(f"texts have the type {texts.type}, not string")
    data, offsets = utf8_of(normalized_texts(pc.fill_null(texts, "")))
    if int(offsets[-1]) - int(offsets[0]) >= 1 << 32:
        raise OverflowError(f"{int(offsets[-1]) - int(offsets[0])} bytes of text in one array")
    term_offsets, ids = distinct_terms(data, offsets, FOLDED)
    return pa.ListArray.from_arrays(pa.array(term_offsets), pa.array(ids))


def normalized_texts(texts: pa.Array) -> pa.Array:
    """Return texts as kernels split them: ASCII texts unchanged, other texts as their words between spaces."""
    foreign = pc.invert(pc.string_is_ascii(texts))
    if not pc.any(foreign).as_py():
        return texts
    given = texts.filter(foreign)
    folded, done = fold_characters(given)
    if not done.all():
        rest = pa.array(~done)
        words = [" ".join(tokenize(text)) for text in given.filter(rest).to_pylist()]
        folded = pc.replace_with_mask(folded, rest, pa.array(words, type=texts.type))
    return pc.replace_with_mask(texts, foreign, folded)


# Columns of expressions; `parse_keywords` reads those that `parse_expressions` does not

LONGEST = 4_096
"""Bytes of an expression that is read here. So a distinct shape, which is cached, is short too."""

_MAYBE_OPERATOR = r"[-!+*~^|&:]|NOT"
"""In each expression that has NOT, or what other languages take for an operator."""

_SYMBOLS = {OPEN: "(", CLOSE: ")", AND: "AND", OR: "OR"}


def parse_expressions(texts: pa.Array, max_words: int, max_pairs: int) -> tuple[pa.ListArray, np.ndarray]:
    """Return the clauses of each text (list<list<int64>>, as `parse_keywords` orders them), and bool[n]: whether it
    was parsed. The clauses of other texts are empty: they are not ASCII, have NOT, quotes, words that are cut, or signs
    that other languages take for operators, are long or not valid.

    `texts` is string; null counts as empty, which is not valid. No more than MOST_TOKENS parentheses are open.
    """
    texts = pc.fill_null(texts, "")
    texts = pc.if_else(pc.match_substring_regex(texts, _MAYBE_OPERATOR), "", texts)
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) > LONGEST:
        texts = pc.if_else(pc.less_equal(sizes, LONGEST), texts, "")
    data, offsets = utf8_of(texts)
    code_offsets, codes, word_offsets, ids, ranks = read_expressions(data, offsets, FOLDED)
    buffers = [None, pa.py_buffer(code_offsets), pa.py_buffer(codes)]
    shapes = pa.Array.from_buffers(pa.binary(), len(texts), buffers).dictionary_encode()
    parsed = [_clauses_of_codes(code, max_words, max_pairs) for code in shapes.dictionary.to_pylist()]
    readable = np.array([clauses is not None for clauses in parsed], bool)
    known = [clauses or () for clauses in parsed]
    shape = shapes.indices.to_numpy().astype(np.int64)
    outer, inner, terms = fill_clauses(
        np.where(readable[shape], shape, -1) if len(readable) else shape,
        offsets_of([len(clauses) for clauses in known]),
        offsets_of([len(clause) for clauses in known for clause in clauses]),
        np.array([number for clauses in known for clause in clauses for number in clause], np.int64),
        word_offsets,
        ids,
        ranks,
    )
    clauses = pa.ListArray.from_arrays(pa.array(inner), pa.array(terms))
    return pa.ListArray.from_arrays(pa.array(outer), clauses), readable[shape] if len(readable) else shape < 0


@lru_cache(maxsize=1 << 12)
def _clauses_of_codes(codes: bytes, max_words: int, max_pairs: int) -> tuple[tuple[int, ...], ...] | None:
    """Return the clauses of a shape as numbers of words; None if it has none or too many."""
    if sum(code >= FIRST_WORD for code in codes) > max_words:
        return None
    shape = tuple((code - FIRST_WORD,) if code >= FIRST_WORD else _SYMBOLS[code] for code in codes)
    try:
        clauses = clauses_of_shape(shape, MAX_CLAUSES, max_pairs).required
    except ShapeError:
        return None
    return tuple(map(tuple, clauses)) if sum(map(len, clauses)) <= MAX_TERMS else None
