"""Add rows of the logs of a home to a scratch home, in which batches run that must not change the home.

Data files whose rows all belong to the scratch home are named by their addresses; only files that also have other rows
are copied in part. So a scratch home of a large home is small, and a home in a bucket is read in place.
"""

from functools import partial

from pststream.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import (
    DataFile,
    FileWriter,
    add_references,
    addresses_and_rows,
    commit_files,
    list_data_files,
)
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction

BEFORE_ALL = -1
"""A key before all keys of a log."""


def add_rows(home: Home, scratch: Home, settings: Settings, name: str, rows: KeyRange) -> None:
    """Add the rows of a key range of a table: files with no other rows by their addresses, the rest as copies."""
    files = rows.files(list_data_files(home, name))
    whole = [file for file in files if _is_within(file, rows)]
    add_references(scratch, name, home, whole)
    cut = addresses_and_rows(home, name, (file for file in files if not _is_within(file, rows)))
    slices = [Slice(path, 0, count) for path, count in cut]
    copied = get_engine(settings).run_tasks(slices, partial(_copy_rows, scratch.table(name), name, rows))
    last = last_transaction(scratch.table(name), "scratch")
    commit_files(scratch, name, filter(None, copied), application="scratch", transaction=last + 1)


def _is_within(file: DataFile, rows: KeyRange) -> bool:
    least, greatest = file.low.get(rows.column), file.high.get(rows.column)
    return least is not None and greatest is not None and least > rows.after and greatest <= rows.up_to


def _copy_rows(root: str, name: str, rows: KeyRange, file: Slice) -> DataFile | None:
    writer = FileWriter(root, TABLES[name].schema)
    for part in read_slices([file], writer.schema.names, rows):
        writer.write(part)
    return writer.close()
