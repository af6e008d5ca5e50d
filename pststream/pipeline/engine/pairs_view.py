"""Query the matched (object, subscription) pairs in Spark, one row each, without retracted pairs."""

from typing import TYPE_CHECKING

from pststream import names
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SQL = """\
SELECT
  matched.object_key, matched.object_id, matched.ts,
  matched.subscription_key, requested.subscription_id, requested.payload,
  matched.batch_id, matched.plan_version, matched.worker
FROM (
  SELECT object_key, object_id, ts, batch_id, plan_version, worker, explode(subscription_keys) AS subscription_key
  FROM {matches}
  WHERE NOT retracted AND batch_id IN (SELECT batch_id FROM {batches} WHERE status = 'done')
) AS matched
LEFT ANTI JOIN (
  SELECT object_key, explode(subscription_keys) AS subscription_key
  FROM {matches}
  WHERE retracted AND batch_id IN (SELECT batch_id FROM {batches} WHERE status = 'done')
) AS retractions
  ON retractions.object_key = matched.object_key AND retractions.subscription_key = matched.subscription_key
JOIN (SELECT subscription_key, subscription_id, payload FROM {requests} WHERE op = 'insert') AS requested
  ON requested.subscription_key = matched.subscription_key"""


def pairs_sql(home: Home) -> str:
    """Return the view as a Spark SQL query: lists exploded, retracted pairs left out, only batches that are done."""
    tables = {name: _quoted(home, name) for name in (names.MATCHES, names.BATCHES, names.REQUESTS)}
    return _SQL.format(**tables)


def pairs(spark: "SparkSession", home: Home) -> "DataFrame":
    """Return the view as a data frame; see `pairs_sql`."""
    return spark.sql(pairs_sql(home))


def _quoted(home: Home, name: str) -> str:
    address = home.table(name)
    return "delta.`" + home.storage.spark_uri(address).replace("`", "``") + "`"
