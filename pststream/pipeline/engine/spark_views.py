"""Create the views of a home in a Spark session (pairs, subscriptions ...)."""

from typing import TYPE_CHECKING

from pststream.reports.views.definitions import VIEWS, view_query
from pststream.reports.views.dialects import SPARK
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_temporary_views(spark: "SparkSession", home: Home) -> None:
    """Create or replace the views under their names; they end with the session."""
    for view in VIEWS:
        spark.sql(view_query(home, view, SPARK)).createOrReplaceTempView(view)
