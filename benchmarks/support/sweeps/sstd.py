"""The sweeps of SSTD over continuous range queries: leaves of the tree, area of a region, keywords, subscriptions.

Source: SSTD, section 7: figures 11 (regions from 0.0001% to 1% of the area of the space; 1 to 3 keywords) and 13b
(subscriptions), 7.7 (theta from 32 to 256), against Tornado, PS2Stream, Quadtree and Text, on 8 machines. Departures:
objects have the vocabulary and the mean number of words of TW14, around the cities of the USA; 50,000 to 1,000,000
subscriptions for 500,000 to 10,000,000, 200,000 by default as in the paper; subscriptions stand for the snapshot
queries of the workload. The other parameter of 7.7, the time interval of a local index, has no counterpart: segments of
objects are merged by hour, six hours and day.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.support.measured_homes import STREAMS
from benchmarks.support.sweeps.workloads import Trial, Workload
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import KM_PER_DEGREE, USA_BOUNDS
from pststream.workloads.synthetic_arrays import SyntheticObjects

OF_SSTD = ("qt_tree", "quadtree", "text")
PLANNERS = (*OF_SSTD, "hybrid", "a_grid")
"""The planners of the paper's figures; `hybrid` is PS2Stream's, `a_grid` Tornado's."""

WORKERS, THETA, AREA, KEYWORDS = 8, 64, 0.01, 1
"""Defaults of a sweep: workers, leaves of a tree, area of a region in percent of that of the space, keywords."""

DEFAULTS = f"theta_{THETA}"
"""The point of the defaults."""

_WEST, _SOUTH, _EAST, _NORTH = USA_BOUNDS
SPACE_KM2 = (_EAST - _WEST) * (_NORTH - _SOUTH) * KM_PER_DEGREE**2 * np.cos(np.radians((_SOUTH + _NORTH) / 2))
"""Area of the space."""


@dataclass(frozen=True)
class StreamObjects:
    """Objects like those of TW14."""

    description: str = "800,000 words"

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` objects."""
        return STREAMS["tw14"].draw(count, seed)


def make_style(area: float = AREA, keywords: int = KEYWORDS) -> SubscriptionStyle:
    """Return subscriptions with square regions of one area, in percent of the space, and keywords joined by AND."""
    side = float(np.sqrt(area / 100 * SPACE_KM2))
    return SubscriptionStyle("q1", "and", (keywords, keywords), side_km=(side, side))


def list_workloads() -> Iterator[Workload]:
    """Yield the workload of the defaults with the sweep of theta, then one for each area, keywords, subscriptions."""
    objects = StreamObjects()
    thetas = {f"theta_{theta}": Trial(WORKERS, OF_SSTD, f"theta={theta}") for theta in (32, 256)}
    every = Trial(WORKERS, PLANNERS)
    yield Workload(make_style(), {DEFAULTS: every} | thetas, objects_from=objects)
    for area in (0.0001, 1.0):
        yield Workload(make_style(area=area), {f"area_{area:g}%": every}, objects_from=objects)
    for keywords in (2, 3):
        yield Workload(make_style(keywords=keywords), {f"keywords_{keywords}": every}, objects_from=objects)
    for times in (0.25, 5.0):
        yield Workload(make_style(), {f"subscriptions_{times:g}x": every}, times, objects)
