"""Build a segment of the `topk` index from arrays of subscriptions, and return its subscriptions as arrays."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pststream.base.sorted_keys import distinct_values
from pststream.kernels.matching.term_table import make_term_table
from pststream.kernels.questions.build_segment import gather_rows, number_terms
from pststream.kernels.questions.text_weights import sum_squares
from pststream.kernels.scored.fill_blocks import bound_blocks, fill_blocks
from pststream.kernels.scored.index_arrays import BLOCK, IndexArrays
from pststream.kernels.scored.measure_postings import measure_postings, order_postings, sort_words

MAX_POSTINGS = (1 << 31) - 1


class ScoredSubscriptions(NamedTuple):
    """Subscriptions of the kind `topk`, n of them in any order.

    key        int64[n]    request key of the insertion
    lon, lat   float64[n]  degrees
    alpha      float64[n]  share of the place in the score, 0 to 1
    scale      float64[n]  distance from which on the place gives nothing, metres
    threshold  float32[n]  greatest value that enters (answers/contract.py); infinity: all that share a word; -infinity:
               none
    offsets    int64[n+1]  slice of `terms` of each subscription
    terms      int64[m]    term ids of its words, each once
    weights    float32[m]  their weights, above 0; a word has one weight in all subscriptions
    """

    key: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    alpha: np.ndarray
    scale: np.ndarray
    threshold: np.ndarray
    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray


Marks = Callable[[ScoredSubscriptions], np.ndarray]
"""Returns which words of subscriptions have postings in an index: bool[m]."""


def build_scored_segment(subscriptions: Sequence[ScoredSubscriptions], marks: Marks | None = None) -> IndexArrays:
    """Return the arrays of a segment (kernels/scored/index_arrays.py); keys are distinct. marks None: all words.

    Raises ValueError for 2^31 postings or more.
    """
    joined = _join(subscriptions)
    if len(joined.terms) > MAX_POSTINGS:
        raise ValueError(f"a segment of the topk index has at most {MAX_POSTINGS} postings, not {len(joined.terms)}")
    by_key = np.argsort(joined.key)
    columns = (joined.lon, joined.lat, joined.alpha, joined.scale)
    records = np.column_stack([column[by_key] for column in columns]).astype(np.float64, copy=False)
    thresholds = joined.threshold[by_key].astype(np.float32, copy=False)
    ids, weights, numbers = _in_order(joined.terms, joined.weights)
    word_offsets, words = gather_rows(by_key, joined.offsets, numbers)
    sort_words(word_offsets, words)
    squares = sum_squares(word_offsets, words, weights)
    rows, signatures = measure_postings(records, squares, thresholds, word_offsets, words, ids, weights)
    posted: slice | np.ndarray = slice(None)
    if marks is not None:
        sorted_ = (joined.key[by_key], *records.T, thresholds, word_offsets, ids[words], weights[words])
        posted = np.flatnonzero(marks(ScoredSubscriptions(*sorted_))).astype(np.int32)
    posting_offsets = _offsets(np.bincount(words[posted], minlength=len(ids)))
    block_offsets = _offsets(-(-np.diff(posting_offsets) // BLOCK))
    chunk_offsets = _offsets(-(-np.diff(block_offsets) // BLOCK))
    order = order_postings(posting_offsets, words[posted], rows[posted])
    if isinstance(posted, np.ndarray):
        order = posted[order]
    places = np.full(len(words), -1, np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    owners = np.repeat(np.arange(len(by_key), dtype=np.int32), np.diff(word_offsets))
    filled = fill_blocks(posting_offsets, block_offsets, order, rows)
    block_bounds, chunk_bounds = bound_blocks(posting_offsets, block_offsets, chunk_offsets, filled)
    return IndexArrays(
        keys=joined.key[by_key],
        records=records,
        squares=squares,
        thresholds=thresholds,
        word_offsets=word_offsets,
        words=words,
        places=places,
        ids=ids,
        weights=weights,
        table=make_term_table(ids, np.arange(len(ids))),
        posting_offsets=posting_offsets,
        block_offsets=block_offsets,
        chunk_offsets=chunk_offsets,
        numbers=filled,
        signatures=signatures[order],
        subscriptions=owners[order],
        block_bounds=block_bounds,
        chunk_bounds=chunk_bounds,
    )


def subscriptions_of(index: IndexArrays) -> ScoredSubscriptions:
    """Return the subscriptions of a segment that a message may enter: those whose threshold is not -infinity."""
    return take_subscriptions(index, np.flatnonzero(index.thresholds > -np.inf))


def take_rows(subscriptions: ScoredSubscriptions, rows: np.ndarray) -> ScoredSubscriptions:
    """Return some subscriptions (int[n]), in the order of `rows`."""
    some = subscriptions
    offsets, places = gather_rows(rows, some.offsets, np.arange(len(some.terms), dtype=np.int32))
    columns = [column[rows] for column in some[:6]]
    return ScoredSubscriptions._make([*columns, offsets, some.terms[places], some.weights[places]])


def take_subscriptions(index: IndexArrays, rows: np.ndarray) -> ScoredSubscriptions:
    """Return the subscriptions of a segment in some rows: int[n]."""
    offsets, words = gather_rows(rows, index.word_offsets, index.words)
    lon, lat, alpha, scale = index.records[rows].T
    terms, weights = index.ids[words], index.weights[words]
    return ScoredSubscriptions(
        index.keys[rows], lon, lat, alpha, scale, index.thresholds[rows], offsets, terms, weights
    )


def rows_without_postings(index: IndexArrays, rows: np.ndarray, marks: Marks) -> np.ndarray:
    """Return those of some rows of a segment (int[n]) that lack a posting that `marks` asks for: int[]."""
    _, own = gather_rows(rows, index.word_offsets, np.arange(len(index.words), dtype=np.int32))
    chosen = take_subscriptions(index, rows)
    is_missing = marks(chosen) & (index.places[own] < 0)
    owner = np.repeat(np.arange(len(rows)), np.diff(chosen.offsets))
    return rows[distinct_values(owner[is_missing])]


def _join(parts: Sequence[ScoredSubscriptions]) -> ScoredSubscriptions:
    if len(parts) == 1:
        return parts[0]
    joined = ScoredSubscriptions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return joined._replace(offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def _in_order(terms: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct terms, greatest weight first and then by id, their weights, and the place of each term."""
    distinct, numbers = number_terms(terms)
    weight_of = np.empty(len(distinct), np.float32)
    weight_of[numbers] = weights
    order = np.lexsort((distinct, -weight_of))
    place_of = np.empty(len(distinct), np.int32)
    place_of[order] = np.arange(len(distinct), dtype=np.int32)
    return distinct[order], weight_of[order], place_of[numbers]


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
