"""Build an index over the areas of the parts of a plan, and ask several indexes."""

from collections.abc import Sequence

import numpy as np

from pststream.base import names
from pststream.kernels.planning.split_subscriptions import AreaIndex, find_nearest_areas
from pststream.planning.raster import hilbert_rank

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
    while len(levels[-1].first) > 1:
        levels.append(_parents(levels[-1], start))
        start += len(levels[-2].first)
    arrays = [np.concatenate(level) for level in zip(*levels)]
    for array in arrays:
        array.flags.writeable = False
    return AreaIndex(*arrays)


def _parents(level: AreaIndex, start: int) -> AreaIndex:
    """Return the parents of the entries of a level, the first of which is entry `start`."""
    groups = np.arange(0, len(level.first), CHILDREN)
    boxes = np.hstack(
        [
            np.minimum.reduceat(level.boxes[:, :2], groups, axis=0),
            np.maximum.reduceat(level.boxes[:, 2:], groups, axis=0),
        ]
    )
    below = start + np.column_stack([groups, np.append(groups[1:], len(level.first))])
    return AreaIndex(
        boxes, np.maximum.reduceat(level.extents, groups, axis=0), np.minimum.reduceat(level.first, groups), below
    )


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
