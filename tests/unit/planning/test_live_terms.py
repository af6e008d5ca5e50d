"""Terms of sampled objects without a posting nearby, against a loop over objects, and how often one stays by chance."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings

from pststream.planning.live_terms import drop_terms_without_postings
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.plans import make_sample, samples, unpack


@settings(max_examples=60, deadline=None)
@given(samples())
def test_a_whole_sample_keeps_the_terms_that_read_a_posting(drawn: WorkloadSample) -> None:
    sample = replace(drawn, subscription_scale=1.0)
    left = drop_terms_without_postings(sample)
    reads = unpack(sample.term_offsets, sample.reads)
    expected = []
    for lon, lat, terms, of_terms in zip(sample.lon, sample.lat, unpack(sample.term_offsets, sample.terms), reads):
        kept = [(term, count) for term, count in zip(terms, of_terms) if count]
        if kept:
            expected.append((lon, lat, kept))
    columns = (unpack(left.term_offsets, values) for values in (left.terms, left.reads))
    words = [list(zip(*pair)) for pair in zip(*columns)]
    assert list(zip(left.lon, left.lat, words)) == expected
    assert (left.pieces, left.object_scale) == (sample.pieces, sample.object_scale)


def test_a_term_without_a_sampled_posting_stays_by_chance() -> None:
    """One of 2,000 objects with a term reads its single posting, the others are far away; another term is unposted."""
    places = [(0.5, 0.5), *[(60.0, 20.0)] * 1_999]
    sample = make_sample(places, [[1, 2]] * 2_000, [(0.0, 0.0, 1.0, 1.0)], [[1]])
    assert sample.reads.sum() == POSTING_READS
    expected = {1.0: 1, 401.0: 1 + 1_999 * (1 - exp(-400 / 2_000))}
    for scale, terms in expected.items():
        left = drop_terms_without_postings(replace(sample, subscription_scale=scale))
        assert set(left.terms.tolist()) == {1}
        assert len(left.terms) == left.objects == pytest.approx(terms, rel=0.1)
        assert np.array_equal(left.lon[:1], [0.5])
