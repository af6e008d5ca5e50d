"""Generate random objects and requests chunk by chunk, as Arrow tables with the columns of input files."""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import lists
from pststream.queries.shapes.contract import EARTH_RADIUS_M
from pststream.workloads.draw_subscriptions import DrawnSubscriptions, SubscriptionStyle, draw_subscriptions
from pststream.workloads.object_sample import ObjectSample
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
    return pc.binary_join(lists(offsets_of(lengths), words.take(pa.array(index))), separator)


REQUEST_CHUNK = 100_000
"""Insertions that are generated at a time."""

REQUEST_SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("subscription_id", pa.string()),
        ("keywords", pa.string()),
        ("bbox", pa.list_(pa.float64())),
        ("created_at", pa.string()),
        ("at", pa.string()),
    ]
)


def request_chunks(
    count: int,
    seed: int,
    *,
    objects: ObjectSample,
    style: SubscriptionStyle,
    mean_lifetime: int | None,
    drift_every: int | None,
    start_ms: int,
    ms_per_insertion: float,
    id_prefix: str,
) -> Iterator[pa.Table]:
    """Yield `count` insertions and the deletions that fall between them; see `generate_files.write_requests`."""
    lifetimes = _Lifetimes(seed, mean_lifetime)
    # In an expression, words that are operators are quoted.
    words = (f'"{w}"' if w.casefold() in ("and", "or") else w for w in objects.words.to_pylist())
    quoted = pa.array(words, pa.string())
    for first, end in _ranges(count, drift_every):
        ordinal = np.arange(first, end)
        rng = np.random.default_rng([seed, 7, first])
        interval = first // drift_every if drift_every else 0
        drawn = draw_subscriptions(rng, len(ordinal), objects.source, style, seed, interval)
        inserted = _insertions(ordinal, drawn, quoted, start_ms + ordinal * ms_per_insertion, id_prefix)
        deleted, after = lifetimes.due(first, end)
        if not len(deleted):
            yield inserted
            continue
        deletions = _deletions(deleted, start_ms + (after + 0.5) * ms_per_insertion, id_prefix)
        order = np.argsort(np.concatenate([2 * ordinal, 2 * after + 1]), kind="stable")
        yield pa.concat_tables([inserted, deletions]).take(pa.array(order))


