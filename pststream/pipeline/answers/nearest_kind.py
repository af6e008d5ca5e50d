"""Define the kind `knn` in the pipeline: the objects nearest to a point.

No object farther than its threshold can enter the answer of a subscription. So its region is a circle with the
threshold as radius, and the world while fewer objects count than it keeps.
"""

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import lists
from pststream.kernels.matching.circle import boxes_around
from pststream.kernels.questions.place_codes import distances_m
from pststream.pipeline.answers.ranked_kind import IndexedReach, RankedKind, RankedQuestions
from pststream.queries.shapes.registry import SIDES, request_schema
from pststream.search.best_objects import BestObjects, PointQuestions, find_nearest_objects
from pststream.search.object_snapshot import ObjectSnapshot

WORLD = (-180.0, -90.0, 180.0, 90.0)


def points_of(numbers: np.ndarray) -> np.ndarray:
    """Return the points of subscriptions: float64[n,2]."""
    return np.ascontiguousarray(numbers[:, :2])


def circles_of(numbers: np.ndarray, thresholds: np.ndarray) -> pa.RecordBatch:
    """Return circles as columns of regions; the world for an infinite threshold, and for each circle whose box has the
    same south-western corner: pieces of a subscription are known by this corner (domain/pieces.IDENTITY).
    """
    points = points_of(numbers)
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
    circle = lists(np.concatenate([[0], np.cumsum(3 * ~is_world)]), circles[~is_world].ravel())
    schema = request_schema()
    columns = {side: lists(offsets, boxes[order, place]) for place, side in enumerate(SIDES)}
    columns["circle"] = pa.ListArray.from_arrays(circle.offsets, circle.values, mask=pa.array(is_world))
    count = len(points)
    return pa.RecordBatch.from_pydict(
        {field.name: columns.get(field.name, pa.nulls(count, field.type)) for field in schema}, schema=schema
    )


def _distances(numbers: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the distances of candidates, as questions compute them: float32[n]."""
    return distances_m(points_of(numbers), np.column_stack([lon, lat])).astype(np.float32)


def _find_best(snapshot: ObjectSnapshot, asked: RankedQuestions) -> BestObjects:
    return find_nearest_objects(snapshot, PointQuestions(points_of(asked.numbers), *asked[1:]))


NEAREST_KIND = RankedKind(_find_best, IndexedReach(circles_of, _distances))
