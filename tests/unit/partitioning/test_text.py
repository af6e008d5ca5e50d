"""Use of terms, dealing them, and what the text planners make of it, against counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.cost.load_model import CostModel, worker_loads
from pststream.domain.planner_sample import WorkloadSample
from pststream.kernels.planning.assign_terms import assign_by_frequency, assign_by_metric, transpose
from pststream.partitioning import hypergraph
from pststream.partitioning.registry import make_plan
from pststream.samples.sample_terms import TermUse, collect_term_use
from tests.plans import TERMS, make_sample, pack, same_plan, samples, unpack

RATES = (0.5, 2.0, 3.0)
AFFINITY = 4.0


@settings(max_examples=60, deadline=None)
@given(samples())
def test_use_of_terms_is_what_counting_finds(sample: WorkloadSample) -> None:
    use = collect_term_use(sample)
    assert use.ids.tolist() == sorted(set(sample.post_terms.tolist()))
    live = [[t for t in terms if t in set(use.ids.tolist())] for terms in unpack(sample.term_offsets, sample.terms)]
    assert [use.ids[terms].tolist() for terms in unpack(use.object_offsets, use.object_terms)] == live
    posted: dict[int, set[int]] = {}
    for key, terms in zip(sample.piece_key.tolist(), unpack(sample.post_offsets, sample.post_terms)):
        posted.setdefault(key, set()).update(terms)
    found = [use.ids[terms].tolist() for terms in unpack(use.subscription_offsets, use.subscription_terms)]
    assert found == [sorted(posted[key]) for key in sorted(posted)]
    assert use.objects.tolist() == [sum(t in terms for terms in live) for t in use.ids.tolist()]
    read = dict.fromkeys(use.ids.tolist(), 0)
    for term, count in zip(sample.terms.tolist(), sample.reads.tolist()):
        if term in read:
            read[term] += count
    assert use.reads.tolist() == list(read.values())
    assert use.subscriptions.tolist() == [sum(t in terms for terms in posted.values()) for t in use.ids.tolist()]


def load(objects: float, subscriptions: float) -> float:
    return RATES[0] * objects * subscriptions + RATES[1] * objects + RATES[2] * subscriptions


POSTING = 0.25


def deal_slowly(use: TermUse, order: list[int], given: list[int], workers: int) -> list[int]:
    """`assign_by_metric` with sets."""
    sides = [unpack(use.object_offsets, use.object_terms), unpack(use.subscription_offsets, use.subscription_terms)]
    have: list[list[set[int]]] = [[set() for _ in sides] for _ in range(workers)]
    dealt, reads = [-1] * len(order), [0.0] * workers
    for term in order:
        new = [{row for row, terms in enumerate(side) if term in terms} for side in sides]
        scores = []
        for mine, read in zip(have, reads):
            before = load(*map(len, mine)) + read
            after = load(*(len(a | b) for a, b in zip(mine, new))) + read + POSTING * float(use.reads[term])
            scores.append(after + AFFINITY * (after - before))
        best = given[term] if given[term] >= 0 else scores.index(min(scores))
        dealt[term] = best
        have[best] = [a | b for a, b in zip(have[best], new)]
        reads[best] += POSTING * float(use.reads[term])
    return dealt


@settings(max_examples=60, deadline=None)
@given(samples(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_dealing_by_spread_equals_its_slow_twin(sample: WorkloadSample, workers: int, seed: int) -> None:
    use, rng = collect_term_use(sample), np.random.default_rng(seed)
    order = rng.permutation(len(use.ids))
    given = np.where(rng.random(len(order)) < 0.3, rng.integers(0, workers, len(order)), -1).astype(np.int32)
    rows = (use.object_offsets, use.object_terms, use.subscription_offsets, use.subscription_terms)
    dealt = assign_by_metric(order, given, *rows, POSTING * use.reads, workers, *RATES, AFFINITY)
    assert dealt.tolist() == deal_slowly(use, order.tolist(), given.tolist(), workers)


def test_dealing_by_frequency() -> None:
    order, objects, nothing = np.array([1, 2, 3, 0]), np.array([1, 9, 4, 4]), np.zeros(4)
    assert assign_by_frequency(order, objects, nothing, nothing, 2, *RATES).tolist() == [1, 0, 1, 1]
    reads = np.array([0.0, 0.0, 100.0, 0.0])
    assert assign_by_frequency(order, objects, nothing, reads, 2, *RATES).tolist() == [0, 0, 1, 0]


@given(st.lists(st.sets(st.integers(0, 9)), max_size=20))
def test_transpose(rows: list[set[int]]) -> None:
    offsets, columns = pack([sorted(row) for row in rows])
    found = unpack(*transpose(offsets, columns.astype(np.int32), 10))
    assert found == [[i for i, row in enumerate(rows) if column in row] for column in range(10)]


def test_more_words_than_the_hypergraph_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms beyond the greatest and nets beyond the sample change the plan's quality, never its order of input."""
    monkeypatch.setattr(hypergraph, "MAX_VERTICES", 6)
    monkeypatch.setattr(hypergraph, "MAX_PINS", 30)
    rng = np.random.default_rng(1)
    words = [rng.choice(TERMS, 4, replace=False).tolist() for _ in range(200)]
    boxes = [(x, y, x + 1.0, y + 1.0) for x, y in rng.random((200, 2)).tolist()]
    points = [(x, y) for x, y in rng.random((200, 2)).tolist()]
    cost = CostModel(5e-9, 4e-6, 1e-5, 5e-6)
    sample = make_sample(points, words, boxes, words)
    backwards = make_sample(points[::-1], words[::-1], boxes[::-1], words[::-1])
    plan = make_plan("hypergraph", sample, 3, cost)
    assert same_plan(plan, make_plan("hypergraph", backwards, 3, cost))
    assert worker_loads(sample, plan, cost).imbalance < 2
