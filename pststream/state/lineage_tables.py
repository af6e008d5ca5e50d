"""Describe the tables of a home as datasets of lineage events: address, and columns with type and meaning."""

from functools import cache

import pyarrow as pa

from pststream.base.arrow_columns import TIME
from pststream.base.lineage import LineageDataset
from pststream.state.home import Home
from pststream.state.tables import TABLES

_SQL_TYPES = {
    pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double", pa.float32(): "float",
    pa.string(): "string", pa.bool_(): "boolean", TIME: "timestamp",
}  # fmt: skip


def lineage_table(home: Home, name: str, rows: str | None = None) -> LineageDataset:
    """Return the dataset of a table; `rows` is the figure of a run that counts the rows it writes."""
    return LineageDataset(home.table(name), _columns(name), rows)


@cache
def _columns(name: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((column.name, _sql_type(column.type), column.meaning) for column in TABLES[name].columns)


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_sql_type(kind.key_type)}, {_sql_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_sql_type(field.type)}' for field in kind)}>"
    return _SQL_TYPES[kind]
