"""Make worlds of `topk` subscriptions whose thresholds are those of full buffers, and messages, as arrays.

The thresholds are found by sending the messages of a window through one index: after each part of them, a subscription
keeps its best values, and its threshold is the last of them, as in a buffer that never loses a message.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pststream.benchmarks.support.answers.standing_worlds import QueryWords, Stream, draw_topk
from pststream.generator.synthetic_arrays import SyntheticObjects, term_ids
from pststream.partitioning.dskype.topk_sample import TopkSample
from pststream.scored_index.measure_units import as_sample, take_messages
from pststream.scored_index.scored_index import Messages, ScoredIndex
from pststream.scored_index.scored_segment import ScoredSubscriptions

PART, FIRST_PART = 50_000, 100
"""Messages that pass between two changes of the thresholds; fewer at first, when most messages enter."""


@dataclass(frozen=True)
class TopkWorld:
    """Subscriptions with thresholds, messages to measure, and those of the window, from which plans are made."""

    subscriptions: ScoredSubscriptions
    messages: Messages
    window: Messages

    def sample(self, messages: int) -> TopkSample:
        """Return all subscriptions, and the last messages of the window, as a sample."""
        return as_sample(self.subscriptions, take_messages(self.window, slice(-messages, None)))


def make_world(stream: Stream, sizes: tuple[int, int, int], kept: int, words: QueryWords, seed: int) -> TopkWorld:
    """Make a world.

    sizes  subscriptions, messages of the window, messages to measure
    kept   entries of a buffer, the last of which is the threshold

    A word weighs ln(1 + N / df) by the messages of the window, as with term statistics.
    """
    count, stored, measured = sizes
    source, window = stream.draw(min(stored, 200_000), seed + 77), stream.draw(stored, seed)
    weights = _Weights(window)
    drawn = draw_topk(source, count, 1, {"window_objects": stored}, words, seed)
    subscriptions = _subscriptions(drawn, weights)
    messages = _messages(window, weights)
    thresholds = _fill(subscriptions, messages, kept)
    return TopkWorld(
        subscriptions._replace(threshold=thresholds), _messages(stream.draw(measured, seed + 5), weights), messages
    )


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


def _fill(subscriptions: ScoredSubscriptions, messages: Messages, kept: int) -> np.ndarray:
    """Return the value of the `kept`-th best message of each subscription, infinity if it has fewer: float32[n]."""
    index, first, part = ScoredIndex(), 0, FIRST_PART
    index.insert(subscriptions)
    owners, values = np.empty(0, np.int64), np.empty(0, np.float32)
    while first < len(messages.key):
        candidates = index.find_candidates(take_messages(messages, slice(first, first + part)))
        owners, values = np.append(owners, candidates.subscription), np.append(values, candidates.value)
        order = np.lexsort((values, owners))
        owners, values = owners[order], values[order]
        rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
        is_last = rank == kept - 1
        index.change_thresholds(owners[is_last], values[is_last])
        owners, values = owners[rank < kept], values[rank < kept]
        first, part = first + part, min(2 * part, PART)
    thresholds = np.full(len(subscriptions.key), np.inf, np.float32)
    rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
    thresholds[owners[rank == kept - 1]] = values[rank == kept - 1]
    return thresholds
