"""Check and turn the polygons of many requests at once, with kernels and Shapely's functions of arrays.

Polygons that are not valid are left to the parser of single requests (`read` of queries/shapes/polygon.py), which reports their
fault.
"""

import numpy as np
import pyarrow as pa

from pststream.kernels.matching.polygon_rings import are_rings, bounding_boxes, signed_areas, turned_rings
from pststream.queries.raw_fields import RawPolygons
from pststream.queries.shapes.contract import Regions
from pststream.queries.shapes.polygon import offsets_of, turns_left


def check_polygons(raw: RawPolygons, most_vertices: int) -> Regions:
    """Return the regions of the valid polygons, as queries/shapes/polygon.py defines them."""
    sound = _select(raw, raw.read & _are_sound(raw, most_vertices))
    valid = _select(sound, _are_valid(sound))
    exteriors = valid.rings[:-1]
    points = turned_rings(valid.positions, valid.points, _are_turned(valid))
    return Regions(
        valid.read,
        np.repeat(np.arange(len(valid.read)), np.diff(valid.polygons)),
        bounding_boxes(valid.positions, points, exteriors),
        _as_column(valid, points),
    )


def _are_sound(raw: RawPolygons, most_vertices: int) -> np.ndarray:
    """Return which rows have polygons, in each of them rings, and at most so many positions: bool[n]."""
    counts, rings = np.diff(raw.polygons), np.diff(raw.rings)
    vertices = np.diff(raw.positions[raw.rings[raw.polygons]])
    row_of_polygon = np.repeat(np.arange(len(counts)), counts)
    row_of_ring = np.repeat(row_of_polygon, rings)
    sound = (counts > 0) & (vertices <= most_vertices)
    sound[row_of_polygon[rings == 0]] = False
    sound[row_of_ring[~are_rings(raw.positions, raw.points)]] = False
    return sound


def _select(raw: RawPolygons, rows: np.ndarray) -> RawPolygons:
    """Return the polygons of some rows (bool[n]); the other rows have none and are not read."""
    if rows.all():
        return raw
    polygons = np.repeat(rows, np.diff(raw.polygons))
    rings = np.repeat(polygons, np.diff(raw.rings))
    positions = np.repeat(rings, np.diff(raw.positions))
    return RawPolygons(
        raw.read & rows,
        offsets_of(np.diff(raw.polygons) * rows),
        offsets_of(np.diff(raw.rings)[polygons]),
        offsets_of(np.diff(raw.positions)[rings]),
        raw.points[positions],
    )


def _are_valid(raw: RawPolygons) -> np.ndarray:
    """Return which rows are valid geometries: bool[n]; a row of one polygon is a Polygon."""
    import shapely

    counts, valid = np.diff(raw.polygons), raw.read.copy()
    if not len(raw.points):
        return valid
    made = shapely.from_ragged_array(shapely.GeometryType.POLYGON, raw.points, (raw.positions, raw.rings))
    valid[counts == 1] = shapely.is_valid(made[raw.polygons[:-1][counts == 1]])
    several = counts > 1
    if several.any():
        number = np.cumsum(several) - 1
        together = shapely.multipolygons(made[np.repeat(several, counts)], indices=np.repeat(number, counts * several))
        valid[several] = shapely.is_valid(together)
    return valid


def _are_turned(raw: RawPolygons) -> np.ndarray:
    """Return which rings are to be reversed, exteriors to counter-clockwise and holes to clockwise: bool[rings]."""
    areas, errors = signed_areas(raw.positions, raw.points)
    left = areas > 0
    for ring in np.flatnonzero(np.abs(areas) <= errors).tolist():
        left[ring] = turns_left(raw.points[raw.positions[ring] : raw.positions[ring + 1]].ravel().tolist())
    is_exterior = np.zeros(len(areas), bool)
    is_exterior[raw.rings[:-1]] = True
    return left != is_exterior


def _as_column(raw: RawPolygons, points: np.ndarray) -> pa.Array:
    """The values of REQUEST_COLUMN: the rings of each row, null for a row that is not read."""
    rings = pa.ListArray.from_arrays(pa.array((2 * raw.positions).astype(np.int32)), pa.array(points.ravel()))
    offsets = pa.array(raw.rings[raw.polygons].astype(np.int32))
    return pa.ListArray.from_arrays(offsets, rings, mask=pa.array(~raw.read))
