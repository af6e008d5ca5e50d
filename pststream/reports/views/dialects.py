"""Write the expressions in which the SQL of Spark, DuckDB and Trino differ: tables by address, lists."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pststream.delta_tables import AnyHome
from pststream.storage.registry import storage_of

CATALOG, SCHEMA = "delta", "pststream"
"""Catalog and schema of the tables in the statements for Trino, which has no name for a table at an address."""


@dataclass(frozen=True)
class Dialect:
    """The SQL of one program. Texts with braces are templates of an expression.

    table     returns the name under which a query reads a table of a home
    prepare   returns the statements that a program needs before it knows the tables
    prefix    what precedes the name of a view that is created
    quote     the character around names that are reserved words
    """

    name: str
    table: Callable[[AnyHome, str], str]
    prepare: Callable[[AnyHome, Iterable[str]], list[str]]
    prefix: str
    quote: str
    text_type: str
    unnested: str
    item: str
    length: str
    transformed: str
    joined: str
    summed: str
    numbers: str

    def quoted(self, name: str) -> str:
        """Return a name as this SQL quotes it."""
        return f"{self.quote}{name}{self.quote}"

    def unnest(self, values: str, name: str) -> str:
        """Return what follows a table in FROM, so that each entry of a list is a row with a column `name`."""
        return self.unnested.format(values=values, name=name)

    def at(self, values: str, place: str) -> str:
        """Return the entry of a list at a place, counted from 1."""
        return self.item.format(values=values, place=place)

    def count(self, values: str) -> str:
        """Return the number of entries of a list."""
        return self.length.format(values=values)

    def transform(self, values: str, name: str, expression: str) -> str:
        """Return a list of the expression for each entry, which it calls `name`."""
        return self.transformed.format(values=values, name=name, expression=expression)

    def join(self, values: str, separator: str) -> str:
        """Return the texts of a list as one text."""
        return self.joined.format(values=values, separator=separator)

    def sum(self, values: str) -> str:
        """Return the sum of a list of doubles."""
        return self.summed.format(values=values)

    def places(self, last: str) -> str:
        """Return the list 1, 2 ... `last`."""
        return self.numbers.format(last=last)

    def text(self, value: str) -> str:
        """Return a number as text."""
        return f"CAST({value} AS {self.text_type})"


def _spark_table(home: AnyHome, name: str) -> str:
    address = home.table(name)
    return "delta.`" + storage_of(address).spark_uri(address).replace("`", "``") + "`"


def _duckdb_table(home: AnyHome, name: str) -> str:
    return f"delta_scan({_literal(home.table(name))})"


def _trino_table(home: AnyHome, name: str) -> str:
    return f"{CATALOG}.{SCHEMA}.{name}"


def _nothing(home: AnyHome, tables: Iterable[str]) -> list[str]:
    return []


def _register_in_trino(home: AnyHome, tables: Iterable[str]) -> list[str]:
    """Register the tables, where the catalog has `delta.register-table-procedure.enabled`."""
    registered = [
        f"CALL {CATALOG}.system.register_table(schema_name => '{SCHEMA}', table_name => '{name}',"
        f" table_location => {_literal(_trino_location(home.table(name)))})"
        for name in tables
    ]
    return [f"CREATE SCHEMA IF NOT EXISTS {CATALOG}.{SCHEMA}", *registered]


def _trino_location(address: str) -> str:
    return address if storage_of(address).is_remote else f"file://{address}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SPARK = Dialect(
    "spark",
    table=_spark_table,
    prepare=_nothing,
    prefix="",
    quote="`",
    text_type="STRING",
    unnested="LATERAL VIEW explode({values}) unnested AS {name}",
    item="element_at({values}, {place})",
    length="size({values})",
    transformed="transform({values}, {name} -> {expression})",
    joined="array_join({values}, '{separator}')",
    summed="aggregate({values}, 0D, (total, value) -> total + value)",
    numbers="sequence(1, {last})",
)

DUCKDB = Dialect(
    "duckdb",
    table=_duckdb_table,
    prepare=lambda home, tables: ["INSTALL delta", "LOAD delta"],
    prefix="",
    quote='"',
    text_type="VARCHAR",
    unnested="CROSS JOIN UNNEST({values}) AS unnested({name})",
    item="list_extract({values}, {place})",
    length="len({values})",
    transformed="list_transform({values}, lambda {name}: {expression})",
    joined="array_to_string({values}, '{separator}')",
    summed="coalesce(list_sum({values}), 0)",
    numbers="generate_series(1, {last})",
)

TRINO = Dialect(
    "trino",
    table=_trino_table,
    prepare=_register_in_trino,
    prefix=f"{CATALOG}.{SCHEMA}.",
    quote='"',
    text_type="VARCHAR",
    unnested="CROSS JOIN UNNEST({values}) AS unnested({name})",
    item="element_at({values}, {place})",
    length="cardinality({values})",
    transformed="transform({values}, {name} -> {expression})",
    joined="array_join({values}, '{separator}')",
    summed="reduce({values}, DOUBLE '0', (total, value) -> total + value, total -> total)",
    numbers="sequence(1, {last})",
)

DIALECTS = {dialect.name: dialect for dialect in (SPARK, DUCKDB, TRINO)}
"""The dialects by their name. To add one, declare it here."""
