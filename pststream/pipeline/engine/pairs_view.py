"""`pairs`: the view of `matches` that users of Spark want, a row for each object and subscription that met."""

from typing import TYPE_CHECKING

from pststream import names
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SQL = """\
SELECT
  found.object_key, found.object_id, found.ts,
  found.subscription_key, asked.subscription_id, asked.payload,
  found.batch_id, found.plan_version, found.worker
FROM (
  SELECT object_key, object_id, ts, batch_id, plan_version, worker, explode(subscription_keys) AS subscription_key
  FROM {matches}
  WHERE NOT retracted AND batch_id IN (SELECT batch_id FROM {batches} WHERE status = 'done')
) AS found
LEFT ANTI JOIN (
  SELECT object_key, explode(subscription_keys) AS subscription_key
  FROM {matches}
  WHERE retracted AND batch_id IN (SELECT batch_id FROM {batches} WHERE status = 'done')
) AS taken_back
  ON taken_back.object_key = found.object_key AND taken_back.subscription_key = found.subscription_key
JOIN (SELECT subscription_key, subscription_id, payload FROM {requests} WHERE op = 'insert') AS asked
  ON asked.subscription_key = found.subscription_key"""


def pairs_sql(home: Home) -> str:
    """The view as a query of Spark SQL: rows opened up, pairs taken back left out, only batches that are done."""
    tables = {name: _quoted(home, name) for name in (names.MATCHES, names.BATCHES, names.REQUESTS)}
    return _SQL.format(**tables)


def pairs(spark: "SparkSession", home: Home) -> "DataFrame":
    """The view as a data frame; see `pairs_sql`."""
    return spark.sql(pairs_sql(home))


def _quoted(home: Home, name: str) -> str:
    address = home.table(name)
    return "delta.`" + home.storage.spark_uri(address).replace("`", "``") + "`"
