"""Draw stored objects of a given number, and write them straight into the table `objects` as ingest would.

The objects are like those of SSTD (section 7.1): 10 words on average, a vocabulary of 800,000 words by Zipf's law, 30
days. Three distributions of places (section 7.2): `cities` of the world; `uniform`; `gaussian` around the middle of
both axes, whose ends are three standard deviations away. Words of `cities` have local topics. The two most frequent
words meet in few objects: one in a thousand of those that drew both.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME
from pststream.base.progress import Progress, StepCounter
from pststream.base.utc_times import from_micros, to_micros
from pststream.pipeline.calibrate.synthetic_homes import START
from pststream.queries.text.tokenizer import terms_of
from pststream.state import ledger_tables
from pststream.state.data_files import ROW_GROUP, DataFile, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import log_key
from pststream.workloads.places import city_places, scatter
from pststream.workloads.random_texts import area_of, draw_terms, make_vocabulary

WORDS = 10.0
VOCABULARY = 800_000
DAYS = 30
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
LOCAL_SHARE = {"cities": 0.2, "uniform": 0.0, "gaussian": 0.0}
"""Share of local topics among the words, by distribution of places."""

SAMPLE = 20_000
THREADS = 2


@dataclass(frozen=True)
class ObjectWorld:
    """The number of objects, the files that they arrive in, the distribution of their places, the seed, the hours."""

    objects: int
    files: int = DAYS
    places: str = "cities"
    seed: int = 1
    hours: int = 24 * DAYS


@dataclass(frozen=True)
class SampledObjects:
    """A sample of the objects of a world, from which questions are made: float64[n] degrees, and the words of each."""

    lon: np.ndarray
    lat: np.ndarray
    words: list[list[str]]


@dataclass(frozen=True)
class _Words:
    """The vocabulary in the order of term ids: its words, their ids, and the place of each rank in this order."""

    words: pa.Array
    ids: np.ndarray
    place: np.ndarray


def frequent_words(count: int) -> list[str]:
    """Return the most frequent words of every world; the first two rarely meet."""
    return list(make_vocabulary(VOCABULARY).words[:count].to_pylist())


def rare_words(count: int) -> list[str]:
    """Return the rarest words of the vocabulary."""
    return list(make_vocabulary(VOCABULARY).words[-count:].to_pylist())


def write_world(home: Home, world: ObjectWorld, progress: Progress) -> SampledObjects:
    """Write a world as files of equal numbers of rows, whose times follow each other; return a sample of its objects.

    Memory grows with neither the objects nor the files: each thread has a row group at a time.
    """
    _vocabulary()
    counter = StepCounter(progress, "writing objects", "object", world.objects)
    bounds = [world.objects * ordinal // world.files for ordinal in range(world.files + 1)]
    files, samples = [], []
    with ThreadPoolExecutor(THREADS) as threads:
        tasks = [
            threads.submit(_write_file, home, world, ordinal + 1, bounds[ordinal], bounds[ordinal + 1])
            for ordinal in range(world.files)
        ]
        for task, first, stop in zip(tasks, bounds, bounds[1:]):
            file, sample = task.result()
            files += [file] if file else []
            samples.append(sample)
            counter.add(stop - first)
    commit_files(home, names.OBJECTS, files, application="bench", transaction=1)
    ledger_tables.append(home, names.FILES, [_ledger_row(file, ordinal) for ordinal, file in enumerate(files, start=1)])
    sampled = pa.concat_tables(samples)
    texts = sampled.column("text").to_pylist()
    return SampledObjects(
        sampled.column("lon").to_numpy(), sampled.column("lat").to_numpy(), [text.split() for text in texts]
    )


def _write_file(
    home: Home, world: ObjectWorld, ordinal: int, first: int, stop: int
) -> tuple[DataFile | None, pa.Table]:
    """Write the objects from `first` to `stop` of a world as one file; return it and a sample of its rows."""
    writer = FileWriter(home.table(names.OBJECTS), TABLES[names.OBJECTS].schema)
    rng = np.random.default_rng([world.seed, ordinal])
    step = max(1, world.objects // SAMPLE)
    samples = []
    for rows in _draw_objects(rng, world, ordinal, first, stop):
        writer.write(rows)
        samples.append(rows.select(["lon", "lat", "text"]).take(pa.array(np.arange(0, rows.num_rows, step))))
    schema = pa.schema([("lon", pa.float64()), ("lat", pa.float64()), ("text", pa.string())])
    return writer.close(), pa.Table.from_batches(samples, schema)


def _draw_objects(
    rng: np.random.Generator, world: ObjectWorld, ordinal: int, first: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, a row group at a time."""
    for begin in range(first, stop, ROW_GROUP):
        count = min(ROW_GROUP, stop - begin)
        lon, lat = _draw_places(rng, world.places, count)
        terms, texts = _draw_texts(rng, world, lon, lat)
        rows = np.arange(begin, begin + count)
        times = to_micros(START) + 1 + (rows * (world.hours * HOUR_US / world.objects)).astype(np.int64)
        columns = {
            "object_key": pa.array(log_key(ordinal, 0) + 1 + rows - first),
            "object_id": pa.array(rows).cast(pa.string()),
            "ts": pa.array(times).cast(TIME),
            "lon": pa.array(lon),
            "lat": pa.array(lat),
            "text": texts,
            "text_breaks": pa.nulls(len(terms), BREAKS),
            "terms": terms,
            "attributes": pa.nulls(count, ATTRIBUTES),
            "ingest_id": pa.array(np.full(count, ordinal)),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _draw_places(rng: np.random.Generator, places: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    if places == "cities":
        return scatter(rng, city_places(), count)
    if places == "uniform":
        return rng.uniform(-180.0, 180.0, count), rng.uniform(-90.0, 90.0, count)
    lon, lat = rng.standard_normal((2, count)) / 3.0
    return np.clip(lon * 180.0, -180.0, 180.0), np.clip(lat * 90.0, -90.0, 90.0)


def _draw_texts(
    rng: np.random.Generator, world: ObjectWorld, lon: np.ndarray, lat: np.ndarray
) -> tuple[pa.ListArray, pa.Array]:
    """Return the distinct term ids of each object, ascending, and its words in the same order."""
    vocabulary, law = _vocabulary(), make_vocabulary(VOCABULARY).law
    count = len(lon)
    owner = np.repeat(np.arange(count, dtype=np.int64), 1 + rng.poisson(WORDS - 1.0, count))
    ranks = draw_terms(rng, area_of(lon, lat)[owner], law, world.seed, LOCAL_SHARE[world.places])
    has_first = np.zeros(count, bool)
    has_first[owner[ranks == 0]] = True
    kept = (ranks != 1) | ~has_first[owner] | (owner % 1000 == 0)
    keys = np.sort(owner[kept] * VOCABULARY + vocabulary.place[ranks[kept]])
    keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    offsets = pa.array(np.searchsorted(keys, np.arange(count + 1) * VOCABULARY).astype(np.int32))
    places = keys % VOCABULARY
    words = pa.ListArray.from_arrays(offsets, vocabulary.words.take(pa.array(places)))
    return pa.ListArray.from_arrays(offsets, pa.array(vocabulary.ids[places])), pc.binary_join(words, " ")


@lru_cache(maxsize=1)
def _vocabulary() -> _Words:
    words = make_vocabulary(VOCABULARY).words
    ids = terms_of(words).values.to_numpy()
    order = np.argsort(ids)
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    return _Words(words.take(pa.array(order)), ids[order], place)


def _ledger_row(file: DataFile, ordinal: int) -> dict[str, object]:
    first, last = (from_micros(bounds["ts"]) for bounds in (file.low, file.high))
    return {
        "file_seq": ordinal, "ingest_id": ordinal, "kind": "objects", "path": f"synthetic-{ordinal}",
        "sha256": str(ordinal), "bytes": 0, "options": "{}", "status": "done", "rows": file.rows,
        "accepted": file.rows, "rejected": 0, "watermark": first, "min_ts": first, "max_ts": last, "started_at": first,
    }  # fmt: skip
