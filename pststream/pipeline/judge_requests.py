"""Requests judged by the log: a second insertion of a live id, a deletion of what is not live."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.kernels.fold import judge_operations
from pststream.pipeline.groups import group_starts, whole_partition
from pststream.quality.reasons import REASONS
from pststream.settings import Settings
from pststream.state import delta
from pststream.state.home import Home
from pststream.state.ledger import key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTCOMES = (None, "already_live", "unknown_subscription", "before_insertion")
"""Reason of each outcome of `kernels.fold.judge_operations`."""

FIELD_OF = {"already_live": "subscription_id", "unknown_subscription": "subscription_id", "before_insertion": "at"}


def judge_requests(
    spark: "SparkSession", home: Home, settings: Settings, files: list[dict[str, Any]], parsed: "DataFrame"
) -> "DataFrame":
    """Parsed rows with `request_key`, `subscription_key`, `ingest_id`, `watermark` (null) and the reason completed."""
    from pyspark.sql import functions as f

    rows = parsed.withColumns(
        {
            "request_key": f.shiftleft("file_seq", names.ROW_BITS) + f.col("row"),
            "ingest_id": f.lit(files[0]["ingest_id"]).cast("long"),
            "watermark": f.lit(None).cast("long"),
        }
    )
    rows = rows.join(_outcomes(spark, home, files, rows), "request_key", "left")
    own = f.when(f.col("reason").isNull(), f.col("request_key"))
    fields = f.create_map(*(f.lit(v) for item in FIELD_OF.items() for v in item))
    details = f.create_map(*(f.lit(v) for reason in FIELD_OF for v in (reason, REASONS[reason])))
    hit = f.col("outcome").isNotNull()
    raw = f.when(f.col("outcome") == "before_insertion", f.col("at").cast("string")).otherwise(f.col("subscription_id"))
    return rows.withColumns(
        {
            "subscription_key": f.coalesce("concerned", own),
            "field": f.when(hit, fields[f.col("outcome")]).otherwise(f.col("field")),
            "detail": f.when(hit, details[f.col("outcome")]).otherwise(f.col("detail")),
            "raw": f.when(hit, f.substring(raw, 1, 1000)).otherwise(f.col("raw")),
            "reason": f.coalesce("outcome", "reason"),
        }
    ).drop("outcome", "concerned")


def _outcomes(spark: "SparkSession", home: Home, files: list[dict[str, Any]], rows: "DataFrame") -> "DataFrame":
    """(request_key, outcome, concerned) of new requests whose id occurs more than once, or that delete."""
    from pyspark.sql import functions as f

    columns = ("subscription_id", "request_key", "op", "at", "expires_at")
    new = rows.where("reason IS NULL").select(*columns)
    stored = delta.read(spark, home, names.REQUESTS).where(f.col("request_key") < key(files[0]["file_seq"], 0))
    known = new.unionByName(stored.select(*columns).join(new.select("subscription_id"), "subscription_id", "left_semi"))
    told = known.groupBy("subscription_id").agg(f.count("*").alias("n"), f.max(f.col("op") == "delete").alias("d"))
    groups = known.join(told.where("n > 1 OR d").select("subscription_id"), "subscription_id", "left_semi")
    slim = groups.select(
        "subscription_id",
        "request_key",
        (f.col("op") == "delete").alias("deletes"),
        f.unix_micros("at").alias("at"),
        f.coalesce(f.unix_micros("expires_at"), f.lit(names.NEVER_US)).alias("expires"),
    )
    ordered = slim.repartition("subscription_id").sortWithinPartitions("subscription_id", "request_key")
    judged = ordered.mapInArrow(_fold, "request_key long, outcome string, concerned long")
    return judged.where(f.col("request_key") >= key(files[0]["file_seq"], 0))


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = whole_partition(batches)
    if rows is None:
        return
    values = [rows.column(name).to_numpy(zero_copy_only=False) for name in ("request_key", "deletes", "at", "expires")]
    outcome, concerned = judge_operations(group_starts(rows.column("subscription_id")), *values)
    reasons = pa.array(OUTCOMES, pa.string()).take(pa.array(outcome))
    insertions = pa.array(concerned, mask=np.asarray(concerned < 0))
    yield pa.RecordBatch.from_arrays(
        [pa.array(values[0]), reasons, insertions], ["request_key", "outcome", "concerned"]
    )
