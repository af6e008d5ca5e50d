"""Divide a sample into two halves, so that a plan made from one is judged on the other."""

from dataclasses import replace

import numpy as np

from pststream.base.integer_hash import hash_integers
from pststream.planning.posting_reads import keep_pieces
from pststream.plans.planner_sample import WorkloadSample

MOST_UNSAMPLED = 2.0
"""Subscriptions for each sampled one, from which on most of them are not in the sample."""

SALT = 31


def split_sample(sample: WorkloadSample) -> tuple[WorkloadSample, WorkloadSample]:
    """Return the sample twice, each time with about half of its objects.

    If most subscriptions are not in the sample, each half also has about half of the subscriptions; else both have all,
    as the next objects meet the same ones. The half of an object depends on its point alone, and that of a subscription
    on its key, not on the order of the rows. Each object or subscription stands for as many more as were left out.
    """
    point = hash_integers(np.ascontiguousarray(sample.lon).view(np.int64), 1)
    point ^= hash_integers(np.ascontiguousarray(sample.lat).view(np.int64), 2)
    first = _first_half(point.view(np.int64))
    halves = keep_objects(sample, first), keep_objects(sample, ~first)
    if sample.subscription_scale < MOST_UNSAMPLED:
        return halves
    mine = _first_half(sample.piece_key, SALT)
    return keep_subscriptions(halves[0], mine), keep_subscriptions(halves[1], ~mine)


def _first_half(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Return whether each value (int64[n]) belongs to the first half: bool[n]."""
    return (hash_integers(values, salt) >> np.uint64(63)).astype(bool)


def keep_objects(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with the same subscriptions and only the objects that `kept` (bool[objects]) marks."""
    lengths = np.diff(sample.term_offsets)
    terms = np.repeat(kept, lengths)
    return replace(
        sample,
        lon=sample.lon[kept],
        lat=sample.lat[kept],
        term_offsets=np.append(0, np.cumsum(lengths[kept])),
        terms=sample.terms[terms],
        postings=sample.postings[terms],
        reads=sample.reads[terms],
        object_scale=sample.object_scale * len(kept) / max(int(kept.sum()), 1),
    )


def keep_subscriptions(sample: WorkloadSample, kept: np.ndarray) -> WorkloadSample:
    """Return a sample with the same objects and only the pieces that `kept` (bool[pieces]) marks, all or none of a
    subscription; each stands for more subscriptions.
    """
    part = keep_pieces(sample, kept)
    left_out = sample.subscriptions / max(part.subscriptions, 1)
    return replace(part, subscription_scale=sample.subscription_scale * left_out)
