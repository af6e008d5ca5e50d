"""Delta tables as datasets."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, PyFileSystem

from pststream.tables.delta_tables import open_dataset

READ_AND_END = """
import sys
from deltalake import DeltaTable
from pststream.tables.delta_tables import open_dataset
data = open_dataset(DeltaTable(sys.argv[1]))
for _ in range(3):
    assert sum(rows.num_rows for rows in data.to_batches(batch_size=1000)) == 12
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of four files, in a folder whose name has to be escaped in a URL."""
    path = str(tmp_path / "Tür und #Tor")
    for file in range(4):
        rows = pa.table({"number": range(3 * file, 3 * file + 3), "kind": ["x y", "é%", "x y"]})
        write_deltalake(path, rows, mode="append", partition_by=["kind"])
    return path


def test_rows_are_those_of_the_table(path: str) -> None:
    data = open_dataset(DeltaTable(path))
    assert sorted(data.to_table().column("number").to_pylist()) == list(range(12))
    found = data.to_table(columns=["number"], filter=(pds.field("kind") == "é%") & (pds.field("number") > 2))
    assert sorted(found.column(0).to_pylist()) == [4, 7, 10]


def test_an_old_version(path: str) -> None:
    assert open_dataset(DeltaTable(path, version=1)).count_rows() == 6


def test_no_thread_of_arrow_needs_the_interpreter(path: str) -> None:
    # A file system written in Python aborts processes that end while Arrow closes a file.
    system = open_dataset(DeltaTable(path)).filesystem
    assert not isinstance(system.base_fs, PyFileSystem)
    assert isinstance(system.base_fs, LocalFileSystem)


def test_processes_that_read_end_in_peace(path: str) -> None:
    started = [subprocess.Popen([sys.executable, "-c", READ_AND_END, path]) for _ in range(6)]
    assert [process.wait(300) for process in started] == [0] * 6
