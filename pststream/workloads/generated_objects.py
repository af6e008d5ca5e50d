"""Generate random objects chunk by chunk, as Arrow tables with the columns of an input file of objects."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.workloads.places import Places, scatter
from pststream.workloads.random_texts import Vocabulary, area_of, draw_terms

CHUNK = 50_000
"""Rows that are generated at a time."""

SCHEMA = pa.schema(
    [
        ("object_id", pa.string()),
        ("ts", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("text", pa.string()),
    ]
)


def object_chunks(
    count: int,
    seed: int,
    *,
    places: Places,
    vocabulary: Vocabulary,
    terms_per_text: float,
    local_share: float,
    start_ms: int,
    ms_per_object: float,
    id_prefix: str,
) -> Iterator[pa.Table]:
    """Yield objects `id_prefix`0, `id_prefix`1 ... in the order of their times; see `generate_files.write_objects`."""
    for first in range(0, count, CHUNK):
        ordinal = np.arange(first, min(first + CHUNK, count))
        rng = np.random.default_rng([seed, 6, first])
        lon, lat = scatter(rng, places, len(ordinal))
        words = 1 + rng.poisson(max(terms_per_text - 1.0, 0.0), len(ordinal))
        terms = draw_terms(rng, np.repeat(area_of(lon, lat), words), vocabulary.law, seed, local_share)
        times = start_ms + (ordinal + rng.random(len(ordinal))) * ms_per_object
        columns = [
            numbered(id_prefix, ordinal),
            iso_times(times),
            pa.array(np.round(lon, 6)),
            pa.array(np.round(lat, 6)),
            join_words(vocabulary.words, terms, words, " "),
        ]
        yield pa.table(columns, schema=SCHEMA)


def numbered(prefix: str, ordinal: np.ndarray) -> pa.Array:
    """Return `prefix` followed by each ordinal."""
    return pc.binary_join_element_wise(prefix, pa.array(ordinal).cast(pa.string()), "")


def iso_times(milliseconds: np.ndarray) -> pa.Array:
    """Format times, in milliseconds since 1970 in UTC, as ISO 8601."""
    text = np.datetime_as_string(np.asarray(milliseconds).astype("int64").astype("datetime64[ms]"))
    return pc.binary_join_element_wise(pa.array(text.astype(object), pa.string()), "Z", "")


def join_words(words: pa.Array, index: np.ndarray, lengths: np.ndarray, separator: str | pa.Array) -> pa.Array:
    """Join words to texts: text i has the next `lengths[i]` of `words[index]`; `separator` may differ by text."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), words.take(pa.array(index)))
    return pc.binary_join(lists, separator)
