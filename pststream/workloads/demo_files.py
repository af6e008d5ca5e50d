"""Write the input files of `pststream demo`: six hourly files of objects around real cities, and three of requests."""

import csv
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.tables.table_files import input_file
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generated_rows import SCHEMA, iso_times, object_chunks, request_chunks
from pststream.workloads.object_sample import generate_sample
from pststream.workloads.places import Places, city_places, find_city, scatter_around
from pststream.workloads.random_texts import ORDINARY, Vocabulary, make_vocabulary

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


_CHOICE = re.compile(r"\{([^{}]*)\}")

THEMES: dict[str, tuple[str, ...]] = {
    "coffee": (
        "{Free|Cheap|Great|Strong} coffee at the {market|station|library|harbour} {this morning|today|until noon}",
        "New cafe on the corner: coffee and {cake|fresh bread|a free refill}, {cheap|cosy|quiet}",
        "{Espresso|Flat white|Coffee} and a {book|croissant} by the window, raining outside",
    ),
    "music": (
        "{Jazz|Blues|Swing} {tonight|this weekend} in the {park|old town|cellar}, {free entry|tickets at the door}",
        "Open air concert by the river, {jazz|rock|choir}, bring a blanket",
        "Looking for a {drummer|violin player|singer} for our band",
    ),
    "traffic": (
        "{Accident|Roadworks|Broken truck} on the {ring road|bridge|motorway}, {two lanes closed|expect long delays}",
        "{Train|Metro|Tram} {delayed|cancelled} again, platform is crowded",
        "Traffic {jam|chaos} near the stadium, take the tunnel",
    ),
    "weather": (
        "{Heavy rain|Storm|Hail} over the {city|hills}, {streets flooded|take an umbrella|stay inside}",
        "Sunny and warm, {perfect|best} day for the {park|beach|lake}",
        "{Fog|Ice} on the roads, drive slowly",
    ),
    "food": (
        "{Street food|Vegan food|Night} market {today|tonight}: {noodles|tacos|curry|dumplings} and {free|cheap} tea",
        "{Cheap|Homemade|Spicy} {ramen|pizza|soup} around the corner, worth the queue",
        "Half price {sushi|bread|pastry} after eight",
    ),
    "football": (
        "{Goal|Penalty|Red card} in the last minute, the {stadium|pub} goes wild",
        "Football in the park at {five|six}, we need {two players|a keeper}",
    ),
    "home": (
        "Flat for rent, two rooms, balcony, {near the university|quiet street}, {no agency|pets welcome}",
        "Giving away a {sofa|desk|bicycle}, free, must be picked up today",
        "Lost {cat|dog|keys|wallet} near the {park|station}, reward",
        "Found a {phone|passport|red scarf} on the tram, write to me",
    ),
    "culture": (
        "{Museum|Gallery} open late {tonight|on Friday}, {free entry|new exhibition}",
        "{Film|Theatre} festival starts today, {tickets left|sold out}",
    ),
    "aurora": (
        "{Aurora|Northern lights} {right now|over the harbour}, {green and violet|clear sky}",
        "Clear sky tonight, aurora {likely|forecast strong}, dress warm",
        "Snow scooter tour to see the aurora and {whales|reindeer}",
    ),
    "sea": (
        "{Ferry|Boat} to the islands {delayed|cancelled}, {strong wind|rough sea}",
        "{Cyclone|Storm} warning for the islands, {ferry|flights} cancelled",
        "{Dolphins|Whales|Turtles} by the reef this morning, dive boat leaves at nine",
    ),
    "earth": (
        "{Earthquake|Tremor} felt {just now|a minute ago}, {dishes rattling|everyone outside}",
        "The volcano is {glowing|smoking} tonight, {ash|lava} seen from the road",
    ),
    "surf": (
        "{Surf|Waves} {clean|huge|messy} this morning, {offshore wind|watch the rocks}",
        "Surf board for sale, {cheap|almost new}",
    ),
    "fire": (
        "{Wildfire|Smoke} seen {in the hills|near the motorway}, {evacuation|road closed}",
        "Fire {brigade|engines} at the old warehouse, keep windows shut",
    ),
    "greek": ("{Φθηνός|Δωρεάν} καφές κοντά στον σταθμό", "Συναυλία απόψε στο θέατρο, είσοδος ελεύθερη"),
    "japanese": ("駅前 で {無料|安い} コーヒー", "今夜 公園 で ジャズ", "地震 です 皆さん 気をつけて"),
    "arabic": ("قهوة {مجانية|رخيصة} في السوق اليوم", "ازدحام على الجسر هذا الصباح"),
    "hindi": ("बारिश में {गरम|सस्ती} चाय", "आज शाम मुफ्त संगीत कार्यक्रम"),
    "german": ("{Günstiger|Gratis} Kaffee am Bahnhof", "Flohmarkt auf der Straße, {Bücher|Räder} und Kuchen"),
    "portuguese": ("Café {grátis|barato} na praça hoje de manhã", "Fado ao vivo {hoje|amanhã} à noite em Alfama"),
    "spanish": ("Café {gratis|barato} cerca de la estación", "Tráfico lento en la autopista, accidente"),
}

