"""Delta tables as datasets of Arrow, read by Arrow's own file systems."""

import pyarrow.dataset as pds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, SubTreeFileSystem


def open_dataset(table: DeltaTable) -> pds.Dataset:
    """A table as a dataset whose filters skip files by their statistics.

    Not with the file system that delta-rs would give it: that one is written in Python, Arrow's threads need the
    interpreter to close its files, and a process that ends just then is aborted (a third of short ones on a busy
    machine).
    """
    system, path = FileSystem.from_uri(table.table_uri)
    return table.to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, system))
