"""Late deletions: a deletion that is read after objects beyond its time were matched takes those pairs back.

So the set of pairs stays a pure function of the two logs, whatever the order in which they are read.
"""

from typing import TYPE_CHECKING, Any

from pststream import names
from pststream.state import delta
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def retractions(spark: "SparkSession", home: Home, batch: dict[str, Any], stats: Any) -> "DataFrame":
    """Rows of `matches` that take back pairs of earlier batches which the batch's deletions end before their ts."""
    from pyspark.sql import functions as f

    requests = delta.read(spark, home, names.REQUESTS)
    key = f.col("request_key")
    deletions = requests.where(
        (key > batch["requests_after"]) & (key <= batch["requests_to"]) & (f.col("op") == "delete")
    )
    ends = deletions.groupBy(f.col("subscription_key").alias("deleted_key")).agg(f.min("at").alias("deleted_at"))
    first = ends.agg(f.min(f.unix_micros("deleted_at"))).collect()[0][0]
    matches = delta.read(spark, home, names.MATCHES).where(f.col("batch_id") < batch["batch_id"])
    matches = matches.where(f.col("ts") >= f.timestamp_micros(f.lit(first if first is not None else names.NEVER_US)))
    pair = ("object_key", "object_id", "ts", "retracted", f.explode("subscription_keys").alias("deleted_key"))
    pairs = matches.select(*pair).join(f.broadcast(ends), "deleted_key").where("ts >= deleted_at")
    taken_back = pairs.where("retracted").select("object_key", "deleted_key")
    hit = pairs.where("NOT retracted").join(taken_back, ["object_key", "deleted_key"], "left_anti")
    rows = hit.groupBy("object_key", "object_id", "ts").agg(
        f.sort_array(f.collect_list("deleted_key")).alias("subscription_keys")
    )
    counted = rows.mapInArrow(_count(stats), rows.schema)
    return counted.select(
        "object_key",
        "object_id",
        "ts",
        "subscription_keys",
        f.lit(True).alias("retracted"),
        f.lit(-1).cast("long").alias("worker"),
        f.lit(batch["batch_id"]).cast("long").alias("batch_id"),
        f.lit(batch["plan_version"]).cast("long").alias("plan_version"),
    )


def _count(stats: Any) -> Any:
    """Report the pairs taken back."""

    def task(batches: Any) -> Any:
        total = 0
        for rows in batches:
            total += len(rows.column("subscription_keys").flatten())
            yield rows
        if total:
            stats.add(
                [
                    {
                        "worker": names.EVERY_WORKER, "after_key": 0, "objects": 0, "routed": 0, "candidates": 0,
                        "matches": 0, "retractions": total, "subscriptions": 0, "cpu_seconds": 0.0, "units": [],
                    }
                ]
            )  # fmt: skip

    return task
