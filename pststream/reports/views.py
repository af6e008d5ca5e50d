"""Define the views of a home in the SQL of Spark, DuckDB and Trino, and run queries on them in this process.

A view counts the rows of finished batches and finished ingests only. docs/tables.md describes the columns.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import needs_extra
from pststream.storage.registry import storage_of
from pststream.tables.delta_tables import AnyHome, TableReader

CATALOG, SCHEMA = "delta", "pststream"
"""Catalog and schema of the tables in the statements for Trino, which has no name for a table at an address."""


@dataclass(frozen=True)
class Dialect:
    """The SQL of one program.

    table      returns the name under which a query reads a table of a home
    prepare    returns the statements that a program needs before it knows the tables
    prefix     what precedes the name of a view that is created
    quote      the character around names that are reserved words
    The others take SQL expressions and return one; positions in a list start at 1:
    unnest     what follows a table in FROM, so that each entry of a list is a row with a column of this name
    at, count  the entry of a list at a position; the number of entries
    transform  a list of the expression for each entry, which it calls by this name
    join, sum  the texts of a list as one text, with a separator; the sum of a list of doubles
    positions  the list 1, 2 ... of this length
    """

    name: str
    table: Callable[[AnyHome, str], str]
    prepare: Callable[[AnyHome, Iterable[str]], list[str]]
    prefix: str
    quote: str
    text_type: str
    unnest: Callable[[str, str], str]
    at: Callable[[str, str], str]
    count: Callable[[str], str]
    transform: Callable[[str, str, str], str]
    join: Callable[[str, str], str]
    sum: Callable[[str], str]
    positions: Callable[[str], str]

    def quoted(self, name: str) -> str:
        """Return a name as this SQL quotes it."""
        return f"{self.quote}{name}{self.quote}"

    def text(self, value: str) -> str:
        """Return a number as text."""
        return f"CAST({value} AS {self.text_type})"


def spark_path(address: str) -> str:
    """Return the name of the Delta table at an address in the SQL of Spark."""
    return "delta.`" + storage_of(address).spark_uri(address).replace("`", "``") + "`"


def _register_in_trino(home: AnyHome, tables: Iterable[str]) -> list[str]:
    """Register the tables, where the catalog has `delta.register-table-procedure.enabled`."""
    registered = [
        f"CALL {CATALOG}.system.register_table(schema_name => '{SCHEMA}', table_name => '{name}',"
        f" table_location => {sql_literal(address if storage_of(address).is_remote else f'file://{address}')})"
        for name, address in ((name, home.table(name)) for name in tables)
    ]
    return [f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.{SCHEMA}", *registered]


def sql_literal(text: str) -> str:
    """Return a text as standard SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


SPARK = Dialect(
    "spark",
    table=lambda home, name: spark_path(home.table(name)),
    prepare=lambda home, tables: [],
    prefix="",
    quote="`",
    text_type="STRING",
    unnest=lambda values, name: f"LATERAL VIEW explode({values}) unnested AS {name}",
    at=lambda values, position: f"element_at({values}, {position})",
    count=lambda values: f"size({values})",
    transform=lambda values, name, expression: f"transform({values}, {name} -> {expression})",
    join=lambda values, separator: f"array_join({values}, '{separator}')",
    sum=lambda values: f"aggregate({values}, 0D, (total, value) -> total + value)",
    positions=lambda length: f"sequence(1, {length})",
)

DUCKDB = Dialect(
    "duckdb",
    table=lambda home, name: f"delta_scan({sql_literal(home.table(name))})",
    prepare=lambda home, tables: ["INSTALL delta", "LOAD delta"],
    prefix="",
    quote='"',
    text_type="VARCHAR",
    unnest=lambda values, name: f"CROSS JOIN UNNEST({values}) AS unnested({name})",
    at=lambda values, position: f"list_extract({values}, {position})",
    count=lambda values: f"len({values})",
    transform=lambda values, name, expression: f"list_transform({values}, lambda {name}: {expression})",
    join=lambda values, separator: f"array_to_string({values}, '{separator}')",
    sum=lambda values: f"coalesce(list_sum({values}), 0)",
    positions=lambda length: f"generate_series(1, {length})",
)

