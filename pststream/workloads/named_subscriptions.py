"""Hand-written subscriptions of the demo around real cities, returned as insertion requests."""

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
    """Return insertions as the ingest reads them: circles around cities, and boxes; other fields are payload."""
    rows = []
    for name, subscriber, title, keywords, place, radius_km in _AROUND:
        lon, lat = find_city(*place.rsplit(" ", 1))
        region = {"circle": {"lon": lon, "lat": lat, "radius_m": 1000 * radius_km}}
        rows.append(_insertion(name, keywords, region, {"subscriber": subscriber, "title": title}))
    for name, subscriber, title, keywords, box in _BOXES:
        rows.append(_insertion(name, keywords, {"bbox": box}, {"subscriber": subscriber, "title": title}))
    return rows


def _insertion(name: str, keywords: str, region: dict, payload: dict) -> dict:
    """Return one insertion."""
    return {"op": "insert", "subscription_id": name, "keywords": keywords, **region, "created_at": CREATED, **payload}
