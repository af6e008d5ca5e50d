"""Match a segment slowly: every object against every piece."""

from pststream.queries.shapes.contract import haversine_m
from tests.oracles.polygon import covers


def matches_of(objects: list[dict], pieces: list[dict], deletions: list[tuple[int, int]], after_key: int = -1) -> set:
    """Return the pairs (index of the object, subscription key) by plain comparison."""
    pairs = set()
    for place, thing in enumerate(objects):
        for piece in pieces:
            ends = [piece["end_at"]] + [end for key, end in deletions if key == piece["subscription_key"]]
            inside = piece["west"] <= thing["lon"] <= piece["east"] and piece["south"] <= thing["lat"] <= piece["north"]
            worded = all(set(clause) & set(thing["terms"]) for clause in piece["clauses"])
            if piece["polygon"] is not None:
                inside = inside and covers(piece["polygon"], thing["lon"], thing["lat"])
            if piece["circle"] is not None:
                lon, lat, radius = piece["circle"]
                inside = inside and haversine_m(lon, lat, thing["lon"], thing["lat"]) <= radius
            if (
                inside
                and worded
                and piece["created_at"] <= thing["ts"] < min(ends)
                and piece["subscription_key"] > after_key
            ):
                pairs.add((place, piece["subscription_key"]))
    return pairs
