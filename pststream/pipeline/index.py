"""Requests into rows of the worker index: each subscription to the workers whose units it touches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.domain.pieces import pieces_of, rarest_clause_first
from pststream.domain.plan import PartitionPlan
from pststream.pipeline.arrow import csr
from pststream.pipeline.executor import Work, dispatch_index, ranking
from pststream.routing.dispatch import DispatchIndex
from pststream.state import delta
from pststream.state.home import Home
from pststream.state.plans import Ranking
from pststream.state.session import get_session
from pststream.state.subscriptions import insertions
from pststream.state.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = TABLES[names.WORKER_INDEX].schema
BULK_ROWS = 50_000
"""Fewer rows than this are written by few tasks: starting one costs more than its work."""


@dataclass(frozen=True)
class Assignment:
    """A plan that no row of `plans` names yet, and the ranking that goes with it."""

    plan: PartitionPlan
    ranking: Ranking


def index_rows(inserted: "DataFrame", work: Work, new: Assignment | None = None) -> "DataFrame":
    """Rows of `worker_index` for insertions (see `state.subscriptions.insertions`), parted by worker.

    They are assigned by the stored plan that `work` names, or by a new one.
    """
    from pyspark.sql import functions as f

    columns = ("subscription_key", "west", "south", "east", "north", "circle", "clauses", "created_at", "end_at")
    rows = inserted.select(*columns).mapInArrow(_assign(work, new), spark_schema(SCHEMA))
    return rows.repartitionById(work.workers, f.col("worker").cast("int"))


def apply_requests(home: Home, work: Work, after: int, to: int, settings: "object") -> None:
    """Append the index rows of the requests with keys in (after, to], in one commit of the batch."""
    from pyspark.sql import functions as f

    spark = get_session(settings)  # type: ignore[arg-type]
    requests = delta.read(spark, home, names.REQUESTS).where(
        (f.col("request_key") > after) & (f.col("request_key") <= to)
    )
    deletions = requests.where("op = 'delete'").select(
        f.lit(work.plan_version).cast("long").alias("plan_version"),
        f.lit(names.EVERY_WORKER).cast("long").alias("worker"),
        "subscription_key",
        f.unix_micros("at").alias("end_at"),
        f.lit(work.batch_id).cast("long").alias("batch_id"),
    )
    rows = index_rows(insertions(requests), work).unionByName(deletions.coalesce(1), allowMissingColumns=True)
    delta.append_once(rows, home, names.WORKER_INDEX, f"index-{work.plan_version}", work.batch_id)


def spark_schema(schema: pa.Schema) -> str:
    """An Arrow schema as Spark's DDL."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in from_arrow_schema(schema))


def _assign(work: Work, new: Assignment | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dispatch = DispatchIndex(new.plan) if new else dispatch_index(work.home, work.plan_version)
        frequency = (new.ranking if new else ranking(work.home, work.plan_version)).frequency
        for batch in batches:
            if batch.num_rows:
                yield assign(batch, dispatch.workers_of_pieces, frequency, work)

    return task


def assign(
    batch: pa.RecordBatch,
    workers_of_pieces: Callable[..., tuple[np.ndarray, np.ndarray]],
    frequency: Callable[[np.ndarray], np.ndarray],
    work: Work,
) -> pa.RecordBatch:
    """Index rows of a batch of insertions: one for each box and worker, the rarest clause first."""
    clauses, post_offsets, post_terms = rarest_clause_first(batch.column("clauses"), frequency)
    owner, boxes = pieces_of(*(csr(batch.column(side)) for side in ("west", "south", "east", "north")))
    lengths = np.diff(post_offsets)[owner]
    piece_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    within = np.arange(piece_offsets[-1]) - np.repeat(piece_offsets[:-1], lengths)
    piece_terms = post_terms[np.repeat(post_offsets[owner], lengths) + within]
    offsets, workers = workers_of_pieces(boxes, piece_offsets, piece_terms)
    piece = np.repeat(np.arange(len(owner)), np.diff(offsets))
    row = pa.array(owner[piece])
    count = len(piece)
    values = {
        "plan_version": pa.array(np.full(count, work.plan_version)),
        "worker": pa.array(workers.astype(np.int64)),
        "subscription_key": batch.column("subscription_key").take(row),
        **{side: pa.array(boxes[piece, place]) for place, side in enumerate(("west", "south", "east", "north"))},
        "circle": batch.column("circle").take(row),
        "clauses": clauses.take(row),
        "created_at": batch.column("created_at").take(row),
        "end_at": batch.column("end_at").take(row),
        "batch_id": pa.array(np.full(count, work.batch_id)),
    }
    return pa.RecordBatch.from_arrays(
        [values[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names], schema=SCHEMA
    )
