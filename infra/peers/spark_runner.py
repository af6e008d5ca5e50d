"""Match the benchmark files with Spark SQL: `python spark_runner.py FOLDER COUNT`.

See benchmarks/scenarios/streams/peers.py for the contract of peers.

The query is what a user would write without an
index: a join of each object's keywords with the subscriptions on the rarest keyword, with the rectangle and the other
keywords as filters. The JVM uses all its compilers here.
"""

import json
import sys
import time

import pyspark
from pyspark.sql import SparkSession

MATCH = """
    SELECT count(*) AS matches, sum(s.key) AS key_sum
    FROM (SELECT lon, lat, terms, explode(terms) AS term FROM objects) o JOIN subscriptions s ON o.term = s.rarest
    WHERE o.lon BETWEEN s.west AND s.east AND o.lat BETWEEN s.south AND s.north
      AND size(array_except(s.terms, o.terms)) = 0
"""


def main(folder: str, count: int) -> dict[str, object]:
    """Load the files into memory and run the query twice; return the figures of the second run."""
    settings = {"spark.driver.memory": "8g", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "4"}  # fmt: skip
    builder = SparkSession.builder.master("local[2]").appName("peer")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    began = time.perf_counter()
    subscriptions = spark.read.parquet(f"{folder}/subscriptions.parquet").cache()
    objects = spark.read.parquet(f"{folder}/objects.parquet").where(f"id < {count}").cache()
    subscriptions.count()
    objects.count()
    subscriptions.createOrReplaceTempView("subscriptions")
    objects.createOrReplaceTempView("objects")
    loaded = time.perf_counter() - began
    for _ in range(2):
        began = time.perf_counter()
        (row,) = spark.sql(MATCH).collect()
        seconds = time.perf_counter() - began
    spark.stop()
    return {
        "version": pyspark.__version__,
        "setting": "join on the rarest keyword, tables in memory, second run",
        "load_seconds": loaded,
        "seconds": seconds,
        "matches": row["matches"],
        "key_sum": int(row["key_sum"] or 0),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
