"""Read Delta tables with delta-spark and delta-kernel in a Spark of its own, and write what each reads as Parquet.

    python -m tests.delta_readers FOLDER JARS < list

list: JSON, for each table its name, address, an earlier version, and whether it has a change data feed. Below FOLDER
there is then a folder for each way of reading: of Spark with the names of the tables and their rows as JSON, of the
kernel with a folder for each table. The last line of the output is JSON with the other results.
"""

import json
import os
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, struct, to_json
from pyspark.sql.types import FloatType

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
    "spark.sql.session.timeZone": "UTC",
}


def main(folder: Path, jars: Path) -> None:
    """Read each table of the list that comes on the standard input."""
    os.environ.pop("SPARK_REMOTE", None)  # the Python package delta needs Spark Classic
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars.glob("*.jar"))))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark, found = builder.getOrCreate(), {}
    ways: dict[str, list[DataFrame]] = {way: [] for way in ("spark", "spark-earlier", "spark-stream")}
    for name, (address, earlier, has_feed) in json.load(sys.stdin).items():
        read = spark.read.format("delta")
        ways["spark"].append(as_json(name, read.load(address)))
        ways["spark-earlier"].append(as_json(name, read.option("versionAsOf", earlier).load(address)))
        ways["spark-stream"].append(as_json(name, spark.readStream.format("delta").load(address)))
        read_with_kernel(spark, address, folder / "kernel" / name, None)
        read_with_kernel(spark, address, folder / "kernel-earlier" / name, earlier)
        if has_feed:
            changes = spark.readStream.format("delta").options(readChangeFeed="true", startingVersion="0").load(address)
            follow(changes.select("_change_type"), folder / "spark-feed")
            counts = spark.read.parquet(str(folder / "spark-feed")).groupBy("_change_type").count().collect()
            detail = DeltaTable.forPath(spark, address).detail().select("clusteringColumns").collect()
            found[name] = {"changes": {row[0]: row[1] for row in counts}, "clustering": detail[0][0]}
    # One query for all tables, as each one takes seconds.
    for way in ("spark", "spark-earlier"):
        reduce(DataFrame.unionAll, ways[way]).write.parquet(str(folder / way))
    follow(reduce(DataFrame.unionAll, ways["spark-stream"]), folder / "spark-stream")
    print(json.dumps(found))


def as_json(name: str, rows: DataFrame) -> DataFrame:
    """Return the name of the table and the JSON of each row."""
    columns = [col(one.name).cast("double" if one.dataType == FloatType() else one.dataType) for one in rows.schema]
    named = [column.alias(one) for column, one in zip(columns, rows.columns, strict=True)]
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
    return rows.select(lit(name).alias("name"), to_json(struct(*named), options).alias("row"))


def follow(rows: DataFrame, folder: Path) -> None:
    """Write what a stream has now."""
    stream = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}-checkpoint")
    stream.trigger(availableNow=True).start(str(folder)).awaitTermination()


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