TRINO = Dialect(
    "trino",
    table=lambda home, name: f"{CATALOG}.{SCHEMA}.{name}",
    prepare=_register_in_trino,
    prefix=f"{CATALOG}.{SCHEMA}.",
    quote='"',
    text_type="VARCHAR",
    unnest=lambda values, name: f"CROSS JOIN UNNEST({values}) AS unnested({name})",
    at=lambda values, position: f"element_at({values}, {position})",
    count=lambda values: f"cardinality({values})",
    transform=lambda values, name, expression: f"transform({values}, {name} -> {expression})",
    join=lambda values, separator: f"array_join({values}, '{separator}')",
    sum=lambda values: f"reduce({values}, DOUBLE '0', (total, value) -> total + value, total -> total)",
    positions=lambda length: f"sequence(1, {length})",
)

DIALECTS = {dialect.name: dialect for dialect in (SPARK, DUCKDB, TRINO)}
"""The dialects by their name. To add one, declare it here."""


def region_as_text(d: Dialect) -> str:
    """Return the expression: MULTIPOLYGON of boxes or polygons, POINT for the centre of a circle; degrees."""
    centre = f"{d.text(d.at('circle', '1'))} || ' ' || {d.text(d.at('circle', '2'))}"
    return (
        f"CASE WHEN circle IS NOT NULL THEN 'POINT (' || {centre} || ')'"
        f" WHEN polygon IS NOT NULL THEN {_polygons(d)}"
        f" ELSE {_boxes(d)} END"
    )


def _boxes(d: Dialect) -> str:
    """A polygon for each box, counter-clockwise from its south-west corner."""

    def corner(lon: str, lat: str) -> str:
        return f"{d.text(d.at(lon, 'box'))} || ' ' || {d.text(d.at(lat, 'box'))}"

    corners = [("west", "south"), ("east", "south"), ("east", "north"), ("west", "north"), ("west", "south")]
    ring = " || ', ' || ".join(corner(*sides) for sides in corners)
    boxes = d.transform(d.positions(d.count("west")), "box", f"'((' || {ring} || '))'")
    return f"'MULTIPOLYGON (' || {d.join(boxes, ', ')} || ')'"


def _polygons(d: Dialect) -> str:
    """The rings in their order: an exterior, which runs counter-clockwise, begins a polygon, and its holes follow."""
    ring = d.at("polygon", "ring")
    length = f"CAST(floor({d.count(ring)} / 2) AS INTEGER)"

    def lon(place: str) -> str:
        return d.at(ring, f"2 * ({place}) - 1")

    def lat(place: str) -> str:
        return d.at(ring, f"2 * ({place})")

    # Twice the area of a ring, positive if it runs counter-clockwise: triangles with its first position.
    sides = (
        f"({lon(place)} - {lon('1')}) * ({lat(other)} - {lat('1')})"
        for place, other in (("place", "place + 1"), ("place + 1", "place"))
    )
    area = d.sum(d.transform(d.positions(f"{length} - 1"), "place", " - ".join(sides)))
    position = f"{d.text(lon('place'))} || ' ' || {d.text(lat('place'))}"
    positions = d.join(d.transform(d.positions(length), "place", position), ", ")
    begin = f"CASE WHEN ring = 1 THEN '((' WHEN {area} > 0 THEN ')), ((' ELSE '), (' END"
    rings = d.transform(d.positions(d.count("polygon")), "ring", f"{begin} || {positions}")
    return f"'MULTIPOLYGON (' || {d.join(rings, '')} || ')))'"


TableName = Callable[[str], str]
"""Returns the name under which a query reads a table."""


def _pairs(d: Dialect, table: TableName) -> str:
    """Each pair that `export matches` writes, once: without retracted pairs; with the attributes of the object."""
    done = f"batch_id IN (SELECT batch_id FROM {table(names.BATCHES)} WHERE status = 'done')"
    return f"""\
SELECT pairs.*, stored.attributes
FROM (
{pairs_query(d, table, done)}
) AS pairs
LEFT JOIN {table(names.OBJECTS)} AS stored
  ON stored.object_key = pairs.object_key"""


def pairs_query(d: Dialect, table: TableName, batches: str, *further: str) -> str:
    """Return the query of the pairs of some batches, without those that one of these batches retracts.

    batches: a condition on `batch_id`; further: columns of `requests` after those of the view
    """

    def exploded(columns: str, condition: str) -> str:
        pairs = d.unnest("subscription_keys", "subscription_key")
        return (
            f"SELECT {columns}, subscription_key\n  FROM {table(names.MATCHES)} {pairs}\n  WHERE {condition} AND"
            f" {batches}"
        )

    columns = "object_key, object_id, ts, batch_id, plan_version, worker"
    more = "".join(f",\n  inserted.{column}" for column in further)
    return f"""\
SELECT
  matched.object_key, matched.object_id, matched.ts,
  matched.subscription_key, inserted.owner, inserted.subscription_id, inserted.payload,
  matched.batch_id, matched.plan_version, matched.worker{more}
FROM (
  {exploded(columns, "NOT retracted")}
) AS matched
JOIN {table(names.REQUESTS)} AS inserted
  ON inserted.subscription_key = matched.subscription_key AND inserted.op = 'insert'
LEFT JOIN (
  {exploded("object_key", "retracted")}
) AS retractions
  ON retractions.object_key = matched.object_key AND retractions.subscription_key = matched.subscription_key
WHERE retractions.object_key IS NULL"""


