"""Make the objects of the demo: random words around all cities, sentences from templates around some of them."""

import numpy as np
import pyarrow as pa

from pststream.workloads.demo_sentences import themed_places, write_sentence
from pststream.workloads.generated_objects import SCHEMA, iso_times, object_chunks
from pststream.workloads.made_up_words import ORDINARY, Vocabulary, make_vocabulary
from pststream.workloads.places import Places, city_places, scatter_around

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
    """Return the objects of one morning, ordered by time."""
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
        pa.array([f"p{number}" for number in range(count)], pa.string()),
        iso_times(START_MS + np.sort(rng.random(count)) * _DURATION_MS),
        pa.array(np.round(lon, 6)),
        pa.array(np.round(lat, 6)),
        pa.array([write_sentence(rng, themed[place]) for place in chosen], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)