EVERYWHERE = ("coffee", "music", "traffic", "weather", "food", "football", "home", "culture")

_LOCAL = {
    "Lisbon PT": "portuguese coffee", "Porto PT": "portuguese", "Madrid ES": "spanish", "Barcelona ES": "spanish sea",
    "Paris FR": "culture", "London GB": "", "Edinburgh GB": "culture", "Dublin IE": "", "Amsterdam NL": "home",
    "Berlin DE": "german", "Munich DE": "german", "Vienna AT": "german culture", "Prague CZ": "",
    "Rome IT": "culture", "Catania IT": "earth", "Athens GR": "greek", "Istanbul TR": "food", "Stockholm SE": "",
    "Oslo NO": "", "Tromsø NO": "aurora", "Reykjavík IS": "aurora earth", "Cairo EG": "arabic",
    "Lagos NG": "music", "Nairobi KE": "", "Cape Town ZA": "surf", "Mumbai IN": "hindi", "Delhi IN": "hindi",
    "Bangkok TH": "food weather", "Singapore SG": "food", "Tokyo JP": "japanese food", "Kyoto JP": "japanese",
    "Seoul KR": "food", "Sydney AU": "surf fire", "Melbourne AU": "coffee", "Wellington NZ": "earth coffee",
    "Suva FJ": "sea", "Labasa FJ": "sea", "Honolulu US": "surf sea", "Fairbanks US": "aurora",
    "Los Angeles US": "fire earth", "San Francisco US": "earth", "Seattle US": "coffee", "Portland US": "coffee",
    "Denver US": "fire", "Austin US": "music food", "New Orleans US": "music", "Chicago US": "music",
    "New York City US": "culture", "Houston US": "traffic weather", "Miami US": "surf", "Toronto CA": "",
    "Mexico City MX": "spanish earth", "Bogotá CO": "spanish coffee", "Lima PE": "spanish food",
    "Santiago CL": "spanish earth", "Buenos Aires AR": "spanish football", "São Paulo BR": "portuguese traffic",
    "Rio de Janeiro BR": "portuguese surf",
}  # fmt: skip


@dataclass(frozen=True)
class ThemedPlace:
    """A place of the demo and the themes of its texts; a local theme counts three times."""

    name: str
    lon: float
    lat: float
    themes: tuple[str, ...]


def themed_places() -> list[ThemedPlace]:
    """Return the places of the demo that have themes."""
    places = [ThemedPlace("Taveuni", -179.98, -16.85, ("sea",))]  # across the antimeridian from the rest of Fiji
    for key, local in _LOCAL.items():
        name, country = key.rsplit(" ", 1)
        places.append(ThemedPlace(name, *find_city(name, country), EVERYWHERE + 3 * tuple(local.split())))
    return places


def write_sentence(rng: np.random.Generator, place: ThemedPlace) -> str:
    """Write a random sentence about one of the themes of a place."""
    sentences = THEMES[place.themes[rng.integers(len(place.themes))]]
    return _CHOICE.sub(
        lambda choice: str(rng.choice(choice.group(1).split("|"))), sentences[rng.integers(len(sentences))]
    )


START_MS = int(np.datetime64("2026-03-01T06:00:00", "ms").astype(np.int64))
HOURS = 6
_DURATION_MS = HOURS * 3_600_000
_SENTENCE_SHARE = 0.25
_SENTENCE_RADIUS_KM = 7.0


def demo_vocabulary() -> Vocabulary:
    """Return a vocabulary of ordinary words only, so that texts are readable and often match."""
    return make_vocabulary(len(set(ORDINARY)), shift=30.0)


def demo_places() -> Places:
    """Return all cities; small ones get more than the share of their inhabitants, so that the map fills."""
    cities = city_places()
    return Places(cities.lon, cities.lat, cities.weight**0.6, cities.radius_km)


def demo_objects(count: int, seed: int) -> pa.Table:
    """Return the objects of one morning by time: random words around all cities, sentences around some of them."""
    spoken = round(count * _SENTENCE_SHARE)
    generated = object_chunks(
        count - spoken,
        seed,
        places=demo_places(),
        vocabulary=demo_vocabulary(),
        terms_per_text=7.0,
        local_share=0.3,
        start_ms=START_MS,
        ms_per_object=_DURATION_MS / max(count - spoken, 1),
        id_prefix="o",
    )
    both = pa.concat_tables([*generated, _sentences(spoken, seed)])
    return both.sort_by([("ts", "ascending"), ("object_id", "ascending")])