def _subscriptions(d: Dialect, table: TableName) -> str:
    """Each subscription, live or ended, with its region as WKT and its end by deletion or expiry."""
    ingested = _of_finished_ingests(table)
    return f"""\
SELECT
  subscription_key, owner, subscription_id, kind, keywords, region, radius_m, created_at, end_at,
  created_at <= current_timestamp AND (end_at IS NULL OR end_at > current_timestamp) AS is_live,
  payload
FROM (
  SELECT
    inserted.subscription_key, inserted.owner, inserted.subscription_id, inserted.kind, inserted.keywords,
    {region_as_text(d)} AS region,
    CASE WHEN circle IS NOT NULL THEN {d.at("circle", "3")} END AS radius_m,
    inserted.effective_at AS created_at,
    CASE
      WHEN inserted.expires_at IS NULL OR deleted.deleted_at <= inserted.expires_at THEN deleted.deleted_at
      ELSE inserted.expires_at
    END AS end_at,
    inserted.payload
  FROM {table(names.REQUESTS)} AS inserted
  LEFT JOIN (
    SELECT coalesce(replaced_key, subscription_key) AS subscription_key, min(effective_at) AS deleted_at
    FROM {table(names.REQUESTS)}
    WHERE (op = 'delete' OR replaced_key IS NOT NULL) AND {ingested}
    GROUP BY coalesce(replaced_key, subscription_key)
  ) AS deleted
    ON deleted.subscription_key = inserted.subscription_key
  WHERE inserted.op = 'insert' AND inserted.{ingested}
) AS requested"""


def _batches_done(d: Dialect, table: TableName) -> str:
    """Each finished batch, once."""
    return f"""\
SELECT
  batch_id, plan_version, objects_after, objects_to, requests_after, requests_to, objects_version, requests_version,
  objects, discarded, requests, matches, retractions, stream_time, removals, candidates, changes, evaluations,
  seconds_by_step, started_at, finished_at, engine
FROM {table(names.BATCHES)}
WHERE status = 'done'"""


def _rejects_by_file(d: Dialect, table: TableName) -> str:
    """The number of rejected rows of each ingested file, and each answered file of questions, by field and reason."""
    file, row = d.quoted("file"), d.quoted("row")
    return f"""\
SELECT
  ingest_id, kind, {file}, field, reason, count(*) AS rejects, min({row}) AS first_row
FROM {table(names.REJECTS)}
WHERE {_of_finished_ingests(table)} OR kind = '{names.QUESTIONS}'
GROUP BY ingest_id, kind, {file}, field, reason"""


def _of_finished_ingests(table: TableName) -> str:
    return f"ingest_id IN (SELECT ingest_id FROM {table(names.FILES)} WHERE status = 'done')"


VIEWS: dict[str, Callable[[Dialect, TableName], str]] = {
    "pairs": _pairs,
    "subscriptions": _subscriptions,
    "batches_done": _batches_done,
    "rejects_by_file": _rejects_by_file,
}
"""The query of each view by its name. To add a view, write its query and add a line here and to docs/tables.md."""

VIEWED_TABLES = (names.BATCHES, names.FILES, names.MATCHES, names.OBJECTS, names.REJECTS, names.REQUESTS)
"""The tables that views read, a ledger before the tables whose rows it counts."""


def view_query(home: AnyHome, view: str, dialect: Dialect) -> str:
    """Return the query of a view, on the tables at the addresses of a home."""
    return VIEWS[view](dialect, lambda name: dialect.table(home, name))


def view_statements(home: AnyHome, dialect: str) -> list[str]:
    """Return the statements that create the views in a dialect of DIALECTS, without semicolons."""
    d = DIALECTS[dialect]
    created = [f"CREATE OR REPLACE VIEW {d.prefix}{view} AS\n{view_query(home, view, d)}" for view in VIEWS]
    return [*d.prepare(home, VIEWED_TABLES), *created]


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
