"""The sweeps of Tornado: workers, side of a region, frequency of keywords, cells of the grid.

Source: Tornado, section 6: figures 8 (A-Grid, uniform rectangles and hashed keywords; frequency of keywords), 9 (4 to
100 partitions), 11 (regions from 0.05% to 1.5% of the space) and 12 (evaluators), section 5 (cells of the grid).
Departures: subscriptions by the generator (squares, the share is that of a side of the space; three keywords joined by
OR), 200,000 for 5,000,000. The times to route a point are `dispatch_seconds`; ranges are not routed one by one here.
"""

from collections.abc import Iterator

from benchmarks.support.sweeps.workloads import Trial, Workload
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import KM_PER_DEGREE, USA_BOUNDS

SPACE_KM = (USA_BOUNDS[3] - USA_BOUNDS[1]) * KM_PER_DEGREE
"""Side of the space, from south to north."""

PLANNERS = ("a_grid", "uniform", "keyword_hash")
WORKERS, SIDE, SHARE = 16, 0.001, 1.0
"""Defaults of a sweep: workers, side of a region over that of the space, `frequent_share` of the keywords."""

DEFAULTS = f"workers_{WORKERS}"
"""The point of the defaults."""


def make_style(side: float = SIDE, share: float = SHARE) -> SubscriptionStyle:
    """Return subscriptions with regions of one size, as a share of the side of the space."""
    width = side * SPACE_KM
    return SubscriptionStyle("q1", "or", (3, 3), share, (width, width))


def list_workloads() -> Iterator[Workload]:
    """Yield the workload of the defaults with the sweeps of workers and cells, then one for each side and share."""
    workers = {f"workers_{count}": Trial(count, PLANNERS) for count in (4, WORKERS, 36, 100)}
    cells = {f"cells_{side}": Trial(WORKERS, ("a_grid",), f"columns={side},rows={side}") for side in (32, 125, 500)}
    yield Workload(make_style(), workers | cells)
    for side in (0.0005, 0.005, 0.015):
        yield Workload(make_style(side=side), {f"side_{side:g}": Trial(WORKERS, PLANNERS)})
    for share in (0.0, 0.3):
        yield Workload(make_style(share=share), {f"frequent_{share:g}": Trial(WORKERS, PLANNERS)})
