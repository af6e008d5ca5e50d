"""Test whether a circle on the sphere contains a point, by great-circle distance (haversine formula)."""

import math

from pststream.kernels.compile import kernel

EARTH_RADIUS_M = 6_371_008.8


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
