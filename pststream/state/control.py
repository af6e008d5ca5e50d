"""Control tables: small ledgers that the driver reads and appends through delta-rs, without a JVM."""

import datetime as dt
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyarrow.parquet import filters_to_expression

from pststream.dataset import open_dataset
from pststream.errors import RetryableError
from pststream.state.home import Home
from pststream.state.tables import TABLES

JOINED_BYTES = 1024 * 1024
"""Larger files are left as they are while batches run, so that joining takes no longer as a table grows."""

MOST_BYTES = 128 * 1024 * 1024
"""`maintain` joins them into such ones."""

ROW_GROUP = 8_192
"""Rows of a row group of such a file: who reads the end of a ledger reads one or two."""


def append(home: Home, name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> None:
    """Append rows (dicts, or a table of the declared schema) in one commit."""
    schema = TABLES[name].schema
    table = (
        rows.select(schema.names).cast(schema)
        if isinstance(rows, pa.Table)
        else pa.Table.from_pylist(list(rows), schema=schema)
    )
    write_deltalake(home.table(name), table, mode="append")


def read(home: Home, name: str, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
    """The rows of a control table; `filters` as pyarrow's readers of Parquet take them."""
    expression = None if filters is None else filters_to_expression(filters)
    return open_dataset(DeltaTable(home.table(name))).to_table(columns=columns, filter=expression)


def count(home: Home, name: str, filter: pds.Expression) -> int:
    """How many rows of any table pass; they are not held."""
    return int(open_dataset(DeltaTable(home.table(name))).count_rows(filter=filter))


def greatest(home: Home, name: str, column: str) -> int:
    """The greatest value of a whole-number column of a control table; 0 if it has no rows. The log tells it, unless
    somebody has rewritten files without their bounds.
    """
    bounds, told = pa.table(DeltaTable(home.table(name)).get_add_actions(flatten=True)), f"max.{column}"
    if told in bounds.column_names and not bounds.column(told).null_count:
        return int(pc.max(bounds.column(told)).as_py() or 0)
    return int(pc.max(read(home, name, [column]).column(0)).as_py() or 0)


def version(home: Home, name: str) -> int:
    """The table's Delta version."""
    return DeltaTable(home.table(name)).version()


def last_transaction(home: Home, name: str, application: str) -> int:
    """The greatest transaction id that `application` has committed to the table, or -1."""
    found = DeltaTable(home.table(name)).transaction_version(application)
    return -1 if found is None else int(found)


def now() -> dt.datetime:
    """The present, with zone."""
    return dt.datetime.now(dt.UTC)


def micros_of(moment: dt.datetime) -> int:
    """Microseconds since 1970 of a time with zone."""
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def compact(home: Home, name: str, most_bytes: int = JOINED_BYTES) -> None:
    """Join the many small files of a control table, as each append has left one, into files of `most_bytes` at most.

    Under a lock of its own, and left to whoever holds that: delivery joins files without the home's lock, and two that
    join the same files at once would both commit and so double their rows (delta-rs 1.x does not see the conflict).
    """
    try:
        with home.locked(f"join-{name}"):
            DeltaTable(home.table(name)).optimize.compact(
                target_size=most_bytes, writer_properties=WriterProperties(max_row_group_size=ROW_GROUP)
            )
    except RetryableError:
        return


def vacuum(home: Home, name: str, days: int) -> int:
    """Remove files that no version of the last `days` names: merged ones, and what killed tasks have left.

    Returns their number. The latter are younger than `days` while a task may still be writing them.
    """
    table = DeltaTable(home.table(name))
    run = partial(table.vacuum, retention_hours=24 * days, enforce_retention_duration=False, full=True)
    # Delta goes on to list files that an earlier VACUUM has removed.
    found = [path for path in run(dry_run=True) if (Path(home.table(name)) / path).exists()]
    if found:
        run(dry_run=False)
    return len(found)


def delete(home: Home, name: str, predicate: str) -> None:
    """Delete the rows of a control table for which an SQL predicate holds."""
    DeltaTable(home.table(name)).delete(predicate)