def _ranges(count: int, drift_every: int | None) -> Iterator[tuple[int, int]]:
    """Yield the chunks of the insertions; no chunk spans the end of an interval of the drift."""
    first = 0
    while first < count:
        end = min(first + REQUEST_CHUNK, count)
        if drift_every:
            end = min(end, (first // drift_every + 1) * drift_every)
        yield first, end
        first = end


class _Lifetimes:
    """Draw the lifetimes of subscriptions, N(mean, (0.2 mean)^2) insertions, and return the subscriptions that end.

    Source: PS2Stream section VI-A. Keeps the live subscriptions only, about `mean` of them.
    """

    def __init__(self, seed: int, mean: int | None) -> None:
        self._seed, self._mean = seed, mean
        self._ordinal = np.empty(0, dtype=np.int64)
        self._end = np.empty(0, dtype=np.int64)

    def due(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Add the insertions [first, end); return the subscriptions that end, and after which insertion."""
        if self._mean is None:
            return self._ordinal, self._end
        ordinal = np.arange(first, end)
        lifetimes = np.random.default_rng([self._seed, 8, first]).normal(self._mean, 0.2 * self._mean, len(ordinal))
        self._ordinal = np.concatenate([self._ordinal, ordinal])
        self._end = np.concatenate([self._end, ordinal + np.maximum(np.rint(lifetimes), 1).astype(np.int64)])
        over = self._end < end
        ended = self._ordinal[over], self._end[over]
        self._ordinal, self._end = self._ordinal[~over], self._end[~over]
        return ended


def _insertions(
    ordinal: np.ndarray, drawn: DrawnSubscriptions, words: pa.Array, times: np.ndarray, id_prefix: str
) -> pa.Table:
    """Return a table of insertions."""
    present = drawn.keywords >= 0
    separator = pa.array(np.where(drawn.is_and, " AND ", " OR ").astype(object), pa.string())
    corners = np.round(drawn.boxes, 6).ravel()
    columns = [
        pa.repeat(pa.scalar("insert"), len(ordinal)),
        numbered(id_prefix, ordinal),
        join_words(words, drawn.keywords[present], present.sum(axis=1), separator),
        lists(np.arange(len(ordinal) + 1) * 4, corners),
        iso_times(times),
        pa.nulls(len(ordinal), pa.string()),
    ]
    return pa.table(columns, schema=REQUEST_SCHEMA)


def _deletions(ordinal: np.ndarray, times: np.ndarray, id_prefix: str) -> pa.Table:
    """Return a table of deletions."""
    count = len(ordinal)
    known = {
        "op": pa.repeat(pa.scalar("delete"), count),
        "subscription_id": numbered(id_prefix, ordinal),
        "at": iso_times(times),
    }
    return pa.table(
        [known.get(field.name, pa.nulls(count, field.type)) for field in REQUEST_SCHEMA], schema=REQUEST_SCHEMA
    )


STYLES = {
    "knn": SubscriptionStyle(connective="or", keywords=(1, 5)),
    "topk": SubscriptionStyle(connective="and", keywords=(1, 5)),
    "frequent_terms": SubscriptionStyle(),
}
"""How the words and regions of each kind are drawn."""

MOST_K = 10
TOPK_K = 20
WINDOW_OBJECTS = 1_000_000
GREATEST_DISTANCE_M = math.pi * EARTH_RADIUS_M
"""Half the way around the Earth: Skype divides distances by the greatest one."""

_POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
_SHARED = [("op", pa.string()), ("subscription_id", pa.string()), ("kind", pa.string())]
_TIMES = [("created_at", pa.string()), ("at", pa.string())]
_FIELDS = {
    "knn": [("keywords", pa.string()), ("point", _POINT), ("k", pa.int64())],
    "topk": [
        *[("keywords", pa.string()), ("point", _POINT), ("k", pa.int64()), ("alpha", pa.float64())],
        ("distance_scale_m", pa.float64()),
        ("window", pa.struct([("objects", pa.int64())])),
    ],
    "frequent_terms": [
        *[("bbox", pa.list_(pa.float64())), ("k", pa.int64()), ("window", pa.string()), ("step", pa.string())],
    ],
}
SCHEMAS = {kind: pa.schema([*_SHARED, *fields, *_TIMES]) for kind, fields in _FIELDS.items()}
"""The fields of the requests of each kind."""


def as_kind(requests: pa.Table, kind: str, rng: np.random.Generator) -> pa.Table:
    """Return range requests (REQUEST_SCHEMA) as requests of a kind with memory (SCHEMAS); deletions stay.

    knn             1 to 5 words joined by OR, k from 1 to 10 (DkM-SKS section 5)
    topk            1 to 5 words, k = 20, alpha uniform, a window of 1,000,000 objects (Skype section 8), and the
                    greatest distance as the scale
    frequent_terms  k = 10, a window of 72 hours, a step of 1 hour (SSTD section 6.3)

    A point is the centre of the region, which is drawn around a point of an object.
    """
    inserted = pc.equal(requests.column("op"), "insert")
    count = requests.num_rows
    words = pc.replace_substring(requests.column("keywords"), " AND ", " ")
    k = {"knn": rng.integers(1, MOST_K + 1, count), "topk": np.full(count, TOPK_K)}.get(kind, np.full(count, MOST_K))
    window: pa.Array = pa.repeat(pa.scalar("72h"), count)
    if kind == "topk":
        window = pa.StructArray.from_arrays([pa.array(np.full(count, WINDOW_OBJECTS))], names=["objects"])
    fields = {
        "kind": pa.repeat(pa.scalar(kind), count),
        "keywords": words if kind == "topk" else requests.column("keywords"),
        "point": _centres(requests.column("bbox").combine_chunks()),
        "k": pa.array(k),
        "alpha": pa.array(np.round(rng.random(count), 6)),
        "distance_scale_m": pa.array(np.full(count, GREATEST_DISTANCE_M)),
        "window": window,
        "step": pa.repeat(pa.scalar("1h"), count),
    }
    columns = [
        pc.if_else(inserted, fields[field.name], pa.scalar(None, field.type))
        if field.name in fields
        else requests.column(field.name)
        for field in SCHEMAS[kind]
    ]
    return pa.table(columns, schema=SCHEMAS[kind])


def _centres(boxes: pa.ListArray) -> pa.Array:
    """Return the centres of boxes (west, south, east, north); of a null, any point."""
    sides = np.zeros((len(boxes), 4))
    given = boxes.is_valid().to_numpy(zero_copy_only=False)
    sides[given] = boxes.drop_null().flatten().to_numpy().reshape(-1, 4)
    west, south, east, north = sides.T
    lon = west + np.mod(east - west, 360.0) / 2
    lon = np.where(lon > 180.0, lon - 360.0, lon)
    return pa.StructArray.from_arrays(
        [pa.array(np.round(lon, 6)), pa.array(np.round((south + north) / 2, 6))], fields=list(_POINT)
    )
