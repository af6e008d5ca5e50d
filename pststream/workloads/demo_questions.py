"""List the questions that the demo asks about its objects, one or two of each kind, with their titles."""

from typing import Any

from pststream.workloads.places import find_city


def demo_questions() -> list[tuple[str, dict[str, Any]]]:
    """Return title and fields of each question."""
    lisbon, new_orleans, singapore = _at("Lisbon PT"), _at("New Orleans US"), _at("Singapore SG")
    return [
        ("Coffee in Lisbon, the newest first", {
            "kind": "range", "circle": {**lisbon, "radius_m": 20_000},
            "keywords": "coffee AND (free OR cheap)", "window": "4h",
        }),
        ("Jazz or blues nearest to New Orleans", {
            "kind": "knn", "point": new_orleans, "k": 8, "keywords": "(jazz OR blues OR swing) AND free",
        }),
        ("Cheap tea and noodles around Singapore", {
            "kind": "topk", "point": singapore, "k": 8, "keywords": "cheap tea noodles night market",
            "alpha": 0.5, "distance_scale_m": 20_000,
        }),
        ("Words around London, an hour before noon", {
            "kind": "frequent_terms", "geometry": _triangle(_at("London GB"), 0.6), "k": 10,
            "window": "1h", "as_of": "2026-03-01T11:59:59Z",
        }),
    ]  # fmt: skip


def _at(city: str) -> dict[str, float]:
    name, country = city.rsplit(" ", 1)
    lon, lat = find_city(name, country)
    return {"lon": lon, "lat": lat}


def _triangle(place: dict[str, float], degrees: float) -> dict[str, Any]:
    """Return a triangle around a place."""
    lon, lat = place["lon"], place["lat"]
    corners = [[lon - degrees, lat - degrees / 2], [lon + degrees, lat - degrees / 2], [lon, lat + degrees]]
    return {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
