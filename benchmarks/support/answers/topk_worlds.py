"""Make worlds of `topk` subscriptions whose thresholds are those of full buffers, and messages, as arrays.

The thresholds are found by sending the messages of a window through one index: after each part of them, a subscription
keeps its best values, and its threshold is the last of them, as in a buffer that never loses a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.support.measured_homes import Stream, draw_topk
from pststream.answers.scored_index import Messages, ScoredIndex, ScoredSubscriptions, take_rows
from pststream.answers.topk_units import as_sample, take_messages
from pststream.pipeline.calibrate.synthetic_homes import QueryWords
from pststream.planning.papers.topk_sample import TopkSample
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids

PART, FIRST_PART = 50_000, 100
"""Messages that pass between two changes of the thresholds; fewer at first, when most messages enter."""

SLICE = 500_000
"""Subscriptions whose buffers are filled at once."""


@dataclass(frozen=True)
class TopkWorld:
    """Subscriptions with thresholds, messages to measure, and those of the window, from which plans are made."""

    subscriptions: ScoredSubscriptions
    messages: Messages
    window: Messages

    def sample(self, messages: int) -> TopkSample:
        """Return all subscriptions, and the last messages of the window, as a sample."""
        return as_sample(self.subscriptions, take_messages(self.window, slice(-messages, None)))

    def first(self, subscriptions: int) -> "TopkWorld":
        """Return the world without the other subscriptions; the thresholds of the first ones do not depend on them."""
        return replace(self, subscriptions=take_rows(self.subscriptions, np.arange(subscriptions)))


def make_worlds(
    stream: Stream, sizes: tuple[int, int, int], kept: Sequence[int], words: QueryWords, seed: int
) -> list[TopkWorld]:
    """Make a world for each size of the buffers; the worlds differ in the thresholds alone.

    sizes  subscriptions, messages of the window, messages to measure
    kept   entries of a buffer, the last of which is the threshold

    A word weighs ln(1 + N / df) by the messages of the window, as with term statistics.
    """
    count, stored, measured = sizes
    source, window = stream.draw(min(stored, 200_000), seed + 77), stream.draw(stored, seed)
    weights = _Weights(window)
    drawn = draw_topk(source, count, 1, {"window_objects": stored}, words, seed)
    subscriptions = _subscriptions(drawn, weights)
    sent, messages = _messages(window, weights), _messages(stream.draw(measured, seed + 5), weights)
    thresholds = _fill(subscriptions, sent, kept)
    return [TopkWorld(subscriptions._replace(threshold=some), messages, sent) for some in thresholds]


class _Weights:
    def __init__(self, window: SyntheticObjects) -> None:
        self._objects = len(window.lon)
        self._terms, self._counts = np.unique(term_ids(window.terms), return_counts=True)

    def of_terms(self, terms: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(self._terms, terms), len(self._terms) - 1)
        counts = np.where(self._terms[place] == terms, self._counts[place], 1)
        return np.log1p(self._objects / counts).astype(np.float32)


def _subscriptions(drawn: dict[str, Any], weights: _Weights) -> ScoredSubscriptions:
    clauses = drawn["clauses"]
    terms = clauses.flatten().flatten().to_numpy()
    lon, lat, alpha, scale = (drawn[name].to_numpy() for name in ("lon", "lat", "alpha", "distance_scale_m"))
    offsets, thresholds = clauses.offsets.to_numpy().astype(np.int64), np.full(len(clauses), np.inf, np.float32)
    keys = np.arange(len(clauses))
    return ScoredSubscriptions(keys, lon, lat, alpha, scale, thresholds, offsets, terms, weights.of_terms(terms))


def _messages(objects: SyntheticObjects, weights: _Weights) -> Messages:
    keys, terms = np.arange(len(objects.lon)), term_ids(objects.terms)
    return Messages(keys, keys, objects.lon, objects.lat, objects.term_offsets, terms, weights.of_terms(terms))


def _fill(subscriptions: ScoredSubscriptions, messages: Messages, kept: Sequence[int]) -> np.ndarray:
    """Return the value of the `kept`-th best message of each subscription, infinity if it has fewer: float32[k, n].

    Each slice of SLICE subscriptions is filled on its own: the buffers of all would take gigabytes.
    """
    keys = np.arange(len(subscriptions.key))
    slices = [keys[first : first + SLICE] for first in range(0, len(keys), SLICE)]
    return np.hstack([_fill_slice(take_rows(subscriptions, some), messages, kept) for some in slices])


def _fill_slice(subscriptions: ScoredSubscriptions, messages: Messages, kept: Sequence[int]) -> np.ndarray:
    count, size, first, part = len(subscriptions.key), max(kept), 0, FIRST_PART
    index, buffers = ScoredIndex(), np.empty(0, np.uint64)
    index.insert(subscriptions._replace(key=np.arange(count)))
    while first < len(messages.key):
        candidates = index.find_candidates(take_messages(messages, slice(first, first + part)))
        buffers = np.concatenate([buffers, _pack(candidates.subscription, candidates.value)])
        buffers.sort()
        owners, ranks = _rank(buffers)
        index.change_thresholds(owners[ranks == size - 1], _unpack(buffers[ranks == size - 1]))
        buffers = buffers[ranks < size]
        first, part = first + part, min(2 * part, PART)
    owners, ranks = _rank(buffers)
    thresholds = np.full((len(kept), count), np.inf, np.float32)
    for row, entries in enumerate(kept):
        is_last = ranks == entries - 1
        thresholds[row, owners[is_last]] = _unpack(buffers[is_last])
    return thresholds


def _rank(buffers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the owner of each entry of sorted buffers, and its rank from 0: int64[n] each."""
    owners = (buffers >> np.uint64(32)).astype(np.int64)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners, np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))


def _pack(owners: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the entries of buffers, which sort by owner and then by value: uint64[n].

    The low half is an integer in the order of the values.
    """
    bits = values.view(np.uint32)
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return (owners.astype(np.uint64) << np.uint64(32)) | ordered


def _unpack(packed: np.ndarray) -> np.ndarray:
    """Return the values of entries: float32[n]."""
    ordered = packed.astype(np.uint32)
    return np.where(ordered >> 31, ordered ^ np.uint32(1 << 31), ~ordered).view(np.float32)