def _sentences(count: int, seed: int) -> pa.Table:
    """Return objects with hand-written sentences around the places that have themes."""
    rng = np.random.default_rng([seed, 9])
    themed = themed_places()
    places = Places(
        np.array([place.lon for place in themed]),
        np.array([place.lat for place in themed]),
        np.ones(len(themed)),
        np.full(len(themed), _SENTENCE_RADIUS_KM),
    )
    chosen = rng.integers(0, len(themed), count)
    lon, lat = scatter_around(rng, places, chosen)
    columns = [
        pa.array([f"p{ordinal}" for ordinal in range(count)], pa.string()),
        iso_times(START_MS + np.sort(rng.random(count)) * _DURATION_MS),
        pa.array(np.round(lon, 6)),
        pa.array(np.round(lat, 6)),
        pa.array([write_sentence(rng, themed[place]) for place in chosen], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


BAD_OBJECTS = (
    {"object_id": "bad-latitude", "ts": "2026-03-01T10:00:00Z", "lon": "9.1", "lat": "91.5", "text": "coffee"},
    {"object_id": "bad-longitude", "ts": "2026-03-01T10:00:01Z", "lon": "-200", "lat": "38.7", "text": "lost wallet"},
    {"object_id": "bad-nan", "ts": "2026-03-01T10:00:02Z", "lon": "NaN", "lat": "38.7", "text": "jazz tonight"},
    {"object_id": "bad-blank", "ts": "2026-03-01T10:00:03Z", "lon": "", "lat": "", "text": "where am I"},
    {"object_id": "bad-time", "ts": "yesterday at noon", "lon": "9.1", "lat": "45.5", "text": "train delayed"},
    {"object_id": "bad-comma", "ts": "2026-03-01T10:00:04Z", "lon": "9,1", "lat": "45,5", "text": "decimal commas"},
    {"object_id": "", "ts": "2026-03-01T10:00:05Z", "lon": "9.1", "lat": "45.5", "text": "no id"},
    {
        "object_id": "bad-markup",
        "ts": "<script>alert('ts')</script>",
        "lon": "9.1",
        "lat": "45.5",
        "text": "a page must not run this",
    },
)

HOSTILE_OBJECTS = (
    {
        "object_id": "odd-markup",
        "ts": "2026-03-01T11:30:00Z",
        "lon": "-9.1393",
        "lat": "38.7223",
        "text": "<script>alert('text')</script> free coffee & \"cake\" in Lisbon",
    },
)
"""Valid objects whose text is markup, which a page must escape."""

LATE_TIMES = ("2026-02-27T08:00:00Z", "2026-02-27T09:30:00Z", "2026-02-26T23:59:59Z", "2025-12-31T12:00:00Z")

BAD_REQUESTS = (
    {"op": "insert", "subscription_id": "bad-expression", "keywords": "coffee AND (free OR", "bbox": [-10, 38, -9, 39]},
    {"op": "insert", "subscription_id": "bad-box", "keywords": "coffee", "bbox": [-10, 40, -9, 39]},
    {"op": "insert", "subscription_id": "bad-region", "keywords": "coffee"},
    {"op": "insert", "subscription_id": "bad-words", "keywords": "!!! ???", "bbox": [-10, 38, -9, 39]},
    {"op": "insert", "subscription_id": "coffee-lisbon", "keywords": "tea", "bbox": [-10, 38, -9, 39]},
    {"op": "delete", "subscription_id": "never-registered", "at": "2026-03-01T08:00:00Z"},
    {"op": "update", "subscription_id": "coffee-lisbon", "keywords": "tea"},
)

_SUBSCRIBERS = ("amir", "bea", "chen", "dora", "eno", "farah", "goran", "hana", "ines", "juan", "kofi", "lucia")
_HOUR_MS = 3_600_000


def first_requests(count: int, seed: int) -> list[dict]:
    """Return the insertions before the morning: named subscriptions, then `count` generated ones of the kind Q3."""
    sample = generate_sample(seed, 50_000, places=demo_places(), vocabulary=demo_vocabulary(), local_share=0.3)
    created_ms = int(datetime.fromisoformat(CREATED).timestamp() * 1000)
    chunks = request_chunks(
        count,
        seed,
        objects=sample,
        style=SubscriptionStyle("q3"),
        mean_lifetime=None,
        drift_every=None,
        start_ms=created_ms,
        ms_per_insertion=0.0,
        id_prefix="g",
    )
    rows = named_subscriptions()
    for ordinal, row in enumerate(row for chunk in chunks for row in chunk.to_pylist()):
        present = {name: value for name, value in row.items() if value is not None}
        rows.append({**present, "payload": {"subscriber": _SUBSCRIBERS[ordinal % len(_SUBSCRIBERS)]}})
    return rows


def later_requests(count: int, seed: int) -> list[dict]:
    """Return the requests of the morning.

    One of twenty generated subscriptions and one named one are deleted; requests with deliberate errors follow.
    """
    rng = np.random.default_rng([seed, 10])
    ended = np.sort(rng.choice(count, count // 20, replace=False))
    times = np.sort(START_MS + rng.random(len(ended)) * 5 * _HOUR_MS)
    rows: list[dict] = [
        {"op": "delete", "subscription_id": f"g{ordinal}", "at": at}
        for ordinal, at in zip(ended.tolist(), iso_times(times).to_pylist())
    ]
    noon = iso_times(np.array([START_MS + 5 * _HOUR_MS]))[0].as_py()
    rows.append({"op": "delete", "subscription_id": "world-whales", "at": noon})
    return [*rows, *BAD_REQUESTS]


_ENDINGS = (".csv", ".csv", ".jsonl.gz", ".parquet", ".csv", ".csv")
_DUPLICATES = 3


@dataclass(frozen=True)
class DemoFiles:
    """The files of a demo in the order in which they are ingested, and the number of rows with deliberate errors.

    requests                    of subscriptions that match; request_rows: their number
    answer_requests             of subscriptions with memory
    bad_objects, late_objects, duplicate_objects, bad_requests   rows that the ingest must reject
    """

    objects: tuple[str, ...]
    requests: tuple[str, ...]
    object_rows: int
    request_rows: int
    bad_objects: int
    late_objects: int
    duplicate_objects: int
    bad_requests: int
    answer_requests: tuple[str, ...]


def write_demo(
    folder: str | os.PathLike[str], seed: int, *, objects: int = 60_000, subscriptions: int = 20_000
) -> DemoFiles:
    """Write the files of the demo below `folder`: `objects/`, with an hour of texts in each file, and `requests/`.

    objects        number of texts, without those with deliberate errors; at least 100
    subscriptions  number of generated subscriptions, besides about forty hand-written ones; at least 20

    The same arguments give the same bytes.
    """
    # Divide the objects by hour, and add rows with deliberate errors to the last two hours.
    rows = demo_objects(objects, seed)
    hours = [rows.take(pa.array(numbers)) for numbers in np.array_split(np.arange(len(rows)), HOURS)]
    wrong: list[list[dict]] = [[] for _ in hours]
    wrong[4] = [*hours[1].slice(0, _DUPLICATES).to_pylist(), *BAD_OBJECTS]
    late = [
        {"object_id": f"late{ordinal}", "ts": ts, "lon": 9.19, "lat": 45.46, "text": "from the day before"}
        for ordinal, ts in enumerate(LATE_TIMES)
    ]
    wrong[5] = [*HOSTILE_OBJECTS, *late]
    paths = []
    for hour, table in enumerate(hours):
        path = Path(folder) / "objects" / f"2026-03-01T{6 + hour:02}{_ENDINGS[hour]}"
        _write_objects(path, table, wrong[hour])
        paths.append(str(path))
    # Write the requests before and during the morning.
    first = Path(folder) / "requests" / "2026-03-01T05.jsonl"
    later = Path(folder) / "requests" / "2026-03-01T11.jsonl"
    requests = _write_requests(first, first_requests(subscriptions, seed))
    requests += _write_requests(later, later_requests(subscriptions, seed))
    answers = Path(folder) / "requests" / "2026-03-01T05-answers.jsonl"
    _write_requests(answers, standing_subscriptions())
    return DemoFiles(
        objects=tuple(paths),
        requests=(str(first), str(later)),
        object_rows=len(rows) + sum(map(len, wrong)),
        request_rows=requests,
        bad_objects=len(BAD_OBJECTS),
        late_objects=len(LATE_TIMES),
        duplicate_objects=_DUPLICATES,
        bad_requests=len(BAD_REQUESTS),
        answer_requests=(str(answers),),
    )


def _write_objects(path: Path, table: pa.Table, wrong: list[dict]) -> None:
    """Write a file of objects; a file with faulty rows is written as CSV, as their values do not fit the schema."""
    if not wrong:
        with input_file(path, SCHEMA) as writer:
            writer.write(table)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, SCHEMA.names, lineterminator="\n")
        rows.writeheader()
        rows.writerows(table.to_pylist())
        rows.writerows(wrong)


def _write_requests(path: Path, rows: list[dict]) -> int:
    """Write a file of requests; return the number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return len(rows)
