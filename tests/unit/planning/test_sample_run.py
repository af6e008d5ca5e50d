"""The work that each worker would do for a sample, against a loop over workers, objects and pieces."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.base import names
from pststream.planning.live_terms import keep_pieces
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.auto import run_sample
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.oracles import dispatch as slow
from tests.oracles.posting_reads import weight
from tests.paper_samples import paper_sample
from tests.plans import make_sample, plans, quarters, samples, unpack

COST = CostModel(check=0.25, object=3.0, insert=5.0, delete=7.0, posting=2.0)
BY_SUBSCRIPTION = ("keyword_oriented", "space_oriented", "dkm_sks", "hash")
"""Planners whose plans the load model counts worker by worker."""


def slow_run(sample: WorkloadSample, plan: PartitionPlan) -> list[tuple[float, int, int]]:
    """Return the objects, subscriptions and reads of each worker."""
    posts, words = unpack(sample.post_offsets, sample.post_terms), unpack(sample.term_offsets, sample.terms)
    boxes = [tuple(box) for box in sample.boxes.tolist()]
    of_matches = [0] * sample.pieces if sample.match_reads is None else sample.match_reads.tolist()
    pieces = list(zip(sample.piece_key.tolist(), boxes, posts, of_matches))
    postings_of: dict[int, list[int]] = {}
    for term, postings in zip(sample.terms.tolist(), sample.postings.tolist()):
        postings_of.setdefault(term, []).append(postings)
    counts = []
    for worker in range(plan.workers):
        stored = [piece for piece in pieces if worker in slow.workers_of_piece(plan, piece[1], piece[2])]
        objects, reads = 0.0, 0
        for lon, lat, terms in zip(sample.lon.tolist(), sample.lat.tolist(), words):
            cell = slow.cell_of(plan.grid, lon, lat)
            mine = [term for term in terms if plan.unit_worker[slow.owner(plan, cell, term)] == worker]
            own = sum(
                weight(box, lon, lat, of_match) for term in mine for _, box, post, of_match in stored if term in post
            )
            mean = sum(sum(postings_of[term]) / len(postings_of[term]) for term in mine)
            objects += 1.0 if own else 1.0 - exp(-(sample.subscription_scale - 1.0) * mean)
            reads += own
        counts.append((objects, len({key for key, *_ in stored}), reads))
    return counts


@settings(max_examples=100, deadline=None)
@given(samples(), plans(), st.booleans())
def test_equals_the_slow_twin(drawn: WorkloadSample, plan: PartitionPlan, matches_cost: bool) -> None:
    match_reads = np.arange(drawn.pieces, dtype=np.int32) * 29 if matches_cost else None
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    run = run_sample(sample, plan)
    expected = slow_run(sample, plan)
    assert [pytest.approx(counts) for counts in expected] == list(zip(*(column.tolist() for column in run)))


def test_a_worker_reads_only_the_pieces_that_it_stores() -> None:
    """Two boxes share index cells, and a border of the plan divides them: the model counts both for each object."""
    boxes = [(3.1, 1.0, 3.9, 1.01), (4.1, 1.0, 4.9, 1.01)]
    sample = make_sample([(3.95, 1.0), (4.05, 1.0)], [[1], [1]], boxes, [[1], [1]])
    assert run_sample(sample, quarters()).reads.tolist() == [POSTING_READS, POSTING_READS, 0, 0]
    assert compute_worker_loads(sample, quarters(), COST).reads.tolist() == [2, 2, 0, 0]


@pytest.mark.parametrize("name", [name for name in names.PLANNERS if name not in BY_SUBSCRIPTION and name != "auto"])
def test_each_match_is_counted_at_one_worker(name: str) -> None:
    """By whatever a plan shares: a match that counts as one more read adds one to the reads of one worker."""
    plain = paper_sample("q3", 400, 300)
    counted = keep_pieces(replace(plain, match_reads=np.ones(plain.pieces, np.int32)), np.ones(plain.pieces, bool))
    plan = make_plan(name, plain, 5, COST, {"columns": 40, "rows": 40})
    matches = run_sample(counted, plan).reads.sum() - run_sample(plain, plan).reads.sum()
    assert matches == counted.reads.sum() - plain.reads.sum() > 0


def test_one_worker_has_the_load_of_the_model() -> None:
    sample = paper_sample("q1", 400, 300)
    plan = make_plan("grid", sample, 1, COST, {"columns": 40, "rows": 40})
    run, model = run_sample(sample, plan), compute_worker_loads(sample, plan, COST)
    assert (run.reads / POSTING_READS).tolist() == model.reads.tolist()
    assert run.subscriptions.tolist() == model.subscriptions.tolist()
    assert 0 < run.objects[0] <= model.objects[0]
    assert run.loads(sample, COST)[0] == pytest.approx(
        0.25 * run.objects[0] * 300 + 3.0 * run.objects[0] + 7.0 * 300 + 5.0 * 300 + 2.0 * model.reads[0]
    )
