"""Convert the texts of objects, and the words of subscriptions, to term ids: 64-bit hashes of normalized words.

A term id is a hash of the word, so it never changes, needs no dictionary, and is the same in every process: FNV-1a 64
over the word's UTF-8 bytes, then the fmix64 finalizer of MurmurHash3, as a signed integer. Two of n distinct words
share an id with probability about n^2 / 2^65: 3e-8 for a million words, 3e-4 for a hundred million. Two words that
share an id count as one word.
"""

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.buffers import utf8_of
from pststream.kernels.parsing.tokens import FOLDED, distinct_terms, hash_word
from pststream.queries.text.fold_characters import fold_characters
from pststream.queries.text.words import tokenize

__all__ = ["normalized_texts", "term_id", "terms_of", "tokenize"]


_LONGEST_CACHED = 64
"""Characters of a word whose id is cached; most words of any language are shorter."""


def term_id(word: str) -> int:
    """Return the id of a word of `tokenize`: signed 64 bits."""
    return (_cached_id if len(word) <= _LONGEST_CACHED else _hash)(word)


def _hash(word: str) -> int:
    return int(hash_word(np.frombuffer(word.encode(), dtype=np.uint8)))


_cached_id = lru_cache(maxsize=1 << 16)(_hash)


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
