"""Hand-written subscriptions with memory of the demo around real cities, two of each kind, as insertion requests."""

from typing import Any

from pststream.workloads.named_subscriptions import CREATED
from pststream.workloads.places import find_city


def standing_subscriptions() -> list[dict[str, Any]]:
    """Return insertions as the ingest reads them; `title` is payload."""
    asked = [
        ("nearest-coffee", "The nearest coffee in Lisbon, of the last three hours", {
            "kind": "knn", "point": _at("Lisbon PT"), "k": 5, "keywords": "coffee OR café", "window": "3h",
        }),
        ("nearest-jazz", "The nearest free jazz to New Orleans since the morning", {
            "kind": "knn", "point": _at("New Orleans US"), "k": 5, "keywords": "(jazz OR blues) AND free",
        }),
        ("best-market", "The best night markets around Singapore", {
            "kind": "topk", "point": _at("Singapore SG"), "k": 6, "keywords": "cheap tea noodles night market",
            "alpha": 0.5, "distance_scale_m": 20_000, "window": "4h",
        }),
        ("best-museum", "The best of the last 20,000 posts about free museums near Paris", {
            "kind": "topk", "point": _at("Paris FR"), "k": 5, "keywords": "museum gallery free", "alpha": 0.4,
            "distance_scale_m": 50_000, "window": {"objects": 20_000},
        }),
        ("words-london", "Words around London, every half hour", {
            "kind": "frequent_terms", "circle": {**_at("London GB"), "radius_m": 60_000}, "k": 8, "window": "1h",
            "step": "30m",
        }),
        ("words-europe", "Words in Europe, every hour", {
            "kind": "frequent_terms", "bbox": [-11.0, 35.0, 30.0, 62.0], "k": 10, "window": "2h", "step": "1h",
        }),
    ]  # fmt: skip
    return [
        {"op": "insert", "subscription_id": name, **fields, "created_at": CREATED, "title": title}
        for name, title, fields in asked
    ]


def _at(city: str) -> dict[str, float]:
    lon, lat = find_city(*city.rsplit(" ", 1))
    return {"lon": lon, "lat": lat}
