"""Columns of data files are encoded as declared; every reader returns the same rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.names import MATCHES, OBJECTS
from pststream.state.data_files import FileWriter
from pststream.state.tables import TABLES, has_bounds
from pststream.storage.parquet_files import PLAIN, WITHOUT_BOUNDS, encoding_options

ROWS = 70_000


def column(field: pa.Field, rng: np.random.Generator) -> pa.Array:
    """Random values of the type of a column: few distinct ones, with nulls and the extremes of integers."""
    numbers = rng.integers(0, 1_000, ROWS) * 2**40
    numbers[:4] = [0, 2**63 - 1, -(2**63), -1]
    absent = rng.random(ROWS) < 0.1
    if pa.types.is_map(field.type):
        items = [[(name, {"type": "number", "value": str(row)}) for name in "ab"[: row % 3]] for row in range(ROWS)]
        return pa.array(items, field.type, mask=absent)
    if pa.types.is_list(field.type):
        offsets = np.append(0, np.cumsum(rng.integers(0, 4, ROWS))).astype(np.int32)
        half = 1 << (field.type.value_type.bit_width - 1)
        values = pa.array(rng.integers(-half, half, offsets[-1]), field.type.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets), values)
    if pa.types.is_string(field.type):
        return pa.array(numbers.astype(str), mask=absent)
    if pa.types.is_timestamp(field.type):
        return pa.array(numbers % 2**50, mask=absent).cast(field.type)
    if pa.types.is_boolean(field.type):
        return pa.array(numbers % 2 == 0, mask=absent)
    return pa.array(numbers.astype(field.type.to_pandas_dtype()), mask=absent)


@pytest.mark.parametrize("name", [OBJECTS, MATCHES])
def test_every_reader_returns_what_was_written(name: str, tmp_path: Path) -> None:
    import duckdb  # loads slowly, as Polars, and only this test needs them
    import polars

    schema = TABLES[name].schema
    rng = np.random.default_rng(1)
    rows = pa.Table.from_arrays([column(field, rng) for field in schema], schema=schema)
    writer = FileWriter(str(tmp_path), schema)
    for batch in rows.to_batches(20_000):
        writer.write(batch)
    writer.close()
    assert pq.read_table(writer.address).equals(rows)
    others = [
        polars.read_parquet(writer.address).to_arrow().cast(schema),
        duckdb.connect().sql(f"FROM '{writer.address}'").to_arrow_table().cast(schema),
    ]
    for read in others:
        for field in schema:
            one, other = read.column(field.name), rows.column(field.name)
            # Maps that are equal may differ in what lies below their nulls.
            same = one.to_pylist() == other.to_pylist() if pa.types.is_map(field.type) else one.equals(other)
            assert same, field.name


@pytest.mark.parametrize("name", list(TABLES))
def test_each_column_of_each_table_has_the_declared_encoding(name: str, tmp_path: Path) -> None:
    schema = TABLES[name].schema
    writer = FileWriter(str(tmp_path), schema)
    writer.write(pa.RecordBatch.from_arrays([pa.nulls(3, field.type) for field in schema], schema=schema))
    writer.close()
    metadata = pq.ParquetFile(writer.address).metadata
    encodings = {
        chunk.path_in_schema: set(chunk.encodings) - {"RLE"}
        for chunk in map(metadata.row_group(0).column, range(metadata.num_columns))
    }
    options = encoding_options(schema)
    footer = metadata.row_group(0)
    bounded = {chunk.path_in_schema for chunk in map(footer.column, range(footer.num_columns)) if chunk.statistics}
    assert {field.name for field in schema if has_bounds(field)} <= {path.split(".")[0] for path in bounded}
    assert encodings.keys() - bounded == {path for path in encodings if path.split(".")[0] in WITHOUT_BOUNDS}
    plain = {path for path in encodings if {path, path.split(".")[0]} & PLAIN}
    assert plain | set(options["column_encoding"]) | set(options["use_dictionary"]) == set(encodings)
    for path in encodings.keys() - set(options["use_dictionary"]):
        assert encodings[path] == ({"PLAIN"} if path in plain else {"DELTA_BINARY_PACKED"})
