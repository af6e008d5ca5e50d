"""Find the `topk` subscriptions of a bucket that messages may enter, and keep their index up to date.

The index is a few segments, each several times larger than the next. New subscriptions become a small segment; segments
that are not much larger are built again together with it. Thresholds change in place. A deleted subscription keeps its
postings, which no message passes, until its segment is built again.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pststream.answers.contract import Values
from pststream.answers.scored_segment import (
    Marks,
    ScoredSubscriptions,
    build_scored_segment,
    rows_without_postings,
    subscriptions_of,
    take_subscriptions,
)
from pststream.base.read_only import read_only
from pststream.base.sorted_keys import find_among
from pststream.kernels.questions.text_weights import sum_squares
from pststream.kernels.scored.fill_blocks import change_thresholds
from pststream.kernels.scored.find_candidates import find_candidates
from pststream.kernels.scored.index_arrays import IndexArrays
from pststream.kernels.scored.message_words import MessageArrays, list_probes

RATIO = 4
"""A segment is at least this many times larger than the next one."""


class Messages(NamedTuple):
    """Objects of a batch, q of them in any order.

    key      int64[q]      object key
    ts       int64[q]      microseconds
    lon,lat  float64[q]    degrees
    offsets  int64[q+1]    slice of `terms` of each object, from 0
    terms    int64[]       term ids of all its words, each once
    weights  float32[]     their weights, in the version of the term statistics of the subscriptions
    """

    key: np.ndarray
    ts: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray


class ScoredIndex:
    """The index of the `topk` subscriptions of a bucket or of a unit of a plan, for one version of the term statistics.

    segments  the largest first
    marks     which words have postings; None: all
    """

    def __init__(self, segments: Iterable[IndexArrays] = (), marks: Marks | None = None) -> None:
        self.segments, self.marks = list(segments), marks

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions, without those that were removed."""
        return sum(int((segment.thresholds > -np.inf).sum()) for segment in self.segments)

    def insert(self, subscriptions: ScoredSubscriptions) -> None:
        """Add subscriptions, whose keys are not in the index."""
        if not len(subscriptions.key):
            return
        parts, size = [subscriptions], len(subscriptions.key)
        while self.segments and len(self.segments[-1].keys) < RATIO * size:
            parts.append(subscriptions_of(self.segments.pop()))
            size += len(parts[-1].key)
        self.segments.append(build_scored_segment(parts, self.marks))

    def delete(self, keys: np.ndarray) -> None:
        """Remove subscriptions by their keys (int64[n]); those that are not in the index are passed over."""
        self.change_thresholds(keys, np.full(len(keys), -np.inf, np.float32))

    def change_thresholds(self, keys: np.ndarray, thresholds: np.ndarray) -> None:
        """Set the thresholds of subscriptions; those that are not in the index, or deleted, are passed over.

        keys        int64[n]    each once
        thresholds  float32[n]  greatest value that enters; infinity: all that share a word
        """
        if np.isnan(thresholds).any():
            raise ValueError("a threshold is not a number")
        again = []
        for segment in self.segments:
            rows, known = _find_rows(segment, keys)
            change_thresholds(segment, rows[known], thresholds[known].astype(np.float32, copy=False))
            if self.marks is not None:
                again.append(_remove_lacking(segment, rows[known], self.marks))
        for subscriptions in again:
            self.insert(subscriptions)

    def holds(self, keys: np.ndarray) -> np.ndarray:
        """Return which subscriptions (keys int64[n]) are in the index and not deleted: bool[n]."""
        lives = np.zeros(len(keys), bool)
        for segment in self.segments:
            lives |= _find_rows(segment, keys)[1]
        return lives

    def find_candidates(self, messages: Messages) -> Values:
        """Return each pair of a subscription and a message that share a word and whose value is at most the threshold.

        The value is the negative score, as questions compute it. Memory: 20 bytes a pair.
        """
        offsets = messages.offsets.astype(np.int64, copy=False)
        squares = sum_squares(offsets, np.arange(len(messages.terms)), messages.weights)
        points = np.column_stack([messages.lon, messages.lat]).astype(np.float64, copy=False)
        arrays = MessageArrays(points, squares, offsets, read_only(messages.terms))
        pairs = [_search(segment, arrays) for segment in self.segments]
        if not pairs:
            pairs = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))]
        keys, rows, values = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        return Values(keys, messages.key[rows], messages.ts[rows], values)


def _find_rows(segment: IndexArrays, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each subscription in a segment, and whether it is there and not deleted: int64[n], bool[n]."""
    rows, known = find_among(keys, segment.keys)
    known[known] = segment.thresholds[rows[known]] > -np.inf
    return rows, known


def _remove_lacking(segment: IndexArrays, rows: np.ndarray, marks: Marks) -> ScoredSubscriptions:
    """Remove the subscriptions whose thresholds ask for more postings than they have, and return them.

    Source: Skype, section 7.3.4 (lazy reallocation): postings that are no longer needed stay.
    """
    lacking = rows_without_postings(segment, rows[segment.thresholds[rows] > -np.inf], marks)
    subscriptions = take_subscriptions(segment, lacking)
    change_thresholds(segment, lacking, np.full(len(lacking), -np.inf, np.float32))
    return subscriptions


def _search(segment: IndexArrays, messages: MessageArrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the key of the subscription, the row of the message, and the value of each pair."""
    probes = list_probes(messages, segment.table, segment.ids, segment.weights)
    rows, owners, values, _ = find_candidates(segment, messages, probes)
    return segment.keys[rows], owners, values
