"""Return the hand-written subscriptions and questions of the demo around real cities."""

from typing import Any

from pststream.workloads.places import find_city

CREATED = "2026-03-01T05:00:00Z"

_AROUND = (  # id, subscriber, title, keywords, city, radius in km
    ("coffee-lisbon", "ana", "Cheap coffee in Lisbon", "coffee AND (free OR cheap)", "Lisbon PT", 20),
    ("cafe-lisbon", "ana", "Café grátis em Lisboa", "café AND (grátis OR barato)", "Lisbon PT", 15),
    ("fado-lisbon", "tiago", "Fado tonight", "fado", "Lisbon PT", 10),
    ("coffee-seattle", "mia", "Free coffee in Seattle", "coffee AND free", "Seattle US", 25),
    ("coffee-melbourne", "jack", "Melbourne coffee watch", "coffee OR espresso OR (flat white)", "Melbourne AU", 30),
    ("coffee-berlin", "jonas", "Kaffee in Berlin", "kaffee AND (günstiger OR gratis)", "Berlin DE", 25),
    ("flea-berlin", "lena", "Flohmarkt auf der Strasse", "flohmarkt AND STRASSE", "Berlin DE", 40),
    ("coffee-athens", "eleni", "Φθηνός καφές στην Αθήνα", "καφές AND (φθηνός OR δωρεάν)", "Athens GR", 25),
    ("coffee-tokyo", "haruka", "無料コーヒー 東京", "コーヒー AND (無料 OR 安い)", "Tokyo JP", 40),
    ("coffee-cairo", "omar", "قهوة مجانية في القاهرة", "قهوة AND (مجانية OR رخيصة)", "Cairo EG", 40),
    ("tea-mumbai", "priya", "बारिश में चाय", "चाय AND बारिश", "Mumbai IN", 40),
    ("aurora-tromso", "ingrid", "Aurora over Tromsø", "aurora OR (northern lights)", "Tromsø NO", 80),
    ("aurora-reykjavik", "björk", "Aurora and clear sky", "aurora AND clear AND sky", "Reykjavík IS", 60),
    ("aurora-fairbanks", "sam", "Aurora near Fairbanks", "aurora", "Fairbanks US", 100),
    ("jazz-neworleans", "louis", "Free jazz or blues", "(jazz OR blues OR swing) AND free", "New Orleans US", 20),
    ("jazz-chicago", "nina", "Jazz tonight in Chicago", "jazz AND tonight", "Chicago US", 30),
    ("jazz-kyoto", "kenji", "今夜のジャズ", "ジャズ AND 今夜", "Kyoto JP", 30),
    ("band-austin", "willie", "A band needs a drummer", "band AND (drummer OR singer)", "Austin US", 50),
    ("flat-amsterdam", "femke", "Flat with a balcony", "flat AND rent AND balcony", "Amsterdam NL", 15),
    ("free-stockholm", "astrid", "Things given away", "free AND (sofa OR desk OR bicycle)", "Stockholm SE", 20),
    ("lost-dublin", "aoife", "Lost cats and dogs", "lost AND (cat OR dog)", "Dublin IE", 15),
    ("museum-paris", "chloé", "Late museums, free", "(museum OR gallery) AND free", "Paris FR", 12),
    ("film-edinburgh", "isla", "Festival tickets left", "festival AND tickets AND left", "Edinburgh GB", 12),
    ("traffic-saopaulo", "rafael", "Accidents on my way", "accident OR roadworks", "São Paulo BR", 35),
    ("traffic-houston", "dwayne", "Ring road", "(accident OR truck) AND ring AND road", "Houston US", 60),
    ("trains-london", "olivia", "Trains cancelled", "(train OR metro OR tram) AND cancelled", "London GB", 35),
    ("flood-bangkok", "malee", "Flooded streets", "flooded OR (heavy rain)", "Bangkok TH", 40),
    ("quake-wellington", "tane", "Did you feel it?", "earthquake OR tremor", "Wellington NZ", 120),
    ("quake-santiago", "camila", "Earthquakes around Santiago", "earthquake OR tremor", "Santiago CL", 150),
    ("volcano-etna", "salvo", "Etna tonight", "volcano AND (lava OR ash)", "Catania IT", 60),
    ("surf-capetown", "thandi", "Clean surf", "(surf OR waves) AND clean", "Cape Town ZA", 40),
    ("surf-honolulu", "kai", "Big waves, offshore wind", "(surf OR waves) AND huge AND offshore", "Honolulu US", 50),
    ("food-singapore", "wei", "Night market", "market AND (noodles OR dumplings)", "Singapore SG", 25),
    ("goal-buenosaires", "lucía", "Goals and penalties", "goal OR penalty", "Buenos Aires AR", 30),
    ("or-nairobi", "wanjiru", "The word or, not the operator", '"or" OR keys OR wallet', "Nairobi KE", 30),
)

_BOXES = (  # id, subscriber, title, keywords, [west, south, east, north]
    ("fiji-sea", "sela", "Fiji, across the antimeridian", "ferry OR cyclone OR reef", [176.5, -19.5, -178.0, -15.5]),
    (
        "fires-california",
        "maria",
        "Fires in California",
        "wildfire OR smoke OR evacuation",
        [-124.4, 32.5, -114.1, 42.0],
    ),
    ("arctic-aurora", "nils", "Aurora, all around the pole", "aurora", [-180.0, 64.0, 180.0, 90.0]),
    ("world-whales", "rachel", "Whales or dolphins, anywhere", "whales OR dolphins", [-180.0, -90.0, 180.0, 90.0]),
    ("europe-jazz", "django", "Free jazz in Europe", "jazz AND free AND entry", [-11.0, 35.0, 30.0, 62.0]),
    ("nz-quakes", "aroha", "New Zealand quakes", "earthquake OR tremor", [166.0, -48.0, -176.0, -34.0]),
)


def named_subscriptions() -> list[dict]:
    """Return insertions as the ingest reads them: circles around cities, and boxes."""
    around: list[Any] = [(*row, {"circle": {**_at(city), "radius_m": 1000 * km}}) for *row, city, km in _AROUND]
    boxes: list[Any] = [(*row, {"bbox": box}) for *row, box in _BOXES]
    rows = []
    for name, subscriber, title, keywords, region in around + boxes:
        asked = {"op": "insert", "subscription_id": name, "keywords": keywords, **region, "created_at": CREATED}
        rows.append({**asked, "payload": {"subscriber": subscriber, "title": title}})
    return rows


def standing_subscriptions() -> list[dict[str, Any]]:
    """Return insertions of subscriptions with memory, two of each kind."""
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
        {"op": "insert", "subscription_id": name, **fields, "created_at": CREATED, "payload": {"title": title}}
        for name, title, fields in asked
    ]


def _at(city: str) -> dict[str, float]:
    lon, lat = find_city(*city.rsplit(" ", 1))
    return {"lon": lon, "lat": lat}


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


def _triangle(place: dict[str, float], degrees: float) -> dict[str, Any]:
    lon, lat = place["lon"], place["lat"]
    corners = [[lon - degrees, lat - degrees / 2], [lon + degrees, lat - degrees / 2], [lon, lat + degrees]]
    return {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
