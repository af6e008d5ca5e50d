"""Workloads of PS2Stream section VI-A in the model: samples of Q1, Q2 and Q3, and constants of Definition 1 alone."""

import numpy as np

from pststream.benchmarks.support.arrays import clause_lists, frequencies
from pststream.cost.load_model import CostModel
from pststream.domain.pieces import rarest_clause_first
from pststream.domain.planner_sample import WorkloadSample
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.generator.places import BRITAIN_BOUNDS, USA_BOUNDS, city_places
from pststream.generator.power_law import PowerLaw
from pststream.generator.synthetic_arrays import synthetic_objects, synthetic_subscriptions, term_ids

DEFINITION_1 = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
"""Constants under which the pairs (c1) are most of the load, as where a worker checks the subscriptions of a cell."""

COUNTRIES = {"us": ("US", USA_BOUNDS), "uk": ("GB", BRITAIN_BOUNDS)}
"""The countries of TWEETS-US and TWEETS-UK."""

OBJECTS_A_REQUEST = 5
"""Objects for each insertion or deletion; as many deletions as insertions."""


def law_of(vocabulary: int) -> PowerLaw:
    """Return the law of the words of objects, with this number of words."""
    return PowerLaw(vocabulary, exponent=1.0, shift=20.0)


def draw_paper_sample(
    objects: int, subscriptions: int, seed: int, style: SubscriptionStyle, vocabulary: int, country: str = "us"
) -> WorkloadSample:
    """Draw a workload as the sample that planners see; posting reads are left out, as Definition 1 has none.

    country  one of COUNTRIES, in whose cities the objects are
    """
    places = city_places(*COUNTRIES[country])
    things = synthetic_objects(objects, seed, vocabulary=law_of(vocabulary), places=places)
    asked = synthetic_subscriptions(subscriptions, seed, things, style)
    _, post_offsets, post_terms = rarest_clause_first(clause_lists(asked), frequencies(things).of)
    requests = objects / OBJECTS_A_REQUEST / 2 / subscriptions
    return WorkloadSample(
        lon=things.lon,
        lat=things.lat,
        term_offsets=things.term_offsets,
        terms=term_ids(things.terms),
        boxes=asked.boxes,
        piece_key=np.arange(len(asked.boxes)),
        post_offsets=post_offsets,
        post_terms=post_terms,
        reads=np.zeros(len(things.terms), np.int32),
        insertions=requests,
        deletions=requests,
    )
