"""Read the declaration of every Delta table of a home (tables.txt): columns with types and meaning, key, partitions.

Tables that grow with the data are written by Spark's tasks (state/data_files.py); the small control tables
(`writer="control"`) are written by the driver. No commit needs a JVM: state/log_entries.py makes them all. Times are
microseconds since 1970 in UTC where the type is timestamp.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME, Column
from pststream.queries.kinds.registry import request_columns
from pststream.queries.shapes.registry import PIECE_COLUMNS

INT, FLOAT, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
IDS, FLOATS, TEXTS = (pa.list_(kind) for kind in (INT, FLOAT, TEXT))
SECONDS, COUNTS = pa.map_(TEXT, FLOAT), pa.map_(TEXT, INT)
RECORD = pa.struct(
    [
        ("object_id", TEXT),
        ("ts", TIME),
        ("lon", FLOAT),
        ("lat", FLOAT),
        ("text", TEXT),
        ("text_breaks", BREAKS),
        ("attributes", ATTRIBUTES),
    ]  # fmt: skip
)
RESULTS = pa.list_(pa.struct([("name", TEXT), ("value", FLOAT), ("success", BOOL)]))
_TYPES: dict[str, pa.DataType] = {
    **{"int": INT, "int32": pa.int32(), "float": FLOAT, "float32": pa.float32(), "text": TEXT, "bool": BOOL},
    **{"ints": IDS, "floats": FLOATS, "texts": TEXTS, "clauses": pa.list_(IDS), "seconds": SECONDS, "counts": COUNTS},
    **{"time": TIME, "breaks": BREAKS, "attributes": ATTRIBUTES, "record": RECORD, "results": RESULTS},
}
_DECLARED_ELSEWHERE = {"*request_columns": request_columns(), "*piece_columns": PIECE_COLUMNS}

SOUGHT = ("object_id", "lon", "lat", "alpha")
"""Columns that are neither integers nor times and that queries filter by, or whose absence in a file matters."""


def has_bounds(column: pa.Field) -> bool:
    """Whether data files record the least and the greatest value of a column: integers, times and those of SOUGHT."""
    return bool(pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type) or column.name in SOUGHT)


@dataclass(frozen=True)
class Table:
    """A Delta table; `key` names the columns that identify a row, `partitions` those that partition its files.

    append_only: rows are never deleted or changed. Of the other tables, planning deletes what a killed planner left.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    writer: str = "spark"
    partitions: tuple[str, ...] = ()
    append_only: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of rows and data files, in the declared order."""
        return pa.schema([pa.field(c.name, c.type, nullable=True) for c in self.columns])

    @property
    def delta_schema(self) -> pa.Schema:
        """The schema in the table's log: NOT NULL where a column has no nulls, and comments."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.columns]
        return pa.schema(
            [f.with_metadata({"comment": c.meaning}) if c.meaning else f for f, c in zip(fields, self.columns)]
        )


def _read_table(text: str) -> Table:
    """Return the table of a paragraph of tables.txt, which says what its lines are."""
    title, about, *lines = text.replace("\n    ", " ").splitlines()
    name, _, meaning = title.partition(": ")
    options = dict(one.split(" ", 1) for one in about.split("; "))
    columns: list[Column] = []
    for line in lines:
        if line in _DECLARED_ELSEWHERE:
            columns += _DECLARED_ELSEWHERE[line]
            continue
        declared, _, column_meaning = line.partition(": ")
        column, kind = declared.split()
        columns.append(Column(column, _TYPES[kind.removesuffix("?")], column_meaning, kind.endswith("?")))
    return Table(
        name,
        meaning,
        tuple(columns),
        key=tuple(options["key"].split(", ")),
        writer=options.get("writer", "spark"),
        partitions=tuple(options["partitions"].split(", ")) if "partitions" in options else (),
        append_only="append_only" not in options,
    )


_PARAGRAPHS = Path(__file__).with_name("tables.txt").read_text("utf-8").split("\n\n")[1:]

TABLES: dict[str, Table] = {table.name: table for table in map(_read_table, _PARAGRAPHS)}
