"""Samples, and the work that they make by Definition 1 and at each worker, against loops over objects and pieces."""

from dataclasses import replace
from math import exp, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.planning.live_terms import collect_term_use, drop_terms_without_postings, keep_pieces
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.auto import run_sample
from pststream.planning.planners.registry import make_plan
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample
from tests.fuzz.cases import examples
from tests.oracles import dispatch as slow
from tests.oracles.posting_reads import weight
from tests.paper_samples import paper_sample
from tests.plans import make_sample, plans, quarters, samples, unpack


@examples(100)
@given(samples(), st.sampled_from([(0,), (1, 29), (29, 7 * POSTING_READS, 0)]))
def test_equals_a_check_of_each_pair(drawn: WorkloadSample, of_matches: tuple[int, ...]) -> None:
    match_reads = np.resize(of_matches, drawn.pieces).astype(np.int32)
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    pieces = list(
        zip(sample.boxes.tolist(), match_reads.tolist(), unpack(sample.post_offsets, sample.post_terms), strict=True)
    )
    expected = [
        [sum(weight(tuple(box), x, y, reads) for box, reads, post in pieces if term in post) for term in terms]
        for x, y, terms in zip(sample.lon, sample.lat, unpack(sample.term_offsets, sample.terms))
    ]
    assert sample.reads.dtype == sample.postings.dtype == np.int32
    assert unpack(sample.term_offsets, sample.reads) == expected
    without = keep_pieces(replace(sample, match_reads=None), np.ones(drawn.pieces, bool))
    assert without.reads.tolist() == (POSTING_READS * sample.postings).tolist()


def test_many_boxes_are_estimated_from_some() -> None:
    boxes = [(18.0, 59.0, 18.01, 59.01 if number % 3 else 59.005) for number in range(1000)]
    match_reads = np.full(1000, 3 * POSTING_READS, np.int32)
    sample = make_sample([(18.005, 59.007)], [[1]], boxes, [[1]] * 1000, match_reads=match_reads)
    assert sample.reads.tolist() == [pytest.approx((1000 + 3 * 667) * POSTING_READS, rel=0.05)]


@examples(50)
@given(samples())
def test_reads_of_two_parts_add_up(drawn: WorkloadSample):
    match_reads = np.arange(drawn.pieces, dtype=np.int32)
    kept = match_reads % 3 == 0
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    part, rest = keep_pieces(sample, kept), keep_pieces(sample, ~kept)
    assert part.pieces + rest.pieces == sample.pieces and part.objects == sample.objects
    assert (part.reads + rest.reads == sample.reads).all()
    assert (part.postings + rest.postings == sample.postings).all()
    assert unpack(part.post_offsets, part.post_terms) == unpack(sample.post_offsets, sample.post_terms)[::3]


@examples(60)
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


@examples(60)
@given(samples())
def test_equals_counting(sample: WorkloadSample) -> None:
    use = collect_term_use(sample)
    assert use.ids.tolist() == sorted(set(sample.post_terms.tolist()))
    live = [[t for t in terms if t in set(use.ids.tolist())] for terms in unpack(sample.term_offsets, sample.terms)]
    assert [use.ids[terms].tolist() for terms in unpack(use.object_offsets, use.object_terms)] == live
    posted: dict[int, set[int]] = {}
    for key, terms in zip(sample.piece_key.tolist(), unpack(sample.post_offsets, sample.post_terms)):
        posted.setdefault(key, set()).update(terms)
    terms_of_subscriptions = [
        use.ids[terms].tolist() for terms in unpack(use.subscription_offsets, use.subscription_terms)
    ]
    assert terms_of_subscriptions == [sorted(posted[key]) for key in sorted(posted)]
    assert use.objects.tolist() == [sum(t in terms for terms in live) for t in use.ids.tolist()]
    read = dict.fromkeys(use.ids.tolist(), 0)
    for term, count in zip(sample.terms.tolist(), sample.reads.tolist()):
        if term in read:
            read[term] += count
    assert use.reads.tolist() == list(read.values())
    assert use.subscriptions.tolist() == [sum(t in terms for terms in posted.values()) for t in use.ids.tolist()]


COSTS = (0.25, 3.0, 5.0, 7.0, 2.0)


@examples(150)
@given(samples(), plans())
def test_loads_equal_the_slow_twin(sample: WorkloadSample, plan: PartitionPlan) -> None:
    loads = compute_worker_loads(sample, plan, CostModel(*COSTS))
    unit_objects, unit_keys, objects, keys, load = slow.loads(sample, plan, COSTS)
    assert (loads.unit_objects / sample.object_scale).tolist() == unit_objects
    assert (loads.unit_subscriptions / sample.subscription_scale).tolist() == unit_keys
    assert (loads.objects / sample.object_scale).tolist() == objects
    assert (loads.subscriptions / sample.subscription_scale).tolist() == keys
    assert loads.load == pytest.approx(load)
    assert loads.total == pytest.approx(sum(load))
    assert (loads.max, loads.min) == pytest.approx((max(load), min(load)))


def test_a_match_counts_as_a_part_of_a_posting_and_by_kind() -> None:
    """A match of `range` takes less than half of the time of a posting: rounded to postings it would cost nothing."""
    cost = CostModel(0.0, 0.0, 0.0, 0.0, posting=6e-9, match=2.7e-9, match_knn=9e-8)
    reads = cost.match_reads(np.array([False, True]))
    assert reads is not None and reads.tolist() == [round(0.45 * 64), round(15 * pi / 4 * 64)]
    assert CostModel(*COSTS).match_reads(np.zeros(1, bool)) is None
    sample = make_sample([(1, 1)], [[1]], [(0, 0, 2, 2), (0, 0, 2, 2)], [[1], [1]], match_reads=reads)
    (load, *_) = compute_worker_loads(sample, quarters(), cost).load
    assert load == pytest.approx(2 * 6e-9 + 2.7e-9 + 9e-8 * pi / 4, rel=0.01)


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


@examples(100)
@given(samples(), plans(), st.booleans())
def test_a_run_equals_the_slow_twin(drawn: WorkloadSample, plan: PartitionPlan, matches_cost: bool) -> None:
    match_reads = np.arange(drawn.pieces, dtype=np.int32) * 29 if matches_cost else None
    sample = keep_pieces(replace(drawn, match_reads=match_reads), np.ones(drawn.pieces, bool))
    run = run_sample(sample, plan)
    expected = slow_run(sample, plan)
    assert [pytest.approx(counts) for counts in expected] == list(zip(*(column.tolist() for column in run)))


@pytest.mark.parametrize("name", [name for name in names.PLANNERS if name not in BY_SUBSCRIPTION and name != "auto"])
def test_each_match_is_counted_at_one_worker(name: str) -> None:
    """By whatever a plan shares: a match that counts as one more read adds one to the reads of one worker."""
    plain = paper_sample("q3", 400, 300)
    counted = keep_pieces(replace(plain, match_reads=np.ones(plain.pieces, np.int32)), np.ones(plain.pieces, bool))
    plan = make_plan(name, plain, 5, COST, {"columns": 40, "rows": 40})
    matches = run_sample(counted, plan).reads.sum() - run_sample(plain, plan).reads.sum()
    assert matches == counted.reads.sum() - plain.reads.sum() > 0
