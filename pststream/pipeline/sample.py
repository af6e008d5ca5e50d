"""The stored sample that a planner sees: bounded, and the same whatever the files it lies in."""

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.domain.pieces import pieces_of, rarest_clause_first
from pststream.domain.workload import WorkloadSample
from pststream.pipeline.arrow import csr
from pststream.settings import Settings
from pststream.state import delta
from pststream.state.home import Home
from pststream.state.plans import Ranking
from pststream.state.subscriptions import subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 7
SPREAD = 1 << 20


def draw_sample(
    spark: "SparkSession", home: Home, settings: Settings, versions: tuple[int | None, int | None] = (None, None)
) -> tuple[WorkloadSample, pa.Table]:
    """A sample of both streams, and its vocabulary (term_id, term, objects, subscriptions).

    `versions`: objects written after Delta version `versions[0]` of `objects`, and up to `versions[1]`; None: no bound.
    """
    from pyspark.sql import functions as f

    objects = _between(spark, home, versions).select("object_key", "lon", "lat", "terms")
    live = subscriptions(spark, home).where(f.col("end_at") > f.unix_micros(f.lit(dt.datetime.now(dt.UTC))))
    live = live.select("subscription_key", "west", "south", "east", "north", "clauses")
    object_rows, object_scale = _draw(objects, "object_key", settings.sample_objects)
    subscription_rows, subscription_scale = _draw(live, "subscription_key", settings.sample_subscriptions)
    offsets, terms = csr(_whole(object_rows, "terms"))
    ids, counts = np.unique(terms, return_counts=True)
    clauses, post_offsets, post_terms = rarest_clause_first(
        _whole(subscription_rows, "clauses"), Ranking(ids, counts).frequency
    )
    owner, boxes = pieces_of(*(csr(_whole(subscription_rows, side)) for side in ("west", "south", "east", "north")))
    lengths = np.diff(post_offsets)[owner]
    piece_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    within = np.arange(piece_offsets[-1]) - np.repeat(piece_offsets[:-1], lengths)
    sample = WorkloadSample(
        lon=_whole(object_rows, "lon").to_numpy(),
        lat=_whole(object_rows, "lat").to_numpy(),
        term_offsets=offsets,
        terms=terms,
        boxes=boxes,
        piece_key=_whole(subscription_rows, "subscription_key").to_numpy()[owner],
        post_offsets=piece_offsets,
        post_terms=post_terms[np.repeat(post_offsets[owner], lengths) + within],
        object_scale=object_scale,
        subscription_scale=subscription_scale,
    )
    return sample, _vocabulary(ids, counts, clauses, subscription_rows.num_rows)


def _between(spark: "SparkSession", home: Home, versions: tuple[int | None, int | None]) -> "DataFrame":
    """Objects written after one Delta version and up to another."""
    from pyspark.sql import functions as f

    after, to = versions
    objects = delta.read(spark, home, names.OBJECTS, to)
    if after is None:
        return objects
    last = delta.read(spark, home, names.OBJECTS, after).agg(f.max("object_key")).collect()[0][0]
    return objects.where(f.col("object_key") > (last or 0))


def _draw(rows: "DataFrame", key: str, most: int) -> tuple[pa.Table, float]:
    """About `most` rows at most, chosen by a hash of their key, in its order; and the rows that each stands for."""
    from pyspark.sql import functions as f

    count = rows.count()
    if count > most:
        rows = rows.where(f.pmod(f.xxhash64(key, f.lit(SEED)), f.lit(SPREAD)) < int(SPREAD * most / count))
    drawn = rows.orderBy(key).toArrow()
    return drawn, count / drawn.num_rows if drawn.num_rows else 1.0


def _whole(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _vocabulary(ids: np.ndarray, counts: np.ndarray, clauses: pa.ListArray, subscription_count: int) -> pa.Table:
    """Frequencies in the sample; a term in several clauses of a subscription counts once for each."""
    named, uses = np.unique(
        pc.list_flatten(pc.list_flatten(clauses)).to_numpy(zero_copy_only=False).astype(np.int64), return_counts=True
    )
    every = np.union1d(ids, named)
    objects = np.zeros(len(every), np.int64)
    objects[np.searchsorted(every, ids)] = counts
    subscribed = np.zeros(len(every), np.int64)
    subscribed[np.searchsorted(every, named)] = np.minimum(uses, max(subscription_count, 1))
    return pa.table(
        {"term_id": every, "term": pa.nulls(len(every), pa.string()), "objects": objects, "subscriptions": subscribed}
    )
