"""Find the `topk` subscriptions that each message of a batch enters: its value is at most their threshold.

The probes of a batch are sorted by word. For each chunk of a word, all messages that have the word are tested with the
bounds of the chunk, of its blocks, and of the postings of the blocks that remain: 64 tests return one word of bits, in
a loop without branches that the compiler computes many at a time. What remains is scored exactly, as questions score
objects (kernels/questions/scores.py), in groups, so that the records of a group are fetched together.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import count_bits, prefetch
from pststream.kernels.matching.postings import find_values
from pststream.kernels.questions.scores import cosine_of, place_score
from pststream.kernels.scored import index_arrays as fields
from pststream.kernels.scored.fill_blocks import block_of, chunk_of
from pststream.kernels.scored.index_arrays import (
    BLOCK,
    BOUNDS,
    FIELDS,
    PLACE_ERROR,
    PROBE_FIELDS,
    IndexArrays,
    point_in_space,
    signature_of,
)
from pststream.kernels.sort_and_search import gallop, sort_few, sort_values, sort_with, with_room

# List the probes: the words of messages that an index has, with the numbers by which postings are tested.

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
    words, size = find_values(terms, table), 0
    for row in range(len(offsets) - 1):
        first = size
        for place in range(offsets[row], offsets[row + 1]):
            # Each word is written, but only one that the index has advances the place.
            own_words[size] = words[place]
            size += words[place] >= 0
        _sort(own_words[first:size])
        own_offsets[row + 1] = size
    return own_offsets, own_words[:size].copy()


@kernel
def _sort(words: np.ndarray) -> None:
    """Sort words in place: a few by insertion, many by radix."""
    if len(words) > MANY_WORDS:
        words[:] = sort_values(words.astype(np.uint64), 0, 32)
        return
    sort_few(words)


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
        # From the last word back, so that the sums are those of the words after each.
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


HITS = 8192
"""Postings that are scored together."""

ZERO, THIRD, FIFTH = np.float32(0.0), np.float32(1 / 24), np.float32(3 / 640)


@kernel
def find_candidates(
    index: IndexArrays, messages: MessageArrays, probes: ProbeArrays
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the pairs of a batch, in any order, each once: subscription int32[c], message int32[c], value float32[c];
    and the number of pairs that were scored.
    """
    hits, size, scored, pairs = np.empty((HITS, 2), np.int32), 0, 0, 0
    rows, owners, values = np.empty(HITS, np.int32), np.empty(HITS, np.int32), np.empty(HITS, np.float32)
    begin = 0
    while begin < len(probes.words):
        word, end = probes.words[begin], begin + 1
        while end < len(probes.words) and probes.words[end] == word:
            end += 1
        for chunk in range(index.chunk_offsets[word + 1] - index.chunk_offsets[word]):
            start, blocks = chunk_of(index.block_offsets, word, chunk)
            # All messages of the word at once, so that its chunk stays in the cache.
            for probe in range(begin, end):
                numbers = probes.numbers[probe]
                bounds = index.chunk_bounds[index.chunk_offsets[word] + chunk]
                left = _pass_bounds(bounds, 0, 1, numbers)
                if left:
                    left = _pass_bounds(index.block_bounds, start * BOUNDS, blocks, numbers)
                while left:
                    block = chunk * BLOCK + _lowest_bit(left)
                    left &= left - np.uint64(1)
                    first, count = block_of(index.posting_offsets, word, block)
                    passed = _pass_postings(index, first, count, numbers, probes.later[probe])
                    while passed:
                        hits[size, 0] = first + _lowest_bit(passed)
                        hits[size, 1] = probe
                        passed &= passed - np.uint64(1)
                        size += 1
                    # The next block may add BLOCK hits.
                    if size > HITS - BLOCK:
                        rows, owners = with_room(rows, pairs + size), with_room(owners, pairs + size)
                        values = with_room(values, pairs + size)
                        pairs = _score(index, messages, probes, hits, size, rows, owners, values, pairs)
                        scored, size = scored + size, 0
        begin = end
    rows, owners, values = (
        with_room(rows, pairs + size),
        with_room(owners, pairs + size),
        with_room(values, pairs + size),
    )
    pairs = _score(index, messages, probes, hits, size, rows, owners, values, pairs)
    return rows[:pairs].copy(), owners[:pairs].copy(), values[:pairs].copy(), scored + size


@kernel
def _lowest_bit(bits):
    """Return the number of the lowest bit that is set, of at least one."""
    # The ones of this word are the zeros below the lowest one.
    return np.int64(count_bits(~bits & (bits - np.uint64(1))))


@kernel
def _pass_bounds(bounds, base, count, probe):
    """Return a bit for each of `count` blocks or chunks in which the message of a probe may enter a subscription."""
    x, y, z, w, norm, total, most = probe[0], probe[1], probe[2], probe[3], probe[4], probe[5], probe[6]
    west, east = bounds[base + fields.WEST * count :], bounds[base + fields.EAST * count :]
    south, north = bounds[base + fields.SOUTH * count :], bounds[base + fields.NORTH * count :]
    bottom, top = bounds[base + fields.BOTTOM * count :], bounds[base + fields.TOP * count :]
    rates, alphas = bounds[base + fields.BOUND_RATE * count :], bounds[base + fields.BOUND_ALPHA * count :]
    weights, norms = bounds[base + fields.BOUND_WEIGHT * count :], bounds[base + fields.BOUND_NORM * count :]
    sums, greatest = bounds[base + fields.BOUND_SUM * count :], bounds[base + fields.BOUND_GREATEST * count :]
    needs = bounds[base + fields.BOUND_NEED * count :]
    passed = np.uint64(0)
    for at in range(count):
        dx = max(max(west[at] - x, x - east[at]), ZERO)
        dy = max(max(south[at] - y, y - north[at]), ZERO)
        dz = max(max(bottom[at] - z, z - top[at]), ZERO)
        chord = max(np.sqrt(dx * dx + dy * dy + dz * dz) - PLACE_ERROR, ZERO)
        tail = min(min(norms[at] * norm, sums[at] * most), greatest[at] * total)
        score = weights[at] * w + tail - min(rates[at] * _least_angle(chord), alphas[at])
        passed |= np.uint64(score >= needs[at]) << np.uint64(at)
    return passed


