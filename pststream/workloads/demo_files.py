"""Write the input files of `pststream demo`: six hourly files of objects around real cities, and three of requests."""

import csv
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from pststream.tables.table_files import input_file
from pststream.workloads.demo_sentences import themed_places, write_sentence
from pststream.workloads.demo_subscriptions import CREATED, named_subscriptions, standing_subscriptions
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generated_objects import SCHEMA, iso_times, object_chunks
from pststream.workloads.generated_requests import request_chunks
from pststream.workloads.object_sample import generate_sample
from pststream.workloads.places import Places, city_places, scatter_around
from pststream.workloads.random_texts import ORDINARY, Vocabulary, make_vocabulary

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


# Objects and requests with deliberate errors, so that the demo shows rejects.

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
        rows.append({**present, "subscriber": _SUBSCRIBERS[ordinal % len(_SUBSCRIBERS)]})
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
