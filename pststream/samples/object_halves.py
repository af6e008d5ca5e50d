"""Divide the objects of a sample into two halves, so that a plan made from one is judged on the other."""

from dataclasses import replace

import numpy as np

from pststream.domain.integer_hash import hash_integers
from pststream.domain.planner_sample import WorkloadSample


def split_objects(sample: WorkloadSample) -> tuple[WorkloadSample, WorkloadSample]:
    """Return the sample twice, each time with about half of its objects and all subscriptions.

    The half of an object depends on its point alone, not on the order of the rows. Each object stands for as many
    objects of the period more as others were left out.
    """
    point = hash_integers(np.ascontiguousarray(sample.lon).view(np.int64), 1)
    point ^= hash_integers(np.ascontiguousarray(sample.lat).view(np.int64), 2)
    first = (hash_integers(point.view(np.int64)) >> np.uint64(63)).astype(bool)
    return keep_objects(sample, first), keep_objects(sample, ~first)


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
        reads=sample.reads[terms],
        object_scale=sample.object_scale * len(kept) / max(int(kept.sum()), 1),
    )
