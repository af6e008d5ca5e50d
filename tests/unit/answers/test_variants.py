"""The variants of the benchmark leave one pruning out each, and find the same pairs."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.support.answers.scored_variants import VARIANTS
from pststream.answers.scored_index import build_scored_segment
from pststream.base.arrays import read_only
from pststream.kernels.scored.find_candidates import MessageArrays, find_candidates, list_probes
from pststream.kernels.scored.index_arrays import IndexArrays
from tests.unit.answers.scored_index_worlds import as_messages, as_subscriptions, random_world, with_thresholds


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_finds_the_same_pairs(variant: Callable[[IndexArrays], IndexArrays]) -> None:
    rnd = random.Random(2)
    subscriptions, messages, weights = random_world(rnd, 2_000, 30)
    arrays = as_messages(messages, weights)
    squares = np.array([(arrays.weights[low:high].astype(float) ** 2).sum() for low, high in
                        zip(arrays.offsets, arrays.offsets[1:], strict=False)], np.float32)  # fmt: skip
    points, terms = np.column_stack([arrays.lon, arrays.lat]), read_only(arrays.terms)
    batch = MessageArrays(points, squares, arrays.offsets, terms)
    thresholds = with_thresholds(rnd, subscriptions, messages, weights)
    segment = build_scored_segment([as_subscriptions(thresholds, weights)])
    probes = list_probes(batch, segment.table, segment.ids, segment.weights)
    *found, scored = find_candidates(segment, batch, probes)
    *found_without, scored_without = find_candidates(variant(segment), batch, probes)
    assert sorted(zip(*found, strict=True)) == sorted(zip(*found_without, strict=True))
    assert len(found[0]) <= scored <= scored_without
