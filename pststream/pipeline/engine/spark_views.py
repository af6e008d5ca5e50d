"""Create the views of a home in Spark: in a session, or with its tables in a catalog (`pststream register`)."""

from typing import TYPE_CHECKING, Any

from pststream.errors import UsageError
from pststream.pipeline.engine.spark_session import get_session
from pststream.reports.views.definitions import VIEWS, view_query
from pststream.reports.views.dialects import SPARK
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

    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {qualified('').removesuffix('.``')}")
    for name in TABLES:
        location = home.storage.spark_uri(home.table(name))
        quoted = location.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"CREATE TABLE IF NOT EXISTS {qualified(name)} USING DELTA LOCATION '{quoted}'")
        (detail,) = spark.sql(f"DESCRIBE DETAIL {qualified(name)}").collect()
        if _path(detail["location"]) != _path(location):
            raise UsageError(f"{schema}.{name} is already a table at {detail['location']}", "choose another --schema")
    for view, query in VIEWS.items():
        spark.sql(f"CREATE OR REPLACE VIEW {qualified(view)} AS\n{query(SPARK, qualified)}")
    return {"catalog": catalog, "schema": schema, "tables": list(TABLES), "views": list(VIEWS)}


def _path(location: str) -> str:
    """Return a location without the scheme of local files, which Spark writes in several ways."""
    return location.removeprefix("file:").replace("///", "/", 1)
