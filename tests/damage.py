"""Delete or change rows of a home's tables as no command does, for tests of what then happens."""

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from pststream.base import names
from pststream.state.delta_log import APPEND_ONLY
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.open_tables import open_table


def allow_changes(address: str) -> DeltaTable:
    """Open a table that accepts deletions and updates from now on."""
    table = open_table(address)
    if table.metadata().configuration.get(APPEND_ONLY) == "true":
        table.alter.set_table_properties({APPEND_ONLY: "false"})
    return open_table(address)


def delete_rows(home: Home, name: str, predicate: str) -> None:
    """Delete the rows for which an SQL predicate is true."""
    allow_changes(home.table(name)).delete(predicate)


def add_pieces(home: Home, rows: list[dict[str, Any]]) -> None:
    """Append rows to the worker index."""
    table = pa.Table.from_pylist(rows, schema=TABLES[names.WORKER_INDEX].schema)
    write_deltalake(home.table(names.WORKER_INDEX), table, mode="append")
