"""Sample objects (random ones, or rows of a file) to draw the places and keywords of random subscriptions from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pststream.base.errors import InputFileError
from pststream.queries.text.words import tokenize
from pststream.workloads.draw_subscriptions import SubscriptionSource, rank_terms
from pststream.workloads.places import Places, city_places, scatter
from pststream.workloads.random_texts import Vocabulary, area_of, draw_terms, make_vocabulary

SAMPLE = 200_000
"""Default number of objects of a sample."""

TERMS_PER_TEXT = 9.0
"""Mean number of words of a text."""

LOCAL_SHARE = 0.25
"""Share of the words that are topics of the area of the object (random_texts.py)."""

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".json": "json", ".ndjson": "json"}


@dataclass(frozen=True)
class ObjectSample:
    """The points and terms from which subscriptions are drawn, and the words by frequency (string[vocabulary])."""

    source: SubscriptionSource
    words: pa.Array


def generate_sample(
    seed: int,
    count: int = SAMPLE,
    *,
    places: Places | None = None,
    vocabulary: Vocabulary | None = None,
    local_share: float = LOCAL_SHARE,
) -> ObjectSample:
    """Generate a sample of objects; by default of those that `write_objects` writes for the same seed and places."""
    vocabulary = vocabulary or make_vocabulary()
    rng = np.random.default_rng([seed, 4])
    lon, lat = scatter(rng, places or city_places(), count)
    areas = np.repeat(area_of(lon, lat), 1 + rng.poisson(TERMS_PER_TEXT - 1.0, count))
    terms = draw_terms(rng, areas, vocabulary.law, seed, local_share)
    occurrences, by_rank = rank_terms(terms, vocabulary.law.size)
    return ObjectSample(
        SubscriptionSource(lon, lat, occurrences, len(by_rank)), vocabulary.words.take(pa.array(by_rank))
    )


def sample_texts(lon: np.ndarray, lat: np.ndarray, texts: Sequence[str | None]) -> ObjectSample:
    """Make a sample of given objects.

    lon, lat  float64[n], degrees; rows outside [-180, 180] and [-90, 90] are left out
    texts     n texts; a word counts once for each text that has it

    Raises ValueError if no row has a location, or none has a word.
    """
    lon, lat = np.asarray(lon, np.float64), np.asarray(lat, np.float64)
    rows = np.flatnonzero((np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0))
    words = [word for row in rows.tolist() for word in sorted(set(tokenize(texts[row] or "")))]
    if not len(rows) or not words:
        raise ValueError("no object with a place, or no word in any")
    counted = pc.value_counts(pa.array(words, pa.string()))
    order = pc.sort_indices(counted.flatten()[1], sort_keys=[("", "descending")])
    ranked = counted.flatten()[0].take(order)
    occurrences = pc.index_in(pa.array(words, pa.string()), ranked).to_numpy(zero_copy_only=False)
    source = SubscriptionSource(lon[rows], lat[rows], occurrences.astype(np.int32), len(ranked))
    return ObjectSample(source, ranked)


def sample_of_file(path: str, seed: int, limit: int = SAMPLE) -> ObjectSample:
    """Draw a uniform sample of at most `limit` rows of a CSV, JSON Lines or Parquet file.

    Raises InputFileError if the file cannot be read.
    """
    rng = np.random.default_rng([seed, 5])
    kept, priority = None, np.empty(0)
    try:
        for batch in _batches(path, ["lon", "lat", "text"]):
            table = pa.Table.from_batches([batch])
            kept = table if kept is None else pa.concat_tables([kept, table])
            priority = np.concatenate([priority, rng.random(len(table))])
            if len(priority) > limit:
                rows = np.sort(np.argpartition(priority, limit)[:limit])
                kept, priority = kept.take(rows), priority[rows]
        if kept is None:
            raise ValueError("it has no rows")
        lon, lat = (as_degrees(kept.column(field)) for field in ("lon", "lat"))
        return sample_texts(lon, lat, kept.column("text").cast(pa.string()).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, ValueError, KeyError) as error:
        raise InputFileError(path, f"cannot be sampled: {error}", "it needs columns lon, lat, text") from None


def _batches(path: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    ending = next((e for e in reversed(Path(path).suffixes) if e in _FORMATS), None)
    if ending is None:
        raise ValueError("its name ends in none of " + ", ".join(_FORMATS))
    return ds.dataset(path, format=_FORMATS[ending]).to_batches(columns=columns, batch_size=65_536)


def read_columns(path: str, columns: list[str]) -> pa.Table:
    """Read some columns of a CSV, JSON Lines or Parquet file."""
    return pa.Table.from_batches(_batches(path, columns))


def as_degrees(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of numbers, or of texts, as float64; blank texts are NaN."""
    if pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), None, column)
    return column.cast(pa.float64()).to_numpy()
