"""The sample that the planners of DSkype get: `topk` subscriptions with their thresholds, and messages, as arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.planning.papers.loose_prefix import mark_prefix
from pststream.planning.papers.search_costs import estimate_shares


@dataclass(frozen=True)
class TopkSample:
    """Sampled `topk` subscriptions, n of them, and messages, q of them; the order of rows has no meaning.

    keys             int64[n]    keys of the subscriptions
    lon, lat         float64[n]  degrees
    alpha            float64[n]  share of the place in the score
    thresholds       float32[n]  greatest value (negative score) that enters; infinity: all that share a word
    offsets          int64[n+1]  slice of `terms` of each subscription
    terms            int64[m]    term ids of its words, each once
    weights          float32[m]  their weights
    message_lon, message_lat      float64[q]
    message_offsets, message_terms   int64[q+1], int64[]: the words of each message, each once
    subscription_scale            subscriptions for each sampled one (>= 1)
    """

    keys: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    alpha: np.ndarray
    thresholds: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray
    message_lon: np.ndarray
    message_lat: np.ndarray
    message_offsets: np.ndarray
    message_terms: np.ndarray
    subscription_scale: float = 1.0

    @property
    def subscriptions(self) -> int:
        """Number of sampled subscriptions."""
        return len(self.keys)

    @property
    def messages(self) -> int:
        """Number of sampled messages."""
        return len(self.message_lon)

    @cached_property
    def owners(self) -> np.ndarray:
        """The subscription of each of `terms`: int64[m]."""
        return np.repeat(np.arange(self.subscriptions), np.diff(self.offsets))

    @cached_property
    def message_owners(self) -> np.ndarray:
        """The message of each of `message_terms`."""
        return np.repeat(np.arange(self.messages), np.diff(self.message_offsets))

    @cached_property
    def in_prefix(self) -> np.ndarray:
        """Which of `terms` are in the loose prefix of their subscription: bool[m]."""
        return mark_prefix(self.alpha, self.thresholds, self.offsets, self.terms, self.weights)

    @cached_property
    def words(self) -> np.ndarray:
        """All words of the sample, the least frequent in messages first, then by id: int64[w]."""
        return self._counted[0]

    @cached_property
    def shares(self) -> np.ndarray:
        """The estimated share of all messages with each of `words`: float64[w]."""
        return estimate_shares(self._counted[1], self.messages)

    @cached_property
    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        words = distinct_values(np.concatenate([self.terms, self.message_terms]))
        counts = np.bincount(np.searchsorted(words, self.message_terms), minlength=len(words))
        order = np.lexsort((words, counts))
        return words[order], counts[order]
