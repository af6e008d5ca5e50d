"""List the words of messages that an index has, with the numbers by which postings are tested: the probes."""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.matching.term_table import find_value, slot_of, table_shift
from pststream.kernels.radix_sort import sort_values, sort_with
from pststream.kernels.scored.index_arrays import PROBE_FIELDS, point_in_space, signature_of

MANY_WORDS = 64
"""A message with more words of the index than this is handled by other algorithms: a text of 1 MB may have 200,000."""


class MessageArrays(NamedTuple):
    """The messages of a batch, q of them.

    points   float64[q,2]  longitude and latitude
    squares  float32[q]    sum of the squared weights of all words
    offsets  int64[q+1]    slice of `terms` of each message
    terms    int64[]       term ids of its words, each once
    """

    points: np.ndarray
    squares: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray


class ProbeArrays(NamedTuple):
    """The p pairs of a message and a word of the index, by word.

    words     int64[p]      the word, ascending
    messages  int32[p]      the message
    numbers   float32[p,PROBE_FIELDS]
    later     uint64[p]     signature of the words of the message after this one
    own_offsets  int32[q+1], own_words int32[p]: the words of each message, ascending
    """

    words: np.ndarray
    messages: np.ndarray
    numbers: np.ndarray
    later: np.ndarray
    own_offsets: np.ndarray
    own_words: np.ndarray


@kernel
def find_words(messages: MessageArrays, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of each message that the index has, ascending: offsets int32[q+1] and words int32[]."""
    offsets, terms = messages.offsets, messages.terms
    own_offsets, own_words = np.zeros(len(offsets), np.int32), np.empty(len(terms), np.int32)
    shift, size = table_shift(table), 0
    slots = np.empty(len(terms), np.int64)
    for place in range(len(terms)):
        slots[place] = slot_of(terms[place], shift)
    for row in range(len(offsets) - 1):
        first = size
        for place in range(offsets[row], offsets[row + 1]):
            if place + 32 < len(terms):
                prefetch(table, slots[place + 32])
            word = find_value(terms[place], slots[place], table)
            if word >= 0:
                own_words[size] = word
                size += 1
        _sort(own_words[first:size])
        own_offsets[row + 1] = size
    return own_offsets, own_words[:size].copy()


@kernel
def _sort(words: np.ndarray) -> None:
    """Sort words in place: a few by insertion, many by radix."""
    if len(words) > MANY_WORDS:
        words[:] = sort_values(words.astype(np.uint64), 0, 32)
        return
    for place in range(1, len(words)):
        word, at = words[place], place
        while at > 0 and words[at - 1] > word:
            words[at] = words[at - 1]
            at -= 1
        words[at] = word


@kernel
def list_probes(messages: MessageArrays, table: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> ProbeArrays:
    """Return the probes of a batch of messages.

    table, ids, weights  of the index (index_arrays.py)
    """
    own_offsets, own_words = find_words(messages, table)
    count = len(own_words)
    owners, rows = np.empty(count, np.int32), np.empty((count, PROBE_FIELDS), np.float32)
    signatures = np.empty(count, np.uint64)
    for message in range(len(own_offsets) - 1):
        x, y, z = point_in_space(messages.points[message, 0], messages.points[message, 1])
        length = math.sqrt(np.float64(messages.squares[message]))
        square, total, greatest, signature = 0.0, 0.0, 0.0, np.uint64(0)
        for place in range(own_offsets[message + 1] - 1, own_offsets[message] - 1, -1):
            word = own_words[place]
            weight = np.float64(weights[word]) / length
            owners[place], signatures[place] = message, signature
            rows[place, 0], rows[place, 1], rows[place, 2], rows[place, 3] = x, y, z, weight
            rows[place, 4], rows[place, 5], rows[place, 6] = math.sqrt(square), total, greatest
            square, total, greatest = square + weight * weight, total + weight, max(greatest, weight)
            signature |= signature_of(ids[word])
    bits = 1
    while (1 << bits) < len(ids):
        bits += 1
    words, order = sort_with(own_words.astype(np.int64), np.arange(count).astype(np.int32), bits)
    return ProbeArrays(words, owners[order], rows[order], signatures[order], own_offsets, own_words)
