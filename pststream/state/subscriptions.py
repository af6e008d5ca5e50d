"""`subscriptions`: a view of the request log, each insertion with the end that holds for it."""

from typing import TYPE_CHECKING

from pststream import names
from pststream.state import delta
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def subscriptions(spark: "SparkSession", home: Home, up_to: int | None = None) -> "DataFrame":
    """Insertions of the log up to a request key, with `created_at` and `end_at` in microseconds (2^63-1: never)."""
    from pyspark.sql import functions as f

    requests = delta.read(spark, home, names.REQUESTS)
    if up_to is not None:
        requests = requests.where(f.col("request_key") <= up_to)
    deletions = requests.where("op = 'delete'").groupBy("subscription_key")
    deleted = deletions.agg(f.min(f.unix_micros("at")).alias("deleted_at"))
    return (
        insertions(requests)
        .join(deleted, "subscription_key", "left")
        .withColumn("end_at", f.least("end_at", f.coalesce("deleted_at", f.lit(names.NEVER_US))))
        .drop("deleted_at")
    )


def insertions(requests: "DataFrame") -> "DataFrame":
    """The insertions among requests, with the validity that they ask for, in microseconds."""
    from pyspark.sql import functions as f

    return requests.where("op = 'insert'").select(
        "subscription_key", "subscription_id", "keywords", "clauses", "west", "south", "east", "north", "circle",
        f.unix_micros("at").alias("created_at"),
        f.coalesce(f.unix_micros("expires_at"), f.lit(names.NEVER_US)).alias("end_at"),
    )  # fmt: skip
