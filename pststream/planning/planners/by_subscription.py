"""Place subscriptions one by one, each at the unit with the least load: the frame of the planners of DkM-SKS.

A plan that shares by subscription is made of the frozen counts of its sample (`plans/planner_sample.py`), and its
planner says in which parts the subscriptions that are present are assigned, and what a new subscription costs. Here
both are assigned greedily (Algorithms 1 and 3 of DkM-SKS), which is the same for all such planners.

A cost is a number of sampled objects, at least 1: a subscription that no sampled object would reach counts like one
that a single object reaches, so that those do not all go to one unit (a departure from the paper, where they cost
nothing). Deletions do not lower the load of a unit (a departure from section 3.1): they fall on the units in
proportion to what these have, and the next `plan` starts from the subscriptions that live.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pststream.base import names
from pststream.base.arrays import make_read_only
from pststream.base.arrow_columns import take_lists
from pststream.kernels.planning.assign_nodes import assign_to_least
from pststream.kernels.planning.split_subscriptions import (
    AreaIndex,
    TermCounts,
    find_nearest_areas,
    find_ranges_of_nearest,
)
from pststream.planning.planners.contract import RASTER_OPTIONS, Options, options_and_raster
from pststream.planning.raster import compute_cell_ranges, hilbert_rank
from pststream.plans.plan import DispatchGrid, PartitionPlan, subscription_plan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample

CHILDREN = 16
"""Children of an entry of the tree."""


def build_area_index(areas: np.ndarray) -> AreaIndex:
    """Return the index of areas, numbered from 0, whose arrays are read-only, as mapped ones are.

    areas  int32[a, 4]  first column, first row, last column, last row
    """
    centres = (areas[:, :2].astype(np.int64) + areas[:, 2:]) + 1
    order = np.argsort(hilbert_rank(centres[:, 0], centres[:, 1], int(centres.max(initial=0)) + 1), kind="stable")
    count = len(areas)
    boxes, extents = areas[order].astype(np.int32), (areas[order, 2:] - areas[order, :2] + 1).astype(np.int32)
    levels = [AreaIndex(boxes, extents, order.astype(np.int64), np.zeros((count, 2), np.int64))]
    start = 0
    while (entries := len(levels[-1].first)) > 1:
        below, groups = levels[-1], np.arange(0, entries, CHILDREN)
        low = np.minimum.reduceat(below.boxes[:, :2], groups, axis=0)
        high = np.maximum.reduceat(below.boxes[:, 2:], groups, axis=0)
        extents = np.maximum.reduceat(below.extents, groups, axis=0)
        children = start + np.column_stack([groups, np.append(groups[1:], entries)])
        levels.append(AreaIndex(np.hstack([low, high]), extents, np.minimum.reduceat(below.first, groups), children))
        start += entries
    return AreaIndex(*make_read_only([np.concatenate(level) for level in zip(*levels)]))


def nearest_areas(ranges: np.ndarray, indexes: Sequence[AreaIndex]) -> np.ndarray:
    """Return the area that overlaps each range most, the nearest if none does: int32[n, 4]; without any, the range.

    ranges   int32[n, 4]
    indexes  of equal areas the first one of the first index is taken
    """
    nearest, least = ranges.copy(), np.full(len(ranges), names.MAX_INT64)
    for index in indexes:
        if len(index.first):
            distances, entries = find_nearest_areas(ranges, index)
            nearer = distances < least
            nearest[nearer], least[nearer] = index.boxes[entries[nearer]], distances[nearer]
    return nearest


NO_AREAS = np.empty((0, 4), np.int32)


@dataclass(frozen=True)
class Subscriptions:
    """Subscriptions to place, ascending by key.

    keys          int64[n]
    ranges        int32[n, 4]  first column, first row, last column, last row of the raster cells around all boxes
    term_offsets  int64[n+1]   slice of `terms` of each subscription
    terms         int64[m]     the terms that it is posted under: all keywords, if they are joined by OR

    Departure from the paper, whose keywords are all joined by OR: of a conjunction only the posted clause counts, as
    only objects with a term of it are compared with the subscription.
    """

    keys: np.ndarray
    ranges: np.ndarray
    term_offsets: np.ndarray
    terms: np.ndarray

    @property
    def count(self) -> int:
        """Number of subscriptions."""
        return len(self.keys)

    @property
    def centres(self) -> np.ndarray:
        """The centre of each range in half cells, column and row: int64[n, 2]."""
        return (self.ranges[:, :2].astype(np.int64) + self.ranges[:, 2:]) + 1

    def select(self, chosen: np.ndarray) -> "Subscriptions":
        """Return the chosen (bool[n]) subscriptions."""
        words = take_lists((self.term_offsets, self.terms), np.flatnonzero(chosen))
        return Subscriptions(self.keys[chosen], self.ranges[chosen], *words)


@dataclass(frozen=True)
class Parts:
    """Parts of subscriptions in the order in which they are assigned, each to one unit.

    part   int64[n]     part of each subscription
    cost   float64[p]   cost of each part
    areas  int32[a, 4]  ranges of raster cells that the costs of new subscriptions refer to
    """

    part: np.ndarray
    cost: np.ndarray
    areas: np.ndarray


class Placement(Protocol):
    """What the module of a planner that shares by subscription has beside `plan`; both are pure functions."""

    def partition(self, counts: SampleCounts, present: Subscriptions, plan: PartitionPlan) -> Parts:
        """Return the parts of the subscriptions that are present when a plan is made."""
        ...

    def cost_of_new(self, counts: SampleCounts, new: Subscriptions, areas: Sequence[AreaIndex]) -> np.ndarray:
        """Return the cost of each new subscription: float64[n]. areas: those of all parts so far, the earlier first."""
        ...


@dataclass(frozen=True)
class Placed:
    """Units of subscriptions, and the state of the plan after placing them.

    units int32[n]; loads float64[units]: cost of the subscriptions of each unit; areas int32[a, 4]: areas added
    """

    units: np.ndarray
    loads: np.ndarray
    areas: np.ndarray


def place(
    planner: Placement,
    plan: PartitionPlan,
    counts: SampleCounts,
    subscriptions: Subscriptions,
    present_to: int,
    loads: np.ndarray,
    areas: Sequence[AreaIndex] = (),
) -> Placed:
    """Place the subscriptions: those with a key up to `present_to` by parts, then the others in key order.

    loads  float64[units]  loads of the units before
    areas  of the parts before
    """
    is_present = subscriptions.keys <= present_to
    units, after = np.empty(subscriptions.count, np.int32), loads.astype(np.float64)
    added = NO_AREAS
    if is_present.any():
        parts = planner.partition(counts, subscriptions.select(is_present), plan)
        units[is_present] = assign_to_least(np.maximum(parts.cost, 1.0), after)[parts.part]
        added = parts.areas
    if not is_present.all():
        cost = planner.cost_of_new(counts, subscriptions.select(~is_present), [*areas, build_area_index(added)])
        units[~is_present] = assign_to_least(np.maximum(cost, 1.0), after)
    return Placed(units, after, added)


def make_subscription_plan(
    planner: str, sample: WorkloadSample, workers: int, options: Options, defaults: Mapping[str, int] = RASTER_OPTIONS
) -> PartitionPlan:
    """Return a plan that shares by subscription."""
    chosen, grid = options_and_raster(planner, sample, options, defaults)
    return subscription_plan(planner, grid, workers, chosen)


def describe_sample(sample: WorkloadSample, plan: PartitionPlan) -> tuple[Subscriptions, np.ndarray]:
    """Return the subscriptions of a sample, and the place of the subscription of each piece: int64[pieces]."""
    return describe(
        sample.piece_key, compute_cell_ranges(plan.grid, sample.boxes), sample.post_offsets, sample.post_terms
    )


def describe(
    piece_key: np.ndarray, ranges: np.ndarray, post_offsets: np.ndarray, post_terms: np.ndarray
) -> tuple[Subscriptions, np.ndarray]:
    """Join the pieces of each subscription: the range around all of them, the terms of the first.

    piece_key                 int64[n]            subscription key of each piece
    ranges                    int32[n, 4]         raster cells of its box
    post_offsets, post_terms  int64[n+1], int64[m] terms that it is posted under, the same for all of a subscription
    Returns the subscriptions, and the place of that of each piece: int64[n].
    """
    keys, first, index = np.unique(piece_key, return_index=True, return_inverse=True)
    around = np.empty((len(keys), 4), np.int32)
    for side, joined in enumerate((np.minimum, np.minimum, np.maximum, np.maximum)):
        around[:, side] = ranges[first, side]
        joined.at(around[:, side], index, ranges[:, side])
    return Subscriptions(keys, around, *take_lists((post_offsets, post_terms), first)), index


def as_arrays(counts: SampleCounts) -> TermCounts:
    """Return the counts as kernels take them."""
    return TermCounts(counts.columns, counts.rows, counts.vocabulary[1], counts.cells, counts.objects)


def estimate_ranges(
    grid: DispatchGrid,
    counts: SampleCounts,
    points: np.ndarray,
    k: np.ndarray,
    term_offsets: np.ndarray,
    terms: np.ndarray,
) -> np.ndarray:
    """Return the raster cells around the k nearest objects of subscriptions that have fewer yet: int32[n, 4].

    points               float64[n, 2]        longitude and latitude
    k                    int64[n]
    term_offsets, terms  int64[n+1], int64[m] words of each

    Source: DkM-SKS, section 3.2: the k nearest among the objects when the plan was made. Departures: the sample stands
    for these objects, so a sampled one counts as often as it represents; cells are counted, and not distances.
    """
    columns, rows = grid.cell_x(points[:, 0]), grid.cell_y(points[:, 1])
    words, wanted = counts.number_terms(terms), k / counts.object_scale
    return np.asarray(find_ranges_of_nearest(columns, rows, term_offsets, words, wanted, as_arrays(counts)))
