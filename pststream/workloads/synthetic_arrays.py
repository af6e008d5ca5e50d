"""Generate random objects and CNF subscriptions as NumPy arrays, without texts and files, for benchmarks.

Terms are ranks of a power law (0 is the most frequent); `term_ids` maps them to ids spread over 64 bits.
"""

from dataclasses import dataclass

import numpy as np

from pststream.base.arrays import hash_integers, offsets_of
from pststream.workloads.draw_subscriptions import SubscriptionSource, SubscriptionStyle, draw_subscriptions, rank_terms
from pststream.workloads.places import USA_BOUNDS, Places, city_places, scatter
from pststream.workloads.random_texts import PowerLaw, area_of, draw_terms

DEFAULT_VOCABULARY = PowerLaw(200_000, exponent=1.0, shift=20.0)


@dataclass(frozen=True)
class SyntheticObjects:
    """Objects as arrays.

    lon, lat       float64[n]    degrees
    term_offsets   int64[n+1]    slice of `terms` of each object
    terms          int32[m]      distinct terms, ascending inside an object
    vocabulary     PowerLaw      the law from which the terms were drawn
    """

    lon: np.ndarray
    lat: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray
    vocabulary: PowerLaw


@dataclass(frozen=True)
class SyntheticSubscriptions:
    """Subscriptions in conjunctive normal form.

    boxes           float64[n, 4]      west, south, east, north, degrees
    clause_offsets  int64[n+1]         slice of the clauses of each subscription
    term_offsets    int64[clauses+1]   slice of `terms` of each clause
    terms           int32[m]           terms, ascending inside a clause
    """

    boxes: np.ndarray
    clause_offsets: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray


def term_ids(terms: np.ndarray) -> np.ndarray:
    """Return the 64-bit id of each term: int64, never changes, distinct for each term."""
    return hash_integers(terms).view(np.int64)


def synthetic_objects(
    count: int,
    seed: int,
    *,
    vocabulary: PowerLaw = DEFAULT_VOCABULARY,
    terms_per_object: float = 9.0,
    local_share: float = 0.2,
    places: Places | None = None,
) -> SyntheticObjects:
    """Generate `count` objects around the cities of the USA, or around `places`.

    terms_per_object  mean number of words drawn; repeats inside an object are dropped
    local_share       share of the words that are topics of the area of the object
    """
    rng = np.random.default_rng([seed, 1])
    if places is None:
        places = city_places("US", USA_BOUNDS)
    lon, lat = scatter(rng, places, count)
    words = 1 + rng.poisson(max(terms_per_object - 1.0, 0.0), count)
    owner = np.repeat(np.arange(count, dtype=np.int64), words)
    terms = draw_terms(rng, area_of(lon, lat)[owner], vocabulary, seed, local_share)
    keys = np.sort(owner * vocabulary.size + terms)
    keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    offsets = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * vocabulary.size)
    return SyntheticObjects(lon, lat, offsets.astype(np.int64), (keys % vocabulary.size).astype(np.int32), vocabulary)


def synthetic_subscriptions(
    count: int,
    seed: int,
    objects: SyntheticObjects,
    style: SubscriptionStyle | None = None,
    *,
    interval: int = 0,
    regions_seed: int | None = None,
) -> SyntheticSubscriptions:
    """Generate `count` subscriptions around `objects`, those of Q1 of PS2Stream if no `style` is given.

    interval      for Q3: interval of the drift
    regions_seed  for Q3: seed of the regions that draw Q1 or Q2; None: `seed`

    With the defaults, 1,000,000 subscriptions give an object about 33 matches (AND alone: 10); a `frequent_share` of
    0.3 gives 10, one of 0 less than one. Matches grow in proportion to `count`.
    """
    rng = np.random.default_rng([seed, 2])
    occurrences, by_rank = rank_terms(objects.terms, objects.vocabulary.size)
    source = SubscriptionSource(objects.lon, objects.lat, occurrences, len(by_rank))
    drawn = draw_subscriptions(
        rng, count, source, style or SubscriptionStyle(), seed if regions_seed is None else regions_seed, interval
    )
    keywords = np.sort(np.where(drawn.keywords >= 0, by_rank[drawn.keywords], -1), axis=1)
    # AND has a clause for each keyword, OR one for all.
    number = (keywords >= 0).sum(axis=1)
    clause_offsets = offsets_of(np.where(drawn.is_and, number, 1))
    length = np.ones(clause_offsets[-1], dtype=np.int64)
    length[clause_offsets[:-1][~drawn.is_and]] = number[~drawn.is_and]
    return SyntheticSubscriptions(drawn.boxes, clause_offsets, offsets_of(length), keywords[keywords >= 0])
