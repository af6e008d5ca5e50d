"""Workloads of PS2Stream section VI-A: samples of Q1, Q2 and Q3 for the load model, and a line on each."""

from typing import Any

import numpy as np

from benchmarks.support.measured_homes import CityObjects, frequencies
from pststream.pipeline.calibrate.synthetic_homes import clause_lists
from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel
from pststream.plans.pieces import rarest_clause_first
from pststream.plans.planner_sample import WorkloadSample
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import BRITAIN_BOUNDS, USA_BOUNDS, city_places
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import (
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_objects,
    synthetic_subscriptions,
    term_ids,
)

DEFINITION_1 = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)
"""Constants under which the pairs (c1) are most of the load, as where a worker checks the subscriptions of a cell."""

COUNTRIES = {"us": ("US", USA_BOUNDS), "uk": ("GB", BRITAIN_BOUNDS)}
"""The countries of TWEETS-US and TWEETS-UK."""

OBJECTS_A_REQUEST = 5
"""Objects for each insertion or deletion; as many deletions as insertions."""

OBJECTS_OF_FILES = "50,000 words"
"""The words of the files that `write_objects` and `write_requests` generate."""

FIVE_A_REQUEST = "five objects a request, half of them deletions after lifetimes of N(mu, (0.2 mu)^2)"
"""The requests of the paper's workloads (section VI-A)."""

OBJECTS_ALONE = "objects alone, no requests among them"
"""The requests of workloads whose subscriptions stay as they are."""

_WORDS = {"and": "joined by AND", "or": "joined by OR", "both": "joined by AND or OR"}


def law_of(vocabulary: int) -> PowerLaw:
    """Return the law of the words of objects, with this number of words."""
    return PowerLaw(vocabulary, exponent=1.0, shift=20.0)


def draw_synthetic_sample(objects: int, subscriptions: int, seed: int, style: SubscriptionStyle) -> WorkloadSample:
    """Draw a workload as the sample that planners see, with posting reads."""
    things = synthetic_objects(objects, seed)
    asked = synthetic_subscriptions(subscriptions, seed, things, style)
    return make_sample_with_reads(**_sample_columns(things, asked))


def draw_paper_sample(
    objects: int, subscriptions: int, seed: int, style: SubscriptionStyle, vocabulary: int, country: str = "us"
) -> WorkloadSample:
    """Draw a workload as the sample that planners see; posting reads are left out, as Definition 1 has none.

    country  one of COUNTRIES, in whose cities the objects are
    """
    places = city_places(*COUNTRIES[country])
    things = synthetic_objects(objects, seed, vocabulary=law_of(vocabulary), places=places)
    asked = synthetic_subscriptions(subscriptions, seed, things, style)
    requests = objects / OBJECTS_A_REQUEST / 2 / subscriptions
    return WorkloadSample(
        **_sample_columns(things, asked),
        postings=np.zeros(len(things.terms), np.int32),
        reads=np.zeros(len(things.terms), np.int32),
        insertions=requests,
        deletions=requests,
    )


def _sample_columns(things: SyntheticObjects, asked: SyntheticSubscriptions) -> dict[str, Any]:
    """Return the columns of a sample: its objects, and its subscriptions posted under their rarest clauses."""
    _, post_offsets, post_terms = rarest_clause_first(clause_lists(asked), frequencies(things).frequency)
    return {
        "lon": things.lon,
        "lat": things.lat,
        "term_offsets": things.term_offsets,
        "terms": term_ids(things.terms),
        "boxes": asked.boxes,
        "piece_key": np.arange(len(asked.boxes)),
        "post_offsets": post_offsets,
        "post_terms": post_terms,
    }


def describe_workload(style: SubscriptionStyle, requests: str, objects: str = CityObjects.description) -> str:
    """Return a line on the subscriptions, the objects and the requests of a workload.

    requests  how objects relate to insertions and deletions, and how long subscriptions live
    """
    low, high = style.keywords
    keywords = f"{low} to {high} keywords {_WORDS[style.connective]}"
    share = f"frequent_share {style.frequent_share:g}" + (" (as the paper)" if style.frequent_share == 1.0 else "")
    return f"{style.kind.upper()}, {keywords}, {share}, {objects}, {requests}"
