"""Upkeep of the worker index: small files merged, ended subscriptions dropped."""

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING

from pststream import names
from pststream.settings import Settings
from pststream.state import control
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import Ledger
from pststream.state.session import get_session

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

SMALL_BYTES = 8 * 1024 * 1024


def merge_small_files(home: Home, settings: Settings, plan_version: int) -> bool:
    """Compact each worker's small files if one has more than `settings.merge_files` of them; whether it did."""
    small = Counter(f.worker for f in index_files(home, plan_version) if f.bytes < SMALL_BYTES)
    if not small or max(small.values()) <= settings.merge_files:
        return False
    compact(get_session(settings), home, plan_version)
    return True


def compact(spark: "SparkSession", home: Home, plan_version: int) -> None:
    """OPTIMIZE a plan's index; files above SMALL_BYTES stay as they are."""
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(SMALL_BYTES))
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(32 * SMALL_BYTES))
    _table(spark, home).optimize().where(f"plan_version = {plan_version}").executeCompaction()


def drop_ended(home: Home, settings: Settings, plan_version: int) -> int:
    """Delete index rows that ended before any object still to come, and deletions that are as old; rows deleted.

    Subscriptions that a deletion ended go first, their deletion after them.
    """
    from pyspark.sql import functions as f

    horizon = Ledger(home).horizon(dt.timedelta(seconds=settings.lateness_seconds))
    if horizon is None:
        return 0
    spark = get_session(settings)
    bound = control.micros_of(horizon)
    table = _table(spark, home)
    mine = f.col("plan_version") == plan_version
    before = table.toDF().where(mine).count()
    deletions = table.toDF().where(mine & (f.col("worker") == names.EVERY_WORKER) & (f.col("end_at") <= bound))
    ended = deletions.select(f.col("subscription_key").alias("ended_key")).distinct()
    table.alias("rows").merge(
        f.broadcast(ended).alias("ended"),
        f"rows.subscription_key = ended.ended_key AND rows.plan_version = {plan_version}",
    ).whenMatchedDelete(f"rows.worker <> {names.EVERY_WORKER}").execute()
    table.delete(mine & (f.col("end_at") <= bound))
    return int(before - table.toDF().where(mine).count())


def _table(spark: "SparkSession", home: Home) -> "DeltaTable":
    from delta.tables import DeltaTable

    return DeltaTable.forPath(spark, home.table(names.WORKER_INDEX))
