"""Read Delta tables with delta-spark and delta-kernel in a Spark of its own, and write what each reads as Parquet.

    python -m tests.delta_readers FOLDER JARS < list

list: JSON, for each table its name, address, an earlier version, and whether it has a change data feed. Below FOLDER
there is then a folder for each way of reading, with one for each table; a line of JSON tells what else was found.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.pop("SPARK_REMOTE", None)  # the Python package delta needs Spark Classic

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Of few rows, compiling the plans would take most of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}

WAYS = ("spark", "spark-earlier", "spark-stream", "kernel", "kernel-earlier")


def main(folder: Path, jars: Path) -> None:
    """Read each table of the list that comes on the standard input."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars.glob("*.jar"))))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark, streams, found = builder.getOrCreate(), [], {}
    for name, (address, earlier, has_feed) in json.load(sys.stdin).items():
        read = spark.read.format("delta")
        write(read.load(address), folder / "spark" / name)
        write(read.option("versionAsOf", earlier).load(address), folder / "spark-earlier" / name)
        streams.append(follow(spark, address, folder / "spark-stream" / name))
        read_with_kernel(spark, address, folder / "kernel" / name, None)
        read_with_kernel(spark, address, folder / "kernel-earlier" / name, earlier)
        if has_feed:
            feed = folder / "spark-feed" / name
            follow(spark, address, feed, readChangeFeed="true", startingVersion="0").awaitTermination()
            counts = spark.read.parquet(str(feed)).groupBy("_change_type").count().collect()
            detail = DeltaTable.forPath(spark, address).detail().select("clusteringColumns").collect()
            found[name] = {"changes": {row[0]: row[1] for row in counts}, "clustering": detail[0][0]}
    for stream in streams:
        stream.awaitTermination()
    print(json.dumps(found))


def write(rows: DataFrame, folder: Path) -> None:
    """Write rows as Parquet."""
    rows.write.parquet(str(folder))


def follow(spark: SparkSession, address: str, folder: Path, **options: str) -> Any:
    """Begin to write what a stream reads of a table as it is now."""
    rows = spark.readStream.format("delta").options(**options).load(address)
    stream = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}-checkpoint")
    return stream.trigger(availableNow=True).start(str(folder))


def read_with_kernel(spark: SparkSession, address: str, folder: Path, version: int | None) -> None:
    """Read a table, log and data files, with the engine of delta-kernel, which writes the rows, too."""
    jvm: Any = spark._jvm
    kernel = jvm.io.delta.kernel
    engine = kernel.defaults.engine.DefaultEngine.create(jvm.org.apache.hadoop.conf.Configuration())
    table = kernel.Table.forPath(engine, address)
    snapshot = table.getLatestSnapshot(engine) if version is None else table.getSnapshotAsOfVersion(engine, version)
    scan = snapshot.getScanBuilder().build()
    state, one = scan.getScanState(engine), kernel.internal.util.Utils.singletonCloseableIterator
    columns = kernel.internal.data.ScanStateRow.getPhysicalDataReadSchema(state)
    parquet, nothing = engine.getParquetHandler(), jvm.java.util.Optional.empty()
    for file in each(kernel.internal.util.Utils.intoRows(scan.getScanFiles(engine))):
        status = kernel.internal.InternalScanFileUtils.getAddFileStatus(file)
        for result in each(parquet.readParquetFiles(one(status), columns, nothing)):
            rows = kernel.Scan.transformPhysicalData(engine, state, file, one(result.getData()))
            for _ in each(parquet.writeParquetFiles(str(folder), rows, jvm.java.util.ArrayList())):
                pass


def each(iterator: Any) -> Any:
    """Yield what an iterator of Java has, and close it."""
    while iterator.hasNext():
        yield iterator.next()
    iterator.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
