"""Compute great-circle distances in metres by the haversine formula, and format distances for people."""

import math

import numpy as np

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""


def haversine_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Great-circle distance in metres; the kernels do the same operations in the same order."""
    lon1, lat1, lon2, lat2 = math.radians(lon1), math.radians(lat1), math.radians(lon2), math.radians(lat2)
    a = math.sin((lat2 - lat1) / 2.0) ** 2
    a += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(a)))


def haversine_of_arrays(lon1: float, lat1: float, lon2: np.ndarray, lat2: np.ndarray) -> np.ndarray:
    """Great-circle distances in metres from one point to many, of the shape of `lon2` and `lat2`."""
    south, north = math.radians(lat1), np.radians(lat2)
    a = np.sin((north - south) / 2.0) ** 2
    a += math.cos(south) * np.cos(north) * np.sin(np.radians(lon2 - lon1) / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * np.arcsin(np.minimum(1.0, np.sqrt(a)))


def metres(value: float) -> str:
    """A distance for a person to read, in metres or kilometres."""
    return f"{value / 1000:,.4g} km" if value >= 1000 else f"{value:.4g} m"
