"""Read Delta tables with delta-rs (no JVM): as datasets, as rows, and the greatest value of a column."""

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSystem, SubTreeFileSystem

from pststream import names
from pststream.kept_rows import read_small_file, small_files
from pststream.open_tables import latest_table
from pststream.storage.registry import storage_of


def open_dataset(table: DeltaTable) -> pds.Dataset:
    """Return a table as a dataset whose filters skip files by their statistics.

    The dataset uses Arrow's own file system. The one of delta-rs is written in Python: Arrow's threads need the
    interpreter to close its files, and a process that ends at that moment is aborted (a third of short ones on a busy
    machine).
    """
    system = _file_system(table)
    return table.to_pyarrow_dataset(filesystem=system, schema=_schema(table))


def _file_system(table: DeltaTable) -> SubTreeFileSystem:
    uri = table.table_uri
    if names.storage_prefix(uri):
        system, path = storage_of(uri).file_system(unquote(uri).rstrip("/"))
    else:
        system, path = FileSystem.from_uri(uri)
    return SubTreeFileSystem(path, system)


def _schema(table: DeltaTable) -> pa.Schema:
    # NOT NULL is a promise of the log; files, and the tables made of their rows, have columns without it.
    return pa.schema([pa.field(f.name, f.type) for f in pa.schema(table.schema().to_arrow())])


def read_table(address: str, columns: list[str] | None = None, filter: pds.Expression | None = None) -> pa.Table:
    """Return the rows of a table that pass the filter; `columns`: only these; None: all.

    The rows of small files are kept in memory from one read to the next (`kept_rows.py`).
    """
    with latest_table(address) as table:
        small = small_files(address, table)
        if small is None:
            data = open_dataset(table)
        else:
            system, schema = _file_system(table), _schema(table)
    if small is None:
        return data.to_table(columns=columns, filter=filter)
    rows = pa.concat_tables([schema.empty_table(), *(read_small_file(file, system, schema) for file in small)])
    if filter is not None:
        rows = rows.combine_chunks().filter(filter)  # in one chunk, as each chunk of a table costs 0.05 ms
    return rows if columns is None else rows.select(columns)


def describe_snapshot(address: str) -> str:
    """Return a text that differs between tables, also between two at one address, and between versions of a table."""
    with latest_table(address) as table:
        return f"{table.metadata().id}@{table.version()}"


class QueryError(Exception):
    """A query that is not SQL, or not about the columns of its table."""


def query_table(address: str, name: str, query: str) -> pa.Table:
    """Return the result of an SQL query on one table, which the query calls `name`. Raises QueryError."""
    with latest_table(address) as table:
        try:
            return pa.table(QueryBuilder().register(name, table).execute(query).read_all())
        except DeltaError as error:
            raise QueryError(str(error).splitlines()[0]) from None


def greatest_value(address: str, column: str) -> int:
    """Return the greatest value of a column of whole numbers; 0 if the table has no rows.

    It comes from the statistics in the log, unless another program rewrote files without them.
    """
    with latest_table(address) as table:
        statistics = pa.table(table.get_add_actions(flatten=True))
    name = f"max.{column}"
    if name in statistics.column_names and not statistics.column(name).null_count:
        return int(pc.max(statistics.column(name)).as_py() or 0)
    return int(pc.max(read_table(address, [column]).column(0)).as_py() or 0)
