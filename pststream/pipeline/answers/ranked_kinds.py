"""Define how the pipeline evaluates the kinds `knn` and `topk`, whose answers are the k best objects.

The index that finds candidates is one of two. If no term statistics weigh the values of a kind, it is the worker index,
as for `range`, by regions that the kind gives. Else it is the index of scores of each bucket
(`pststream/answers/scored_index.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import lists
from pststream.kernels.matching.contains_point import boxes_around
from pststream.kernels.questions.codes import distances_m
from pststream.pipeline.answers.log_rows import complete_rows
from pststream.queries.kinds.knn import KNN
from pststream.queries.kinds.topk import TOPK
from pststream.queries.shapes.contract import matched_lon
from pststream.queries.shapes.registry import SIDES, request_schema
from pststream.search.best_objects import BestObjects, PointQuestions, find_nearest_objects, find_scored_objects
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import Clauses
from pststream.search.verified_questions import VerifiedQuestions


class RankedQuestions(NamedTuple):
    """Standing queries of one kind, asked about stored objects, q of them.

    numbers  float64[q,most]  the numbers of the kind, see `RankedAnswers`
    k        int64[q]         greatest number of objects
    clauses                   of each; none: every object
    after    int64[q,2]       ts and key; objects with greater (ts, key) count
    up_to    int64[q,2]       ts and key; objects up to this ts and up to this key count
    verified                  what is verified of each; None: nothing
    """

    numbers: np.ndarray
    k: np.ndarray
    clauses: Clauses
    after: np.ndarray
    up_to: np.ndarray
    verified: VerifiedQuestions | None


@dataclass(frozen=True)
class IndexedReach:
    """How the worker index finds the candidates of a kind.

    regions   (numbers, thresholds float32[n]): the region that an object must lie in to enter each answer, as columns
              of regions (`request_schema`); no two pieces of one have the same south-western corner
    values    (numbers of each candidate's subscription, lon, lat): their values, float32[n]; not a number: too far away
    """

    regions: Callable[[np.ndarray, np.ndarray], pa.RecordBatch] = field(repr=False)
    values: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] = field(repr=False)


@dataclass(frozen=True)
class RankedKind:
    """A kind in the pipeline.

    find_best   the best objects for each question, by the value and then the newest first
    indexed     None, of `topk` alone: the index of scores finds its candidates
    """

    find_best: Callable[[ObjectSnapshot, RankedQuestions], BestObjects] = field(repr=False)
    indexed: IndexedReach | None = None


WORLD = (-180.0, -90.0, 180.0, 90.0)


def points_of(numbers: np.ndarray) -> np.ndarray:
    """Return the points of subscriptions, by their `matched_lon`: float64[n,2]."""
    return np.column_stack([matched_lon(*numbers[:, :2].T), numbers[:, 1]])


def farthest_of(numbers: np.ndarray) -> np.ndarray:
    """Return the greatest distance of an object of `knn` subscriptions, metres: float32[n]; infinity: any."""
    return np.fmin(numbers[:, 2], np.inf).astype(np.float32)


def circles_of(numbers: np.ndarray, thresholds: np.ndarray) -> pa.RecordBatch:
    """Return the regions of `knn` subscriptions as columns: circles with the thresholds, at most the greatest distance,
    as radius, beyond which no object can enter the answer.

    The region is the world for an infinite threshold, and for each circle whose box has the same south-western corner:
    pieces of a subscription are known by this corner (`pststream.plans.pieces.IDENTITY`).
    """
    points = points_of(numbers)
    thresholds = np.minimum(thresholds, farthest_of(numbers))
    radius = np.nextafter(thresholds, np.float32(np.inf)).astype(np.float64)
    is_world = ~np.isfinite(radius)
    owner, boxes = boxes_around(np.column_stack([points, np.where(is_world, 0.0, radius)]))
    is_world[owner[(boxes[:, 0] == WORLD[0]) & (boxes[:, 1] == WORLD[1])]] = True
    kept = ~is_world[owner]
    owner = np.concatenate([owner[kept], np.flatnonzero(is_world)])
    boxes = np.concatenate([boxes[kept], np.tile(WORLD, (int(is_world.sum()), 1))])
    order = np.argsort(owner, kind="stable")
    offsets = np.searchsorted(owner[order], np.arange(len(points) + 1))
    circles = np.column_stack([points, radius])
    circle = lists(offsets_of(3 * ~is_world), circles[~is_world].ravel())
    columns = {side: lists(offsets, boxes[order, index]) for index, side in enumerate(SIDES)}
    columns["circle"] = pa.ListArray.from_arrays(circle.offsets, circle.values, mask=pa.array(is_world))
    return complete_rows(columns, request_schema())


def _distances(numbers: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the distances of candidates, as questions compute them: float32[n]."""
    away = distances_m(points_of(numbers), np.column_stack([lon, lat])).astype(np.float32)
    away[away > farthest_of(numbers)] = np.nan
    return away


def _find_nearest(snapshot: ObjectSnapshot, asked: RankedQuestions) -> BestObjects:
    farthest = farthest_of(asked.numbers)
    return find_nearest_objects(snapshot, _point_questions(asked)._replace(farthest=farthest))


def _find_scored(snapshot: ObjectSnapshot, asked: RankedQuestions) -> BestObjects:
    scales = np.ascontiguousarray(asked.numbers[:, 2:4])
    return find_scored_objects(snapshot, _point_questions(asked)._replace(scales=scales))


def _point_questions(asked: RankedQuestions) -> PointQuestions:
    return PointQuestions(points_of(asked.numbers), *asked[1:5], verified=asked.verified)


RANKED_KINDS = {
    KNN.name: RankedKind(_find_nearest, IndexedReach(circles_of, _distances)),
    TOPK.name: RankedKind(_find_scored),
}
"""A new kind is one more name here, and one in `queries.kinds.registry.KINDS`."""

SCORED_KIND_NAME = TOPK.name
"""The one kind whose candidates the index of scores finds."""
