"""Delta tables through Spark: read, append exactly once."""

from typing import TYPE_CHECKING

from pststream.state import control
from pststream.state.home import Home
from pststream.state.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: "SparkSession", home: Home, name: str, version: int | None = None) -> "DataFrame":
    """A table as it is, or as it was at a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(home.table(name))


def append_once(rows: "DataFrame", home: Home, name: str, application: str, transaction: int) -> bool:
    """Append in one commit, unless this transaction was committed before; True if it was written now."""
    if control.last_transaction(home, name, application) >= transaction:
        return False
    table = TABLES[name]
    (
        rows.select(*table.schema.names)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", application)
        .option("txnVersion", transaction)
        .save(home.table(name))
    )
    return True
