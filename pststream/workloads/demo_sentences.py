"""Write random sentences from templates by theme, and list the places of the demo with their themes."""

import re
from dataclasses import dataclass

import numpy as np

from pststream.workloads.places import find_city

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
