"""Define the types of columns, and what the declaration of a Delta table says (state/tables.py declares them)."""

from dataclasses import dataclass

import pyarrow as pa

from pststream.domain.arrow_columns import TIME

IDS = pa.list_(pa.int64())
SECONDS = pa.map_(pa.string(), pa.float64())
COUNTS = pa.map_(pa.string(), pa.int64())
RECORD = pa.struct(
    [("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()), ("lat", pa.float64()), ("text", pa.string())]
)
RESULTS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64()), ("success", pa.bool_())]))


SOUGHT = ("object_id", "lon", "lat", "alpha")
"""Columns that are neither integers nor times and that queries filter by, or whose absence in a file matters."""


def has_bounds(column: pa.Field) -> bool:
    """Whether data files record the least and the greatest value of a column: integers, times and those of SOUGHT."""
    return bool(pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type) or column.name in SOUGHT)


@dataclass(frozen=True)
class Column:
    """A column: its type and meaning, and whether it may have nulls."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False


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
