"""Test whether a circle on the sphere contains a point, and bound many circles by boxes."""

import math

import numpy as np

from pststream.kernels.compile import kernel

EARTH_RADIUS_M = 6_371_008.8

PAD = 1e-6
"""Degrees: far more than the rounding of the haversine formula (1e-8), and too little to add candidates."""

NEAR_POLE = 1e-4
NEAR_HALF_TURN = math.pi - 1e-4


@kernel
def in_circle(numbers, start, lon, lat):
    """Return whether the great-circle distance (haversine formula) is at most the radius.

    numbers  float64[]: from `start` on, longitude and latitude of the centre in degrees, radius in metres
    """
    lon1, lat1 = math.radians(numbers[start]), math.radians(numbers[start + 1])
    lon2, lat2 = math.radians(lon), math.radians(lat)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a))) <= numbers[start + 2]


@kernel
def boxes_around(circles):
    """Return the boxes that contain every point of each circle: owners int64[boxes], float64[boxes, 4] in degrees.

    circles  float64[n, 3]: longitude and latitude in degrees, radius in metres
    A circle that crosses the antimeridian has two boxes, west of it and east of it. If a pole is inside or nearly so,
    the box is over all longitudes.
    """
    owner, boxes = np.empty(2 * len(circles), np.int64), np.empty((2 * len(circles), 4))
    count = 0
    for row in range(len(circles)):
        lon, lat, angle = circles[row, 0], circles[row, 1], circles[row, 2] / EARTH_RADIUS_M
        reach = math.degrees(angle) + PAD
        south, north = max(-90.0, lat - reach), min(90.0, lat + reach)
        west, east = -180.0, 180.0
        if angle >= NEAR_HALF_TURN:
            south, north = -90.0, 90.0
        elif abs(lat) + reach < 90.0 - NEAR_POLE:
            half = math.degrees(math.asin(min(1.0, math.sin(angle) / math.cos(math.radians(lat))))) + PAD
            west, east = lon - half, lon + half
        owner[count : count + 2] = row
        boxes[count : count + 2, 1], boxes[count : count + 2, 3] = south, north
        boxes[count, 0], boxes[count, 2] = west, east
        if west < -180.0:
            boxes[count, 0], boxes[count, 2] = west + 360.0, 180.0
        elif east > 180.0:
            boxes[count, 2] = 180.0
        if west < -180.0 or east > 180.0:
            count += 1
            boxes[count, 0], boxes[count, 2] = -180.0, east if west < -180.0 else east - 360.0
        count += 1
    return owner[:count].copy(), boxes[:count].copy()
