"""Split texts into sequences of words, and find phrases in these: words side by side, in order."""

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.parsing.texts import ids_of_words
from pststream.kernels.sort_and_search import find, with_room


@kernel
def split_words(data, offsets, folded):
    """Return the term ids of the words of each text, in order, with repeats: offsets int64[n+1], ids int64[].

    The arguments are those of `texts.distinct_terms`.
    """
    rows = len(offsets) - 1
    ids = np.empty((offsets[rows] - offsets[0] + rows) // 2 + 1, np.int64)
    word_offsets = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        word_offsets[row + 1] = ids_of_words(data, offsets[row], offsets[row + 1], folded, ids, word_offsets[row])
    return word_offsets, ids[: word_offsets[rows]].copy()


@kernel
def _hash_pair(first, second):
    mixed = (np.uint64(first) ^ (np.uint64(second) << np.uint64(1))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed ^ (mixed >> np.uint64(29)))


@kernel
def hash_pairs(word_offsets, words):
    """Return a hash of the first two words of each phrase: int64[p]; word_offsets int64[p+1], words int64[]."""
    hashes = np.empty(len(word_offsets) - 1, np.int64)
    for phrase in range(len(hashes)):
        hashes[phrase] = _hash_pair(words[word_offsets[phrase]], words[word_offsets[phrase] + 1])
    return hashes


@kernel
def mark_hashes(hashes, bits):
    """Return 2^bits bits, uint64 words: those at the last `bits` bits of the hashes are set; `bits` is at least 6."""
    marks = np.zeros(1 << (bits - 6), np.uint64)
    for hashed in hashes:
        slot = hashed & ((1 << bits) - 1)
        marks[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    return marks


@leaf
def _is_marked(marks, hashed):
    slot = hashed & (64 * len(marks) - 1)
    return (marks[slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1)


_MULTIPLIER = np.uint64(0xD1342543DE82EF95)
_FEW_WORDS = 8
"""Words of a phrase that are compared one by one."""


@kernel
def sum_words(word_offsets, words):
    """Return a hash of the words of each list, which `find_phrases` compares: uint64[n]."""
    sums = np.zeros(len(word_offsets) - 1, np.uint64)
    for row in range(len(sums)):
        for at in range(word_offsets[row], word_offsets[row + 1]):
            sums[row] = sums[row] * _MULTIPLIER + np.uint64(words[at])
    return sums


@kernel
def find_phrases(text_offsets, texts, marks, slots, word_offsets, words, sums):
    """Return the texts that have phrases, and the phrases, each pair once: int64[n] each, by text.

    text_offsets, texts   int64[t+1], int64[]   the words of each text, as `split_words` returns them
    marks                 uint64[]              `mark_hashes` of the pairs that begin phrases
    slots                 int64[s+1]            slice of the phrases whose pair has a hash of each last bits; s = 2^b
    word_offsets, words   int64[p+1], int64[]   the words of each phrase, two at least
    sums                  uint64[p]             `sum_words` of the phrases
    """
    owners, phrases, count = np.empty(64, np.int64), np.empty(64, np.int64), 0
    last_bits = len(slots) - 2
    last_text = np.full(len(sums), -1, np.int64)
    longest = 0
    for phrase in range(len(sums)):
        longest = max(longest, word_offsets[phrase + 1] - word_offsets[phrase])
    powers = np.ones(longest + 1, np.uint64)
    for power in range(longest):
        powers[power + 1] = powers[power] * _MULTIPLIER
    sums_before, sums_of = np.zeros(1, np.uint64), -1  # of the words before each place of a text
    for text in range(len(text_offsets) - 1):
        start, stop = text_offsets[text], text_offsets[text + 1]
        for place in range(start, stop - 1):
            hashed = _hash_pair(texts[place], texts[place + 1])
            if not _is_marked(marks, hashed):
                continue
            slot = hashed & last_bits
            for phrase in range(slots[slot], slots[slot + 1]):
                first, length = word_offsets[phrase], word_offsets[phrase + 1] - word_offsets[phrase]
                if last_text[phrase] == text or place + length > stop:
                    continue
                if length > _FEW_WORDS:
                    # Without the hash a text of one word takes its length times that of each phrase of this word.
                    if sums_of != text:
                        sums_before, sums_of = with_room(sums_before, stop - start + 1), text
                        for at in range(start, stop):
                            sums_before[at - start + 1] = sums_before[at - start] * _MULTIPLIER + np.uint64(texts[at])
                    before = sums_before[place - start] * powers[length]
                    if sums_before[place - start + length] - before != sums[phrase]:
                        continue
                is_same = True
                at = 0
                while is_same and at < length:
                    is_same = texts[place + at] == words[first + at]
                    at += 1
                if is_same:
                    if count == len(owners):
                        owners, phrases = with_room(owners, count + 1), with_room(phrases, count + 1)
                    owners[count], phrases[count] = text, phrase
                    last_text[phrase] = text
                    count += 1
    return owners[:count].copy(), phrases[:count].copy()


@kernel
def find_owners(offsets, terms, marks, wanted):
    """Return which lists of terms have one of the wanted terms: int64[m], ascending.

    offsets, terms   int64[n+1], int64[]
    marks            uint64[]    `mark_hashes` of the wanted terms
    wanted           int64[w]    ascending
    """
    owners, count = np.empty(len(offsets) - 1, np.int64), 0
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            if _is_marked(marks, terms[at]):
                place = find(wanted, 0, len(wanted), terms[at])
                if place < len(wanted) and wanted[place] == terms[at]:
                    owners[count] = row
                    count += 1
                    break
    return owners[:count].copy()


@kernel
def add_terms(offsets, terms, rows, added):
    """Return the terms of objects with further ones, ascending and distinct again: int64[n+1], int64[].

    offsets, terms   int64[n+1], int64[]   distinct terms of each object, ascending
    rows, added      int64[m] each         an object and a term that it gets; rows are ascending
    """
    objects = len(offsets) - 1
    joined, joined_offsets = np.empty(len(terms) + len(added), np.int64), np.zeros(objects + 1, np.int64)
    following, size = 0, 0
    for row in range(objects):
        first = following
        while following < len(rows) and rows[following] == row:
            following += 1
        old, end = offsets[row], offsets[row + 1]
        if first == following:
            for at in range(old, end):
                joined[size] = terms[at]
                size += 1
        else:
            news = np.sort(added[first:following])
            new = 0
            while old < end or new < len(news):
                takes_old = new == len(news) or (old < end and terms[old] <= news[new])
                value = terms[old] if takes_old else news[new]
                old, new = old + takes_old, new + (not takes_old)
                if size == joined_offsets[row] or joined[size - 1] != value:
                    joined[size] = value
                    size += 1
        joined_offsets[row + 1] = size
    return joined_offsets, joined[:size].copy()
