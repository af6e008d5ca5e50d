"""The planners of terms against slow versions with sets, also where limits cut off terms and nets."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.arrays import hash_integers
from pststream.kernels.planning.assign_nodes import Rates
from pststream.kernels.planning.assign_terms import TermRows, assign_by_metric
from pststream.planning.live_terms import TermUse, collect_term_use
from pststream.planning.load_model import CostModel
from pststream.planning.planners import hypergraph, metric
from pststream.planning.planners.registry import make_plan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.fuzz.cases import examples
from tests.plans import TERMS, make_sample, samples, unpack

RATES = Rates(0.5, 2.0, 3.0)
AFFINITY = 4.0


def load(objects: float, subscriptions: float) -> float:
    return RATES[0] * objects * subscriptions + RATES[1] * objects + RATES[2] * subscriptions


POSTING = 0.25


def assign_slowly(use: TermUse, order: list[int], given: list[int], workers: int) -> list[int]:
    """`assign_by_metric` with sets."""
    sides = [unpack(use.object_offsets, use.object_terms), unpack(use.subscription_offsets, use.subscription_terms)]
    have: list[list[set[int]]] = [[set() for _ in sides] for _ in range(workers)]
    assigned, reads = [-1] * len(order), [0.0] * workers
    for term in order:
        new = [{row for row, terms in enumerate(side) if term in terms} for side in sides]
        scores = []
        for mine, read in zip(have, reads):
            before = load(*map(len, mine)) + read
            after = load(*(len(a | b) for a, b in zip(mine, new))) + read + POSTING * float(use.reads[term])
            scores.append(after + AFFINITY * (after - before))
        best = given[term] if given[term] >= 0 else scores.index(min(scores))
        assigned[term] = best
        have[best] = [a | b for a, b in zip(have[best], new)]
        reads[best] += POSTING * float(use.reads[term])
    return assigned


@examples(60)
@given(samples(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_by_metric_equals_its_slow_twin(sample: WorkloadSample, workers: int, seed: int) -> None:
    use, rng = collect_term_use(sample), np.random.default_rng(seed)
    order = rng.permutation(len(use.ids))
    given = np.where(rng.random(len(order)) < 0.3, rng.integers(0, workers, len(order)), -1).astype(np.int32)
    objects = TermRows(use.object_offsets, use.object_terms)
    subscriptions = TermRows(use.subscription_offsets, use.subscription_terms)
    assigned = assign_by_metric(order, given, objects, subscriptions, POSTING * use.reads, workers, RATES, AFFINITY)
    assert assigned.tolist() == assign_slowly(use, order.tolist(), given.tolist(), workers)


@examples(60)
@given(samples(), st.integers(1, 5))
def test_the_plan_of_metric_is_that_of_the_slow_twin(sample: WorkloadSample, workers: int) -> None:
    """The term with the most objects first; each subscription was inserted in the period."""
    sample = replace(sample, insertions=1.0, deletions=0.0, object_scale=1.0, subscription_scale=1.0)
    cost = CostModel(*RATES, delete=0.0, posting=POSTING * POSTING_READS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metric, "AFFINITY", AFFINITY)
        plan = make_plan("metric", sample, workers, cost)
    use = collect_term_use(sample)
    order = sorted(range(len(use.ids)), key=lambda term: -use.objects[term])
    assert plan.terms.tolist() == use.ids.tolist()
    assigned = assign_slowly(use, order, [-1] * len(order), workers)
    assert plan.unit_worker[plan.term_unit].tolist() == assigned


@examples(60)
@given(samples(), st.integers(1, 5))
def test_by_frequency_equals_its_slow_twin(sample: WorkloadSample, workers: int) -> None:
    """Each term, heaviest first, goes to the worker that has the least load with it."""
    plan = make_plan("frequency", sample, workers, CostModel(*RATES, delete=0.0, posting=POSTING))
    use, rates = collect_term_use(sample), CostModel(*RATES, delete=0.0, posting=POSTING).rates(sample)
    rows = list(zip(use.objects.tolist(), use.subscriptions.tolist(), use.reads.tolist()))

    def load_of(terms: list[int]) -> float:
        return float(rates.load(*(np.array(sum(rows[term][at] for term in terms)) for at in range(3))))

    owned: list[list[int]] = [[] for _ in range(workers)]
    for term in sorted(range(len(rows)), key=lambda term: -load_of([term])):
        loads = [load_of([*terms, term]) for terms in owned]
        owned[loads.index(min(loads))].append(term)
    owner = {term: worker for worker, terms in enumerate(owned) for term in terms}
    assert plan.terms.tolist() == use.ids.tolist()
    assert plan.unit_worker[plan.term_unit].tolist() == [owner[term] for term in range(len(rows))]


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
