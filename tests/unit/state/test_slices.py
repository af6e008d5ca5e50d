"""Rows of slices in a range of a key or of a time are those that a filter finds; other row groups are passed over."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from pststream.state.data_files import FileWriter
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.storage.parquet_files import open_parquet

SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
ROWS, GROUP = 200, 10
BEGIN = dt.datetime(2026, 3, 1, 12, 30, 0, 1, tzinfo=dt.UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000 + 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, np.ndarray]]:
    """A file of 20 row groups, in the order of its keys; times rise with them, each up to 5 rows late."""
    writer = FileWriter(str(tmp_path_factory.mktemp("table")), SCHEMA, row_group=GROUP)
    values = {"key": np.arange(ROWS) * 3}
    values["ts"] = BEGIN_US + np.arange(ROWS) * 7 - np.random.default_rng(1).integers(0, 36, ROWS)
    columns = [pa.array(values[field.name]).cast(field.type) for field in SCHEMA]
    writer.write(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    writer.close()
    return writer.address, values


@pytest.mark.parametrize("column", ["key", "ts"])
def test_rows_in_a_range(file: tuple[str, dict[str, np.ndarray]], column: str) -> None:
    address, values = file
    with open_parquet(address) as stored:
        assert stored.metadata.num_row_groups == ROWS // GROUP
    rnd = np.random.default_rng(2)
    for _ in range(40):
        low, high = np.sort(rnd.choice(values[column], 2)) + rnd.integers(-1, 2, 2)
        found = list(read_slices([Slice(address, 0, ROWS)], ["key", column], KeyRange(column, int(low), int(high))))
        keys = [key for batch in found for key in batch.column("key").to_pylist()]
        is_inside = (values[column] > low) & (values[column] <= high)
        assert keys == values["key"][is_inside].tolist()
        # A row group whose bounds meet the range may have no such row.
        assert len(found) <= len(np.unique(np.flatnonzero(is_inside) // GROUP)) + 2
