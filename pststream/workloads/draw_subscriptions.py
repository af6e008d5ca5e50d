"""Draw random subscriptions around given objects, as arrays: square boxes, 1 to 3 keywords, AND or OR.

The kinds of subscriptions are from PS2Stream section VI-A:

Q1  sides of 1 to 50 km, keywords as frequent as the terms of objects
Q2  sides of 1 to 100 km, at least one keyword outside the top 1% of terms
Q3  Q1 or Q2, by region
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pststream.base.errors import UsageError
from pststream.workloads.places import KM_PER_DEGREE, wrap

_TRIES = 4


def draw_keywords(
    rng: np.random.Generator,
    wanted: np.ndarray,
    occurrences: np.ndarray,
    vocabulary: int,
    rare_from: np.ndarray,
    frequent_share: float = 1.0,
) -> np.ndarray:
    """Draw distinct keywords of each subscription: int32[n, max(wanted)], ascending in a row, absent ones (-1) first.

    wanted          int[n]     keywords to draw; a repeat is drawn again a few times, then dropped
    occurrences     int32[m]   the terms of the objects, an entry for each occurrence; 0 is the most frequent
    vocabulary      int        number of terms
    rare_from       int[n]     where above 0: at least one keyword is this term or a rarer one (PS2Stream, Q2)
    frequent_share  float      share of keywords drawn from `occurrences`; the others evenly from all terms
    """
    # Draw all keywords, and draw repeats again a few times.
    columns = np.arange(int(wanted.max(initial=1)))
    keywords = np.full((len(wanted), len(columns)), -1, dtype=np.int32)
    missing = columns < wanted[:, None]
    for _ in range(_TRIES):
        terms = occurrences[rng.integers(0, len(occurrences), int(missing.sum()))]
        if frequent_share < 1.0:
            is_even = rng.random(len(terms)) >= frequent_share
            terms[is_even] = rng.integers(0, vocabulary, int(is_even.sum()))
        keywords[missing] = terms
        keywords.sort(axis=1)
        missing = np.zeros_like(missing)
        missing[:, 1:] = (keywords[:, 1:] == keywords[:, :-1]) & (keywords[:, 1:] >= 0)
        if not missing.any():
            break
    keywords[missing] = -1
    # Replace one keyword of the subscriptions that need a rare one.
    short = np.flatnonzero((rare_from > 0) & (keywords.max(axis=1, initial=-1) < rare_from))
    if len(short):
        keywords[short, -1] = _draw_rare(rng, rare_from[short], occurrences, vocabulary)
    keywords.sort(axis=1)
    return keywords


def _draw_rare(rng: np.random.Generator, rare_from: np.ndarray, occurrences: np.ndarray, vocabulary: int) -> np.ndarray:
    """Draw one term of each rank bound or rarer: from the occurrences, or evenly if a few draws find none."""
    terms = rng.integers(rare_from, np.maximum(vocabulary, rare_from + 1)).astype(np.int32)
    undone = np.ones(len(terms), dtype=bool)
    for _ in range(4 * _TRIES):
        rows = np.flatnonzero(undone)
        if not len(rows):
            break
        drawn = occurrences[rng.integers(0, len(occurrences), len(rows))]
        good = drawn >= rare_from[rows]
        terms[rows[good]] = drawn[good]
        undone[rows[good]] = False
    return terms


def square_boxes(lon: np.ndarray, lat: np.ndarray, side_km: np.ndarray) -> np.ndarray:
    """Return west, south, east, north of the square around each point: float64[n, 4], degrees.

    A box with west > east crosses the antimeridian. A square over a pole is cut there and spans all longitudes.
    """
    half = np.asarray(side_km, dtype=np.float64) / 2 / KM_PER_DEGREE
    boxes = np.empty((len(half), 4))
    boxes[:, 1] = np.maximum(lat - half, -90.0)
    boxes[:, 3] = np.minimum(lat + half, 90.0)
    wide = half / np.maximum(np.cos(np.radians(lat)), 1e-9)
    boxes[:, 0] = wrap(lon - wide)
    boxes[:, 2] = wrap(lon + wide)
    whole = (wide >= 180.0) | (lat + half > 90.0) | (lat - half < -90.0)
    boxes[whole, 0], boxes[whole, 2] = -180.0, 180.0
    return boxes


SIDE = 10
REGIONS = SIDE * SIDE
SWITCHED = REGIONS // 10


def region_of(lon: np.ndarray, lat: np.ndarray, bounds: tuple[float, float, float, float]) -> np.ndarray:
    """Return the region of each point; regions divide `bounds` (west, south, east, north) equally in degrees: int64."""
    west, south, east, north = bounds
    column = np.floor((lon - west) * (SIDE / max(east - west, 1e-9)))
    row = np.floor((lat - south) * (SIDE / max(north - south, 1e-9)))
    return (np.clip(row, 0, SIDE - 1) * SIDE + np.clip(column, 0, SIDE - 1)).astype(np.int64)


def draws_q2(seed: int, interval: int = 0) -> np.ndarray:
    """Mark the regions that draw Q2 (large squares, rarer keywords): bool[REGIONS].

    They are random in interval 0; with each further interval a tenth of the regions switches (PS2Stream section VI-D).
    """
    if interval < _drift(seed).interval:
        _drift.cache_clear()
    drift = _drift(seed)
    while drift.interval < interval:
        switched = drift.rng.choice(REGIONS, SWITCHED, replace=False)
        drift.wide[switched] = ~drift.wide[switched]
        drift.interval += 1
    return drift.wide.copy()


@dataclass
class _Drift:
    """The regions of a seed at the last interval returned; a later one costs a switch for each interval between."""

    rng: np.random.Generator
    wide: np.ndarray
    interval: int = 0


@lru_cache(maxsize=4)
def _drift(seed: int) -> _Drift:
    rng = np.random.default_rng([seed, 3])
    return _Drift(rng, rng.random(REGIONS) < 0.5)


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
