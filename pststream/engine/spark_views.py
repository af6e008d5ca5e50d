"""Create the views of a home in Spark: in a session, or with its tables in a catalog (`pststream register`)."""

from typing import TYPE_CHECKING, Any

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.engine.spark_session import get_session
from pststream.reports.reading.pairs import gold_table, has_gold_table
from pststream.reports.views import SPARK, VIEWS, view_query
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOG = "spark_catalog"


def create_temporary_views(spark: "SparkSession", home: Home) -> None:
    """Create or replace the views under their names; they end with the session."""
    for view in VIEWS:
        spark.sql(view_query(home, view, SPARK)).createOrReplaceTempView(view)


def register(home: Home, settings: Settings, catalog: str, schema: str) -> dict[str, Any]:
    """Register the tables of a home by their location, and the views, in a catalog of Spark. May run again.

    `pairs` is the gold table if there is one, else the view.

    Returns {"catalog", "schema", "tables", "views"}. Raises UsageError if the catalog is in memory, or has a table of
    the same name at another location.
    """
    spark = get_session(settings)
    if catalog == SESSION_CATALOG and spark.conf.get("spark.sql.catalogImplementation") == "in-memory":
        raise UsageError(
            f"{catalog} is in memory: it would end with this command",
            "configure the metastore in spark-defaults.conf of SPARK_CONF_DIR (docs/tables.md)",
        )

    def qualified(name: str) -> str:
        return ".".join(SPARK.quoted(part.replace("`", "``")) for part in (catalog, schema, name))

    space = qualified("").removesuffix(".``")
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {space}")
    tables = {name: home.table(name) for name in TABLES}
    views = dict(VIEWS)
    if has_gold_table(home):
        tables[names.PAIRS] = gold_table(home)
        del views[names.PAIRS]
    _drop_other_pairs(spark, qualified(names.PAIRS), names.PAIRS in tables)
    shown = spark.sql(f"SHOW TABLES IN {space}").collect()
    existing = {row["tableName"] for row in shown if not row["isTemporary"]}
    for name, address in tables.items():
        location = home.storage.spark_uri(address)
        if name not in existing:
            quoted = location.replace("\\", "\\\\").replace("'", "\\'")
            spark.sql(f"CREATE TABLE {qualified(name)} USING DELTA LOCATION '{quoted}'")
            continue
        known = _location(spark, qualified(name))
        if known is None or _path(known) != _path(location):
            taken = "a view" if known is None else f"a table at {known}"
            raise UsageError(f"{schema}.{name} is already {taken}", "choose another --schema")
    for view, query in views.items():
        spark.sql(f"CREATE OR REPLACE VIEW {qualified(view)} AS\n{query(SPARK, qualified)}")
    return {"catalog": catalog, "schema": schema, "tables": list(tables), "views": list(views)}


def _drop_other_pairs(spark: "SparkSession", name: str, as_table: bool) -> None:
    """Drop the view `pairs` where a table will be, or the entry of the table where a view will be."""
    if spark.catalog.tableExists(name) and (_location(spark, name) is None) == as_table:
        spark.sql(f"DROP {'VIEW' if as_table else 'TABLE'} {name}")


def _location(spark: "SparkSession", table: str) -> str | None:
    """Return the location of a table in the catalog; None for a view.

    DESCRIBE DETAIL returns it too, but counts the files of the table in Spark jobs, which take twenty times as long.
    """
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    details = [row["col_name"] for row in rows].index("# Detailed Table Information")  # the columns come before
    return next((row["data_type"] for row in rows[details:] if row["col_name"] == "Location"), None)


def _path(location: str) -> str:
    """Return a location without the scheme of local files, which Spark writes in several ways."""
    return location.removeprefix("file:").replace("///", "/", 1)
