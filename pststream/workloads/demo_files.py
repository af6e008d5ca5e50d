"""Write the input files of `pststream demo` (six hourly files of objects, three of requests); list its questions."""

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
from pststream.workloads.generate_files import SCHEMA, iso_times, object_chunks, request_chunks
from pststream.workloads.object_sample import generate_sample
from pststream.workloads.places import Places, city_places, find_city, scatter_around
from pststream.workloads.random_texts import ORDINARY, Vocabulary, make_vocabulary

CREATED = "2026-03-01T05:00:00Z"

_DATA: dict[str, Any] = json.loads(Path(__file__).with_name("demo.json").read_text("utf-8"))
"""What is written by hand.

around, boxes    subscriptions: id, subscriber, title, keywords; city and radius in kilometres, or bbox
standing         subscriptions with memory: id, title, fields; questions: title, fields. `city` stands for its place
themes           sentences by theme, with choices in braces; local_themes: by city
bad_objects, bad_requests, hostile_objects   rows with errors; valid rows whose text is markup, which pages must escape
"""


def named_subscriptions() -> list[dict]:
    """Return insertions as the ingest reads them: circles around cities, and boxes."""
    around: list[Any] = [(*row, {"circle": {**_at(city), "radius_m": 1000 * km}}) for *row, city, km in _DATA["around"]]
    boxes: list[Any] = [(*row, {"bbox": box}) for *row, box in _DATA["boxes"]]
    rows = []
    for name, subscriber, title, keywords, region in around + boxes:
        asked = {"op": "insert", "subscription_id": name, "keywords": keywords, **region, "created_at": CREATED}
        rows.append({**asked, "payload": {"subscriber": subscriber, "title": title}})
    return rows


def standing_subscriptions() -> list[dict[str, Any]]:
    """Return insertions of subscriptions with memory, two of each kind."""
    return [
        {"op": "insert", "subscription_id": name, **_placed(fields), "created_at": CREATED, "payload": {"title": title}}
        for name, title, fields in _DATA["standing"]
    ]


def _at(city: str) -> dict[str, float]:
    lon, lat = find_city(*city.rsplit(" ", 1))
    return {"lon": lon, "lat": lat}


def _placed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a query; longitude and latitude in place of a city."""
    return {
        name: {**_at(value["city"]), **{k: v for k, v in value.items() if k != "city"}}
        if isinstance(value, dict) and "city" in value
        else value
        for name, value in fields.items()
    }


def demo_questions() -> list[tuple[str, dict[str, Any]]]:
    """Return title and fields of each question."""
    return [(title, _placed(fields)) for title, fields in _DATA["questions"]]


_CHOICE = re.compile(r"\{([^{}]*)\}")

THEMES: dict[str, list[str]] = _DATA["themes"]
EVERYWHERE = ("coffee", "music", "traffic", "weather", "food", "football", "home", "culture")


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
    for key, local in _DATA["local_themes"].items():
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


LATE_TIMES = ("2026-02-27T08:00:00Z", "2026-02-27T09:30:00Z", "2026-02-26T23:59:59Z", "2025-12-31T12:00:00Z")

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
    return [*rows, *_DATA["bad_requests"]]


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
    wrong[4] = [*hours[1].slice(0, _DUPLICATES).to_pylist(), *_DATA["bad_objects"]]
    late = [
        {"object_id": f"late{ordinal}", "ts": ts, "lon": 9.19, "lat": 45.46, "text": "from the day before"}
        for ordinal, ts in enumerate(LATE_TIMES)
    ]
    wrong[5] = [*_DATA["hostile_objects"], *late]
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
        bad_objects=len(_DATA["bad_objects"]),
        late_objects=len(LATE_TIMES),
        duplicate_objects=_DUPLICATES,
        bad_requests=len(_DATA["bad_requests"]),
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
