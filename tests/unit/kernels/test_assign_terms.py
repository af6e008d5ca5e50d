"""Assigning terms to workers against a slow version with sets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.planning.assign_nodes import Rates
from pststream.kernels.planning.assign_terms import TermRows, assign_by_frequency, assign_by_metric
from pststream.kernels.sort_and_search import transpose
from pststream.planning.live_terms import TermUse, collect_term_use
from pststream.planning.load_model import CostModel
from pststream.planning.planners import metric
from pststream.planning.planners.registry import make_plan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.fuzz.cases import examples
from tests.plans import pack, samples, unpack

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


def test_by_frequency() -> None:
    order, objects, nothing = np.array([1, 2, 3, 0]), np.array([1, 9, 4, 4]), np.zeros(4)
    assert assign_by_frequency(order, objects, nothing, nothing, 2, RATES).tolist() == [1, 0, 1, 1]
    reads = np.array([0.0, 0.0, 100.0, 0.0])
    assert assign_by_frequency(order, objects, nothing, reads, 2, RATES).tolist() == [0, 0, 1, 0]


@given(st.lists(st.sets(st.integers(0, 9)), max_size=20))
def test_transpose(rows: list[set[int]]) -> None:
    offsets, columns = pack([sorted(row) for row in rows])
    rows_of_columns = unpack(*transpose(offsets, columns.astype(np.int32), 10))
    assert rows_of_columns == [[i for i, row in enumerate(rows) if column in row] for column in range(10)]
