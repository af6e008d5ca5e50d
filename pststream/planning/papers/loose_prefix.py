"""Find the loose prefix of `topk` subscriptions: the words at which a message that enters may be found."""

import numpy as np

from pststream.kernels.scored.index_arrays import FULL_NEED, MARGIN


def mark_prefix(
    alpha: np.ndarray, thresholds: np.ndarray, offsets: np.ndarray, terms: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return which words are in the loose prefix of their subscription: bool[m].

    alpha       float64[n]  share of the place in the score
    thresholds  float32[n]  greatest value that enters, a negative score; infinity: all that share a word
    offsets     int[n+1]    slice of `terms` of each subscription
    terms       int64[m]    its words, in any order
    weights     float32[m]  their weights

    The words of a subscription have the order of the index: the greatest weight first, then by id. The loose prefix is
    the shortest one without which no message enters: a message that shares only words after it scores less than the
    threshold, wherever it is. A prefix grows when the threshold loosens.

    Source: Skype, section 7.3.4 (Definition 12, Equation 18). Departures: the words after the prefix add to the cosine
    at most the norm of their weights, which is never greater than the paper's sum; the threshold is that of the buffer,
    as section 6.2 has it, and not the score of the k-th of Equation 18. MARGIN more than float32 rounds is left.
    """
    owner = np.repeat(np.arange(len(alpha)), np.diff(offsets))
    order = np.lexsort((terms, -weights, owner))
    squares = weights[order].astype(np.float64) ** 2
    before = np.append(0.0, np.cumsum(squares))
    rest = before[offsets[1:]][owner] - before[:-1]
    whole = before[offsets[1:]] - before[offsets[:-1]]
    need = np.maximum(-thresholds.astype(np.float64) - alpha - MARGIN, FULL_NEED)
    marked = np.empty(len(terms), bool)
    marked[order] = (1.0 - alpha[owner]) * np.sqrt(rest / whole[owner]) >= need[owner]
    return marked
