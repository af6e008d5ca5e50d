"""Compute great-circle distances in metres by the haversine formula, and format distances for people."""

import math

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Great-circle distance in metres; the kernels do the same operations in the same order."""
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))


def metres(value: float) -> str:
    """A distance for a person to read, in metres or kilometres."""
    return f"{value / 1000:,.4g} km" if value >= 1000 else f"{value:.4g} m"
