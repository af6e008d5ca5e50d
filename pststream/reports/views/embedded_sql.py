"""Run a query on the views and tables of a home in this process: DuckDB over Arrow datasets, without a JVM."""

import re
from collections.abc import Iterable

import pyarrow as pa

from pststream.delta_tables import AnyHome, TableReader
from pststream.errors import UsageError
from pststream.optional_packages import needs_extra
from pststream.reports.views.definitions import VIEWED_TABLES, VIEWS
from pststream.reports.views.dialects import DUCKDB


def run_query(home: AnyHome, query: str, tables: Iterable[str]) -> pa.Table:
    """Return the rows of a query of DuckDB's SQL on the views and on `tables`; it changes nothing in the home.

    Each table is read at one version. Raises UsageError for a query that DuckDB does not accept, MissingExtra if DuckDB
    is not installed.
    """
    with needs_extra("sql"):
        import duckdb

    mentioned = set(re.findall(r"\w+", query.lower()))
    viewed = [name for name in VIEWED_TABLES if name in mentioned or not mentioned.isdisjoint(VIEWS)]
    reader = TableReader(home)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # names of Python variables are not tables
        for name in [*viewed, *(name for name in tables if name in mentioned and name not in viewed)]:
            connection.register(name, reader.dataset(name))
        for view in mentioned.intersection(VIEWS):
            connection.execute(f"CREATE VIEW {view} AS {VIEWS[view](DUCKDB, lambda name: name)}")
        try:
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise UsageError(f"the query failed: {error}", "docs/tables.md lists views and columns") from None
