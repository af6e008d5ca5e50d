"""Declare the arrays of a segment of the `topk` index, and the one test of its postings, blocks and chunks.

A posting is a subscription in the list of one of its words. The words have one order, rarest first. A pair of a message
and a subscription is tested at its rarest shared word, where its score is at least the threshold only if

    weight * w + tail - min(rate * d, alpha) >= need

w is the message's weight of the word, d the distance in Earth radii, `need` the threshold less alpha. `tail` bounds
what the words after this one add to the cosine: the least of norm * norm, sum * greatest and greatest * sum of the
weights after it, the first of the subscription and the second of the message (Cauchy-Schwarz; Skype, Equation 5).
Weights of subscriptions are multiplied by 1 - alpha, and all vectors have length 1. `min(rate * d, alpha)` is the clamp
of the score: far objects with a good text count.

A block is up to BLOCK postings of a word that are alike, a chunk up to BLOCK blocks. Blocks and chunks have bounds of
the same numbers, so the test is the same: the greatest weights, the least rate, alpha and need, and a box around the
places, which are points in space on the unit sphere, so that neither poles nor the antimeridian are special.

The test is in float32. `need` is lowered by MARGIN and distances by PLACE_ERROR, more than it rounds; then the exact
score decides.

Skype's own forms are not built: the ten groups by alpha, the cells of at most 1,000 subscriptions, and CIQ, with which
the paper compares itself.
"""

import math
from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel

BLOCK = 64
"""Postings of a block, and blocks of a chunk: the bits of the word that a test of all of them returns."""

MARGIN = 3e-6
PLACE_ERROR = np.float32(2e-7)
"""More than the length of the difference of two points is rounded, each of which has coordinates in float32."""

FULL_NEED = -4.0
"""The need of a subscription that every message enters which shares a word: below every score less alpha."""

X, Y, Z, RATE, ALPHA, WEIGHT, NORM, SUM, GREATEST, NEED = range(10)
FIELDS = 10
"""Numbers of a posting."""

WEST, EAST, SOUTH, NORTH, BOTTOM, TOP = range(6)
BOUND_RATE, BOUND_ALPHA, BOUND_WEIGHT, BOUND_NORM, BOUND_SUM, BOUND_GREATEST, BOUND_NEED = range(6, 13)
BOUNDS = 13
"""Numbers of a block and of a chunk: the ends of the box on three axes, then the bounds."""

PROBE_FIELDS = 7
"""Numbers of a probe (a word of a message): its place on three axes, its weight, and of the words after it the norm,
the sum and the greatest weight.
"""


class IndexArrays(NamedTuple):
    """The arrays of n subscriptions with W words, m words of their own in all, M postings, B blocks and C chunks.

    keys             int64[n]      request keys of the subscriptions, ascending
    records          float64[n,4]  longitude, latitude, alpha, scale of distances in metres
    squares          float32[n]    sum of the squared weights of the words
    thresholds       float32[n]    greatest value that enters, a score below 0; infinity: all enter; -infinity: none
    word_offsets     int32[n+1]    slice of `words` of each subscription
    words            int32[m]      its words, ascending
    places           int32[m]      the posting of each of its words, -1: another unit of the plan has it, or none
    ids              int64[W]      term ids of the words, in their order: greatest weight first, then by id
    weights          float32[W]    their weights
    table            int64[2^b,2]  the word of each term id (kernels/matching/postings.py)
    posting_offsets  int32[W+1]    slice of the postings of each word
    block_offsets    int32[W+1]    slice of its blocks
    chunk_offsets    int32[W+1]    slice of its chunks
    numbers          float32[M*FIELDS]  of the postings: the fields of a block one after another, as the next
    signatures       uint64[M]     of the words of the subscription after this one, a bit for each
    subscriptions    int32[M]      the subscription of each posting
    block_bounds     float32[B*BOUNDS]  of the blocks: the fields of a chunk one after another
    chunk_bounds     float32[C,BOUNDS]
    """

    keys: np.ndarray
    records: np.ndarray
    squares: np.ndarray
    thresholds: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray
    places: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    table: np.ndarray
    posting_offsets: np.ndarray
    block_offsets: np.ndarray
    chunk_offsets: np.ndarray
    numbers: np.ndarray
    signatures: np.ndarray
    subscriptions: np.ndarray
    block_bounds: np.ndarray
    chunk_bounds: np.ndarray


@kernel
def point_in_space(lon: float, lat: float) -> tuple[np.float32, np.float32, np.float32]:
    """Return a place in degrees as a point on the unit sphere."""
    lon, lat = math.radians(lon), math.radians(lat)
    level = math.cos(lat)
    return np.float32(level * math.cos(lon)), np.float32(level * math.sin(lon)), np.float32(math.sin(lat))


@kernel
def need_of(threshold: np.float32, alpha: float) -> np.float32:
    """Return the need of a subscription with this threshold, lowered by MARGIN; infinity: no message enters."""
    if threshold == -np.inf:
        return np.float32(np.inf)
    return np.float32(max(-float(threshold) - alpha - MARGIN, FULL_NEED))


@kernel
def signature_of(term: int) -> np.uint64:
    """Return the bit of a word; term ids are hashes."""
    return np.uint64(1) << np.uint64(term & 63)
