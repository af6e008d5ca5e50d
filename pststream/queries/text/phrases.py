"""Find phrases in the texts of objects, each a term of its own; a phrase is words side by side in one part of a text.

A text that was joined from several columns has a part for each. Phrases of live subscriptions are many, and few texts
have one: a text is split into words, each pair of neighbours is looked up among the first pairs of the phrases.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import distinct_values, find_among, offsets_of
from pststream.base.arrow_columns import csr, take_lists, utf8_of
from pststream.kernels.parsing.phrases import find_owners, find_phrases, hash_pairs, mark_hashes, split_words, sum_words
from pststream.kernels.parsing.texts import FOLDED, hash_texts
from pststream.queries.text.tokenizer import normalized_texts
from pststream.queries.text.words import ranges_without_blanks


class WordSequences(NamedTuple):
    """The words of n texts in order: term ids, by part.

    part_offsets  int64[n+1]   slice of the parts of each text
    word_offsets  int64[p+1]   slice of the words of each part
    words         int64[]      term ids, with repeats
    """

    part_offsets: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray


def split_texts(texts: pa.Array, breaks: pa.ListArray) -> WordSequences:
    """Return the words of texts (string); a null text has one part without words.

    breaks: list<int32>, the bytes of each text before its second part and each later one
    """
    texts, part_offsets = pc.fill_null(texts, ""), np.arange(len(texts) + 1)
    if breaks.null_count < len(breaks):
        texts, part_offsets = _parts_of(texts, *csr(breaks))
    return WordSequences(part_offsets, *split_words(*utf8_of(normalized_texts(texts)), FOLDED))


def _parts_of(texts: pa.Array, break_offsets: np.ndarray, breaks: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Return the parts of texts, cut at their breaks (int64[n+1], int32[]), and the slice of each text (int64[n+1])."""
    data, offsets = utf8_of(texts)
    part_offsets = break_offsets + np.arange(len(break_offsets))
    starts = np.empty(part_offsets[-1], np.int64)
    is_first = np.zeros(len(starts), bool)
    is_first[part_offsets[:-1]] = True
    starts[is_first] = offsets[:-1]
    starts[~is_first] = breaks + np.repeat(offsets[:-1], np.diff(break_offsets))
    buffers = [None, pa.py_buffer(np.append(starts, offsets[-1])), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(starts), buffers), part_offsets


def are_of_runs(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return for which words `words.is_one_of_a_run` is true: bool[n].

    offsets, data   int[n+1], uint8[]: the words as UTF-8; there is one byte at least
    """
    start, lengths = offsets[:-1], np.diff(offsets)
    lead, of_runs = data[np.minimum(start, len(data) - 1)], np.zeros(len(start), bool)
    # All of these scripts lie above U+07FF, where a character has three bytes or four.
    for length, least, bits in ((3, 0xE0, 0x0F), (4, 0xF0, 0x07)):
        rows = np.flatnonzero((lengths >= length) & (lead >= least) & (lead < least + bits + 1))
        code = lead[rows].astype(np.int64) & bits
        for place in range(1, length):
            code = code << 6 | (data[start[rows] + place] & 0x3F)
        of_runs[rows] = np.searchsorted(ranges_without_blanks(), code, "right") % 2 == 1
    return of_runs


def find_pairs(sequences: WordSequences, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts with neighbours that are both among some words, and the pairs, each once: int64[n] each.

    among   int64[w], ascending
    A pair is w times the place of its first word in `among`, plus that of its second word. Texts * w * w < 2^63.
    """
    place, is_one = find_among(sequences.words, among)
    part = np.repeat(np.arange(len(sequences.word_offsets) - 1), np.diff(sequences.word_offsets))
    first = np.flatnonzero(is_one[:-1] & is_one[1:] & (part[:-1] == part[1:]))
    text = np.searchsorted(sequences.part_offsets, part[first], "right") - 1
    square = len(among) * len(among)
    pairs = distinct_values(text * square + place[first] * len(among) + place[first + 1])
    return pairs // square, pairs % square


class PhraseTable:
    """Some phrases, each once, for look-up in texts.

    word_offsets, words   int64[p+1], int64[]   term ids of the words of each phrase, two at least; phrases may repeat
    """

    def __init__(self, word_offsets: np.ndarray, words: np.ndarray) -> None:
        ids = hash_texts(np.ascontiguousarray(words).view(np.uint8), 8 * word_offsets)
        ids, first = np.unique(ids, return_index=True)
        word_offsets, words = take_lists((word_offsets, words), first)
        hashes = hash_pairs(word_offsets, words)
        slots = 1 << len(hashes).bit_length()
        slot = hashes & (slots - 1)
        order = np.argsort(slot, kind="stable")
        self._word_offsets, self._words = take_lists((word_offsets, words), order)
        self._ids, self._slots = ids[order], offsets_of(np.bincount(slot, minlength=slots))
        self._marks, self._sums = _marks_of(hashes), sum_words(self._word_offsets, self._words)
        self._first_words = distinct_values(self._words[self._word_offsets[:-1]])
        self._first_marks = _marks_of(self._first_words)

    def __len__(self) -> int:
        return len(self._ids)

    def joined(self, other: "PhraseTable") -> "PhraseTable":
        """Return the phrases of two tables."""
        lengths = np.concatenate([np.diff(self._word_offsets), np.diff(other._word_offsets)])
        return PhraseTable(offsets_of(lengths), np.concatenate([self._words, other._words]))

    def may_have(self, offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return which objects have a word that begins a phrase: int64[m], ascending.

        offsets, terms   int64[n+1], int64[]   terms of each object
        """
        return np.asarray(find_owners(offsets, terms, self._first_marks, self._first_words))

    def find(self, sequences: WordSequences) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts that have phrases, and the term ids of these: int64[n] each; a pair may be repeated."""
        own = self._marks, self._slots, self._word_offsets, self._words, self._sums
        part, phrase = find_phrases(*sequences[1:], *own)
        return np.searchsorted(sequences.part_offsets, part, "right") - 1, self._ids[phrase]


def _marks_of(hashes: np.ndarray) -> np.ndarray:
    """Return bits that are set for hashes (int64[n]), 16 or more for each."""
    return np.asarray(mark_hashes(hashes, max(6, (16 * len(hashes)).bit_length())))
