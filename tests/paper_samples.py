"""Generate samples like those of PS2Stream section VI: Q1, Q2, and Q3 with either of them by region."""

from functools import lru_cache

import numpy as np

from benchmarks.support.measured_homes import frequencies
from pststream.pipeline.calibrate.synthetic_homes import clause_lists
from pststream.planning.live_terms import make_sample_with_reads
from pststream.plans.pieces import rarest_clause_first
from pststream.plans.planner_sample import WorkloadSample
from pststream.workloads.draw_subscriptions import SubscriptionStyle, draws_q2, region_of
from pststream.workloads.places import USA_BOUNDS, city_places
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions, term_ids
from tests.plans import pack, unpack

Posted = tuple[np.ndarray, list[list[int]]]


@lru_cache(maxsize=8)
def paper_sample(kind: str, objects: int, subscriptions: int, seed: int = 1, rare: float = 1.0) -> WorkloadSample:
    """Make a sample around the cities of the USA; keywords joined by AND. Tests share it, so none may change it.

    rare   share of the keywords of Q2 that are drawn as frequently as in objects; 0: uniformly from the vocabulary
    """
    drawn = synthetic_objects(objects, seed, places=city_places("US", USA_BOUNDS))
    if kind == "q3":
        bounds = (drawn.lon.min(), drawn.lat.min(), drawn.lon.max(), drawn.lat.max())
        parts = []
        for wide, one in ((False, "q1"), (True, "q2")):
            boxes, posts = _posted(one, subscriptions, seed, rare, drawn)
            middle = (boxes[:, :2] + boxes[:, 2:]) / 2.0
            here = np.flatnonzero(draws_q2(seed)[region_of(middle[:, 0], middle[:, 1], bounds)] == wide)
            parts.append((boxes[here], [posts[i] for i in here]))
        boxes, posts = np.concatenate([part[0] for part in parts]), parts[0][1] + parts[1][1]
    else:
        boxes, posts = _posted(kind, subscriptions, seed, rare, drawn)
    term_offsets, terms = pack([sorted(ids) for ids in unpack(drawn.term_offsets, term_ids(drawn.terms))])
    post_offsets, post_terms = pack([sorted(ids) for ids in posts])
    return make_sample_with_reads(
        lon=drawn.lon,
        lat=drawn.lat,
        term_offsets=term_offsets,
        terms=terms,
        boxes=boxes,
        piece_key=np.arange(len(boxes)),
        post_offsets=post_offsets,
        post_terms=post_terms,
        deletions=1.0,
    )


def _posted(kind: str, count: int, seed: int, rare: float, objects: SyntheticObjects) -> Posted:
    style = SubscriptionStyle(kind, "and", frequent_share=rare if kind == "q2" else 1.0)
    drawn = synthetic_subscriptions(count, seed, objects, style)
    _, offsets, terms = rarest_clause_first(clause_lists(drawn), frequencies(objects).frequency)
    return drawn.boxes, unpack(offsets, terms)
