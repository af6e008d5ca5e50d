"""Evaluate the rule of `knn` answers without the kernels: great-circle distances of objects with the words."""

import sys
from typing import Any

import numpy as np

from pststream.queries.kinds.answer_contract import Description, ObjectRows, RankedAnswers, WordWeights
from pststream.queries.kinds.keywords import satisfy_keywords
from pststream.queries.kinds.stored_columns import LAT, LON
from pststream.queries.shapes.great_circle import haversine_of_arrays
from pststream.queries.shapes.region import Region, RegionError, RegionLimits
from pststream.queries.shapes.registry import read_region


def distances(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the distances in metres, as compared: float32[n]; not a number without the words."""
    point = asked["point"]
    metres = haversine_of_arrays(point["lon"], point["lat"], objects.lon, objects.lat)
    return np.where(satisfy_keywords(asked["keywords"], objects), metres, np.nan).astype(np.float32)


def no_parts(asked: Description, objects: ObjectRows, weights: WordWeights) -> dict[str, Any]:
    """Return nothing: a distance has no parts."""
    return {}


def circle_of_last(asked: Description, metres: float) -> Region | None:
    """Return the circle of the last object of a full answer; None: it has no radius."""
    try:
        return read_region({"circle": {**asked["point"], "radius_m": metres}}, RegionLimits(sys.maxsize))
    except RegionError:
        return None


NEAREST = RankedAnswers(
    value_column="distance_m",
    sign=1,
    value_text=lambda metres: f"{metres:,.1f} m",
    values=distances,
    parts=no_parts,
    numbers=(LON.name, LAT.name),
    mark=LON.name,
    is_weighed=False,
    reach=circle_of_last,
)
