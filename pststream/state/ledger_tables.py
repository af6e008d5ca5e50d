"""Control tables: small ledgers that the driver reads and appends through delta-rs, without a JVM."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake import WriterProperties, write_deltalake
from pyarrow.parquet import filters_to_expression

from pststream import names
from pststream.delta_tables import greatest_value, open_dataset, open_table, read_table, translate_delta_errors
from pststream.errors import RetryableError
from pststream.state.data_files import FileWriter, commit, data_files
from pststream.state.home import LOG_KEPT, Home, log_kept
from pststream.state.slices import Slice, read_slices
from pststream.state.tables import TABLES
from pststream.storage.parquet_files import file_sizes

JOINED_BYTES = 1024 * 1024
"""Larger files are left as they are while batches run, so that joining takes no longer as a table grows."""

MOST_BYTES = 128 * 1024 * 1024
"""`maintain` joins them into such ones."""

FILES_KEPT = "delta.deletedFileRetentionDuration"
USUAL = {FILES_KEPT: "interval 7 days"}
"""What holds where a table has no such property."""

KEPT_BEFORE = {"control": (None, "interval 7 days"), "spark": (None,)}
"""How long older versions let the entries of a log be kept, by the table's writer; what a user has set holds."""

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
    found = open_table(home.table(name))
    with translate_delta_errors(home.table(name)):
        write_deltalake(found, table, mode="append", commit_properties=home.commit_properties(found))


def read(home: Home, name: str, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
    """Return the rows of a control table; `filters` as pyarrow's readers of Parquet accept them."""
    expression = None if filters is None else filters_to_expression(filters)
    return read_table(home.table(name), columns, expression)


def count(home: Home, name: str, filter: pds.Expression) -> int:
    """How many rows of any table pass; they are not held."""
    return int(open_dataset(open_table(home.table(name))).count_rows(filter=filter))


def greatest(home: Home, name: str, column: str) -> int:
    """Return the greatest value of a column of whole numbers of a control table; 0 if it has no rows."""
    return greatest_value(home.table(name), column)


def version(home: Home, name: str) -> int:
    """The table's Delta version."""
    return open_table(home.table(name)).version()


def last_transaction(home: Home, name: str, application: str) -> int:
    """The greatest transaction id that `application` has committed to the table, or -1."""
    found = open_table(home.table(name)).transaction_version(application)
    return -1 if found is None else int(found)


def compact(home: Home, name: str, most_bytes: int = JOINED_BYTES) -> None:
    """Join the many small files of a control table, as each append has left one, into files of `most_bytes` at most.

    Under a lock of its own, and left to whoever holds that: delivery joins files without the home's lock, and two that
    join the same files at once would both commit and so double their rows (delta-rs 1.x does not see the conflict).
    """
    try:
        with home.locked(f"join-{name}"):
            if home.storage.has_leases:
                _join(home, name, most_bytes)
                return
            open_table(home.table(name)).optimize.compact(
                target_size=most_bytes, writer_properties=WriterProperties(max_row_group_size=ROW_GROUP)
            )
    except RetryableError:
        return


def _join(home: Home, name: str, most_bytes: int) -> None:
    """Join files smaller than `most_bytes` into one, by a commit that a fence stops (fence.py)."""
    root, schema = home.table(name), TABLES[name].schema
    small = [file for file in data_files(home, name) if file.bytes < most_bytes]
    if len(small) < 2:
        return
    writer = FileWriter(root, schema)
    for rows in read_slices([Slice(f"{root}/{file.path}", 0, names.NEVER_US) for file in small], schema.names):
        writer.write(rows)
    joined = writer.close()
    last = last_transaction(home, name, "join")
    added = [joined] if joined else []
    commit(home, name, added, small, application="join", transaction=last + 1, rows_change=False)


def trim_log(home: Home, name: str, days: int) -> None:
    """Remove the entries of a table's log that were kept for long enough.

    days: how long `vacuum` keeps files that were removed; a checkpoint that forgot them sooner would have it go by
    their age instead.
    """
    table, declared = open_table(home.table(name)), TABLES[name]
    with translate_delta_errors(home.table(name)):
        found, kept = table.metadata().configuration, {FILES_KEPT: f"interval {days} days"}
        if found.get(LOG_KEPT) in KEPT_BEFORE[declared.writer]:
            kept[LOG_KEPT] = log_kept(declared)
        if any(found.get(key, USUAL.get(key)) != value for key, value in kept.items()):
            table.alter.set_table_properties(kept, commit_properties=home.commit_properties(table))
        # Entries that the new checkpoint makes needless go the next time: another may be reading them now.
        table.cleanup_metadata()
        table.create_checkpoint()


def vacuum(home: Home, name: str, days: int) -> int:
    """Remove files that no version of the last `days` names: merged ones, and what killed tasks have left.

    Returns their number. The latter are younger than `days` while a task may still be writing them.
    """
    table, root = open_table(home.table(name)), home.table(name)
    run = partial(table.vacuum, retention_hours=24 * days, enforce_retention_duration=False, full=True)
    with translate_delta_errors(root):
        named = [f"{root}/{path}" for path in run(dry_run=True)]
        # Delta goes on to list files that an earlier VACUUM has removed.
        found = sum(size is not None for size in file_sizes(named))
        if found:
            run(dry_run=False)
    return found


def delete(home: Home, name: str, predicate: str) -> None:
    """Delete the rows of a control table for which an SQL predicate holds."""
    table = open_table(home.table(name))
    with translate_delta_errors(home.table(name)):
        table.delete(predicate, commit_properties=home.commit_properties(table))
