"""Draw random subscriptions around given objects, as arrays: square boxes, 1 to 3 keywords, AND or OR.

The kinds of subscriptions are from PS2Stream section VI-A:

Q1  sides of 1 to 50 km, keywords as frequent as the terms of objects
Q2  sides of 1 to 100 km, at least one keyword outside the top 1% of terms
Q3  Q1 or Q2, by region
"""

from dataclasses import dataclass

import numpy as np

from pststream.base.errors import UsageError
from pststream.workloads.keywords import draw_keywords
from pststream.workloads.kind_by_region import draws_q2, region_of
from pststream.workloads.square_boxes import square_boxes

KINDS = ("q1", "q2", "q3")
SIDE_KM = (1.0, 50.0)
WIDE_SIDE_KM = (1.0, 100.0)
_AND_SHARE = {"and": 1.0, "or": 0.0, "both": 0.5}
CONNECTIVES = tuple(_AND_SHARE)


@dataclass(frozen=True)
class SubscriptionSource:
    """The points and terms of objects, from which subscriptions are drawn.

    lon, lat      float64[n]   points of objects, degrees
    occurrences   int32[m]     their terms, one entry for each occurrence; 0 is the most frequent term
    vocabulary    int          number of terms
    """

    lon: np.ndarray
    lat: np.ndarray
    occurrences: np.ndarray
    vocabulary: int

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north of the points."""
        return float(self.lon.min()), float(self.lat.min()), float(self.lon.max()), float(self.lat.max())


def rank_terms(terms: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Replace terms by their rank in descending frequency, as `SubscriptionSource.occurrences` needs them.

    terms  int32[m]   in [0, vocabulary), one entry for each occurrence
    Returns ranks int32[m], and the term at each rank int32[vocabulary]; of equally frequent terms the least is first.
    """
    by_rank = np.argsort(-np.bincount(terms, minlength=vocabulary), kind="stable").astype(np.int32)
    rank = np.empty(vocabulary, dtype=np.int32)
    rank[by_rank] = np.arange(vocabulary, dtype=np.int32)
    return rank[terms], by_rank


@dataclass(frozen=True)
class SubscriptionStyle:
    """Parameters of random subscriptions.

    kind            one of KINDS
    connective      "and", "or", or "both": one of them at random
    keywords        least and greatest number of keywords
    frequent_share  share of keywords drawn as often as objects have them (1 in the paper); other keywords are drawn
                    evenly from the vocabulary, so almost all are rare. It determines the matches of an object
    side_km         least and greatest side; None: the range of `kind`
    """

    kind: str = "q1"
    connective: str = "both"
    keywords: tuple[int, int] = (1, 3)
    frequent_share: float = 1.0
    side_km: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"kind {self.kind!r} is unknown", "one of: " + ", ".join(KINDS))
        if self.connective not in CONNECTIVES:
            raise UsageError(f"connective {self.connective!r} is unknown", "one of: " + ", ".join(CONNECTIVES))
        if not 1 <= self.keywords[0] <= self.keywords[1]:
            raise UsageError(f"keywords {self.keywords} is no range from 1 on")


@dataclass(frozen=True)
class DrawnSubscriptions:
    """Subscriptions as arrays.

    boxes      float64[n, 4]   west, south, east, north; a box with west > east crosses the antimeridian
    keywords   int32[n, k]     distinct terms, ascending in a row; absent ones are -1, in front
    is_and     bool[n]         AND (else OR) joins them
    """

    boxes: np.ndarray
    keywords: np.ndarray
    is_and: np.ndarray


def draw_subscriptions(
    rng: np.random.Generator,
    count: int,
    source: SubscriptionSource,
    style: SubscriptionStyle,
    seed: int,
    interval: int = 0,
) -> DrawnSubscriptions:
    """Draw `count` subscriptions from `source`; `seed` and `interval` determine which regions of Q3 draw Q1 or Q2."""
    centre = rng.integers(0, len(source.lon), count)
    lon, lat = source.lon[centre], source.lat[centre]
    wide = np.full(count, style.kind == "q2")
    if style.kind == "q3":
        wide = draws_q2(seed, interval)[region_of(lon, lat, source.bounds)]
    low, high = style.side_km or SIDE_KM
    widest = style.side_km[1] if style.side_km else WIDE_SIDE_KM[1]
    side = low + rng.random(count) * (np.where(wide, widest, high) - low)
    wanted = rng.integers(style.keywords[0], style.keywords[1] + 1, count)
    rare_from = np.where(wide, source.vocabulary // 100, 0)
    keywords = draw_keywords(rng, wanted, source.occurrences, source.vocabulary, rare_from, style.frequent_share)
    is_and = rng.random(count) < _AND_SHARE[style.connective]
    return DrawnSubscriptions(square_boxes(lon, lat, side), keywords, is_and)