@kernel
def _pass_postings(index, first, count, probe, later):
    """Return a bit for each of `count` postings whose subscription the message of a probe may enter."""
    x, y, z, w, norm, total, most = probe[0], probe[1], probe[2], probe[3], probe[4], probe[5], probe[6]
    numbers, base = index.numbers, first * FIELDS
    xs, ys, zs = (
        numbers[base + fields.X * count :],
        numbers[base + fields.Y * count :],
        numbers[base + fields.Z * count :],
    )
    rates, alphas = numbers[base + fields.RATE * count :], numbers[base + fields.ALPHA * count :]
    weights, norms = numbers[base + fields.WEIGHT * count :], numbers[base + fields.NORM * count :]
    sums, greatest = numbers[base + fields.SUM * count :], numbers[base + fields.GREATEST * count :]
    needs, signatures = numbers[base + fields.NEED * count :], index.signatures[first:]
    passed = np.uint64(0)
    for at in range(count):
        dx, dy, dz = xs[at] - x, ys[at] - y, zs[at] - z
        chord = max(np.sqrt(dx * dx + dy * dy + dz * dz) - PLACE_ERROR, ZERO)
        tail = min(min(norms[at] * norm, sums[at] * most), greatest[at] * total)
        # Without a bit in common, no word after this one is shared.
        tail = tail if signatures[at] & later else ZERO
        score = weights[at] * w + tail - min(rates[at] * _least_angle(chord), alphas[at])
        passed |= np.uint64(score >= needs[at]) << np.uint64(at)
    return passed


@kernel
def _least_angle(chord):
    """Return a lower bound of the angle of a chord of the unit sphere: the beginning of the series of 2 asin(c / 2)."""
    square = chord * chord
    return chord + chord * square * (THIRD + square * FIFTH)


@kernel
def _score(index, messages, probes, hits, size, rows, owners, values, pairs):
    """Write the pairs among the first `size` hits whose value is good enough; return how many pairs there are then."""
    # Each loop fetches what the next ones read.
    for at in range(size):
        prefetch(index.subscriptions, hits[at, 0])
    for at in range(size):
        hits[at, 0] = index.subscriptions[hits[at, 0]]
        prefetch(index.word_offsets, hits[at, 0])
        prefetch(index.squares, hits[at, 0])
        prefetch(index.thresholds, hits[at, 0])
        prefetch(index.records, hits[at, 0])
    for at in range(size):
        prefetch(index.words, index.word_offsets[hits[at, 0]])
    for at in range(size):
        row, message = hits[at, 0], probes.messages[hits[at, 1]]
        first, end = probes.own_offsets[message], probes.own_offsets[message + 1]
        if end - first <= MANY_WORDS:
            shared = _shared_square(index, row, probes, message, probes.words[hits[at, 1]])
        else:
            own = index.words[index.word_offsets[row] : index.word_offsets[row + 1]]
            shared = _search_shared(own, probes.own_words[first:end], index.weights, probes.words[hits[at, 1]])
        if shared < 0.0:
            continue
        lon, lat, alpha, scale = index.records[row]
        text = (1.0 - alpha) * cosine_of(shared, index.squares[row], messages.squares[message])
        # The text first: without it, most hits are below the threshold wherever they are.
        if -(alpha + text) > index.thresholds[row] + 1e-6:
            continue
        place = place_score(lon, lat, messages.points[message, 0], messages.points[message, 1], alpha, scale)
        value = np.float32(-(place + text))
        if value <= index.thresholds[row]:
            rows[pairs], owners[pairs], values[pairs] = row, message, value
            pairs += 1
    return pairs


@kernel
def _shared_square(index, row, probes, message, word):
    """Return the sum of the squared weights of the shared words; -1 if one of them comes before `word`."""
    own, stop = index.word_offsets[row], index.word_offsets[row + 1]
    other, end = probes.own_offsets[message], probes.own_offsets[message + 1]
    shared = 0.0
    while own < stop and other < end:
        mine, its = index.words[own], probes.own_words[other]
        if mine == its:
            # The probe of the earlier word has the pair.
            if mine < word:
                return -1.0
            weight = np.float64(index.weights[mine])
            shared += weight * weight
        own += mine <= its
        other += its <= mine
    return shared


@kernel
def _search_shared(own, others, weights, word):
    """Return what `_shared_square` does, by a search for each word of a subscription among many of a message."""
    shared, place = 0.0, 0
    for mine in own:
        place = gallop(others, place, len(others), mine)
        if place < len(others) and others[place] == mine:
            if mine < word:
                return -1.0
            weight = np.float64(weights[mine])
            shared += weight * weight
    return shared
