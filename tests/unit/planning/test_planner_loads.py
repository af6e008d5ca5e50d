"""How the baselines of PS2Stream compare on its workloads: total load (Definition 1) with 8 workers, as in Figure 6."""

from collections.abc import Mapping

import numpy as np
import pytest

from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners.registry import make_plan
from pststream.plans.planner_sample import WorkloadSample
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import city_places
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import (
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_objects,
    synthetic_subscriptions,
    term_ids,
)
from tests.plans import pack, unpack

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
SPACE = ("grid", "kd_tree", "r_tree")
TEXT = ("frequency", "hypergraph", "metric")
BRITAIN = (-8.0, 49.5, 2.0, 59.0)
LARGE_LEXICON = PowerLaw(1_000_000, exponent=1.4, shift=20.0)
"""As in real tweets: 99% of the terms have only 7% of the occurrences."""


def rarest_clauses(subscriptions: SyntheticSubscriptions, frequency: np.ndarray) -> list[list[int]]:
    """Return the clause of each subscription whose terms have the fewest occurrences."""
    clauses = unpack(subscriptions.term_offsets, subscriptions.terms)
    slices = zip(subscriptions.clause_offsets[:-1].tolist(), subscriptions.clause_offsets[1:].tolist())
    return [min(clauses[start:stop], key=lambda clause: frequency[clause].sum()) for start, stop in slices]


def sample_of(objects: SyntheticObjects, subscriptions: SyntheticSubscriptions) -> WorkloadSample:
    frequency = np.bincount(objects.terms, minlength=objects.vocabulary.size)
    posts = [sorted(term_ids(np.array(clause)).tolist()) for clause in rarest_clauses(subscriptions, frequency)]
    terms = [sorted(term_ids(np.array(own)).tolist()) for own in unpack(objects.term_offsets, objects.terms)]
    term_offsets, term_list = pack(terms)
    post_offsets, post_list = pack(posts)
    keys = np.arange(len(posts))
    return make_sample_with_reads(
        lon=objects.lon,
        lat=objects.lat,
        term_offsets=term_offsets,
        terms=term_list,
        boxes=subscriptions.boxes,
        piece_key=keys,
        post_offsets=post_offsets,
        post_terms=post_list,
    )


def britain(style: SubscriptionStyle) -> Mapping[str, WorkerLoads]:
    """The loads of each baseline for 20,000 objects and as many subscriptions."""
    places = city_places("GB", BRITAIN)
    objects = synthetic_objects(20_000, 1, vocabulary=LARGE_LEXICON, local_share=0.0, places=places)
    sample = sample_of(objects, synthetic_subscriptions(20_000, 1, objects, style))
    return {name: compute_worker_loads(sample, make_plan(name, sample, 8, COST), COST) for name in SPACE + TEXT}


@pytest.fixture(scope="module")
def frequent() -> Mapping[str, WorkerLoads]:
    return britain(SubscriptionStyle("q1"))


@pytest.fixture(scope="module")
def rare() -> Mapping[str, WorkerLoads]:
    """Q2 with AND alone: with OR a subscription is posted under its frequent keywords as well."""
    return britain(SubscriptionStyle("q2", connective="and"))


def test_space_beats_text_where_keywords_are_frequent(frequent: Mapping[str, WorkerLoads]) -> None:
    assert max(frequent[name].total for name in SPACE) < 0.6 * min(frequent[name].total for name in TEXT)


def test_text_beats_space_where_keywords_are_rare_and_regions_large(rare: Mapping[str, WorkerLoads]) -> None:
    assert max(rare[name].total for name in TEXT) < 0.9 * min(rare[name].total for name in SPACE)


def test_planners_that_know_which_terms_occur_together_save_load(frequent: Mapping[str, WorkerLoads]) -> None:
    for name in ("metric", "hypergraph"):
        assert frequent[name].total < frequent["frequency"].total


@pytest.mark.parametrize("name", SPACE + TEXT)
def test_no_worker_has_much_more_than_another(
    name: str, frequent: Mapping[str, WorkerLoads], rare: Mapping[str, WorkerLoads]
) -> None:
    assert frequent[name].imbalance < 1.5
    assert rare[name].imbalance < 1.5
