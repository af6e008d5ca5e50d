"""The hypergraph planner against its rules with sets, also where its limits cut off terms and nets."""

from collections import defaultdict

import numpy as np
import pytest

from pststream.base.arrays import hash_integers
from pststream.planning.live_terms import collect_term_use
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners import hypergraph, metric
from pststream.planning.planners.registry import make_plan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.plans import TERMS, identical_plans, make_sample, unpack
from tests.unit.kernels.test_assign_terms import AFFINITY, POSTING, RATES, assign_slowly

COST = CostModel(*RATES, delete=0.0, posting=POSTING * POSTING_READS)


def draw_sample(seed: int, count: int) -> WorkloadSample:
    """Objects and subscriptions with up to four terms, some of these with several boxes."""
    rng = np.random.default_rng(seed)
    words, posts = ([rng.choice(TERMS, rng.integers(0, 5), replace=False).tolist() for _ in range(count)] for _ in "op")
    keys = rng.integers(0, count, count).tolist()
    boxes = [(x, y, x + 1.0, y + 1.0) for x, y in rng.random((count, 2)).tolist()]
    points = [(x, y) for x, y in rng.random((count, 2)).tolist()]
    return make_sample(points, words, boxes, [posts[key] for key in keys], keys)


def whole_weights(weights: list[float]) -> np.ndarray:
    return np.array([max(round(weight * (2**29 / sum(weights))), 1) for weight in weights])


def partition_slowly(sample: WorkloadSample, workers: int) -> dict[int, int]:
    """Return the worker of each vertex's term: the hypergraph is made of sets, the partitioner is the planner's."""
    live = sorted(set(sample.post_terms.tolist()))
    posts = dict(zip(sample.piece_key.tolist(), unpack(sample.post_offsets, sample.post_terms)))
    objects, subscriptions = (
        [own for terms in rows if (own := frozenset(terms) & set(live))]
        for rows in (unpack(sample.term_offsets, sample.terms), posts.values())
    )
    pair, object_rate, subscription_rate = RATES
    costs = (
        object_rate + pair * len(subscriptions) / workers,
        subscription_rate + pair * len(objects) / workers,
    )
    weights = dict.fromkeys(live, 0.0)
    for rows, cost in zip((objects, subscriptions), costs):
        for term in (term for terms in rows for term in terms):
            weights[term] += cost
    for term, reads in zip(sample.terms.tolist(), sample.reads.tolist()):
        if term in weights:
            weights[term] += POSTING * reads
    vertices = sorted(sorted(live, key=lambda term: -weights[term])[: hypergraph.MAX_VERTICES])
    if workers == 1 or len(vertices) <= workers:
        return {}
    number = {term: at for at, term in enumerate(vertices)}
    nets = defaultdict[frozenset[int], float](float)
    for rows, cost in zip((objects, subscriptions), costs):
        for terms in rows:
            nets[frozenset(number[term] for term in terms if term in number)] += cost
    hashes = hash_integers(np.arange(len(vertices))).tolist()
    kept, pins = list[frozenset[int]](), 0
    for net in sorted((net for net in nets if len(net) > 1), key=lambda net: sum(hashes[at] for at in net) % 2**64):
        pins += len(net)
        if pins <= hypergraph.MAX_PINS:
            kept.append(net)
    kept.sort(key=len)
    figures = whole_weights([weights[term] for term in vertices]), [sorted(net) for net in kept]
    parts = hypergraph._partition(*figures, whole_weights([nets[net] for net in kept]), workers, seed=1)
    return dict(zip(vertices, parts.tolist()))


@pytest.mark.parametrize(("terms", "pins"), [(hypergraph.MAX_VERTICES, hypergraph.MAX_PINS), (6, 60), (9, 30)])
def test_the_plan_is_that_of_the_slow_twin(monkeypatch: pytest.MonkeyPatch, terms: int, pins: int) -> None:
    """The other terms go to workers by the metric, after those of the hypergraph, the most frequent first."""
    monkeypatch.setattr(hypergraph, "MAX_VERTICES", terms)
    monkeypatch.setattr(hypergraph, "MAX_PINS", pins)
    monkeypatch.setattr(metric, "AFFINITY", AFFINITY)
    partitioned = 0
    for seed in range(12):
        sample, workers = draw_sample(seed, 20 + 5 * seed), 1 + seed % 5
        plan, use = make_plan("hypergraph", sample, workers, COST), collect_term_use(sample)
        part_of = partition_slowly(sample, workers)
        given = [part_of.get(term, -1) for term in use.ids.tolist()]
        order = sorted(range(len(given)), key=lambda term: (given[term] < 0, -use.objects[term]))
        assert plan.terms.tolist() == use.ids.tolist()
        assert plan.unit_worker[plan.term_unit].tolist() == assign_slowly(use, order, given, workers), f"sample {seed}"
        partitioned += len(set(part_of.values())) > 1
    assert partitioned > 5


def test_more_terms_and_nets_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan does not depend on the order of the sample, even if terms and nets are cut off."""
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
    assert identical_plans(plan, make_plan("hypergraph", backwards, 3, cost))
    assert compute_worker_loads(sample, plan, cost).imbalance < 2
