"""The words of a message that an index of `topk` subscriptions has are ascending, however many there are."""

import numpy as np
import pytest

from pststream.base.arrays import read_only
from pststream.kernels.matching.postings import make_term_table
from pststream.kernels.scored.find_candidates import MANY_WORDS, MessageArrays, find_words

# A sort in quadratic time would take ten seconds for the last of them.
COUNTS = (0, 1, 2, MANY_WORDS, MANY_WORDS + 1, 3_000, 200_000)


@pytest.mark.parametrize("unknown", [0, 50])
def test_words_are_ascending(unknown: int) -> None:
    rng = np.random.default_rng(unknown)
    ids = np.unique(rng.integers(-(2**62), 2**62, COUNTS[-1] + unknown))
    order = rng.permutation(len(ids))
    known = order[: len(ids) - unknown]
    table = make_term_table(ids[known], np.arange(len(known)))
    words = [rng.choice(len(known), min(count, len(known)), replace=False) for count in COUNTS]
    # Words that the index lacks stand between the others.
    terms = [rng.permutation(np.append(ids[known[own]], ids[order[len(known) :]])) for own in words]
    offsets = np.append(0, np.cumsum([len(own) for own in terms]))
    count = len(COUNTS)
    squares = np.ones(count, np.float32)
    messages = MessageArrays(np.zeros((count, 2)), squares, offsets, read_only(np.concatenate(terms)))
    own_offsets, own_words = find_words(messages, table)
    assert [own_words[first:stop].tolist() for first, stop in zip(own_offsets, own_offsets[1:])] == [
        sorted(own.tolist()) for own in words
    ]
