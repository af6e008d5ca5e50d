"""Declare columns of tables; convert Arrow columns to NumPy arrays and back, and sum them."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import concatenate_ranges, offsets_of

TIME = pa.timestamp("us", tz="UTC")
"""Type of the columns of times: microseconds since 1970, in UTC."""

ATTRIBUTE_TYPES = ("text", "number", "boolean", "time", "json")
"""Types of the attributes of objects."""

ATTRIBUTES = pa.map_(pa.string(), pa.struct([("type", pa.string()), ("value", pa.string())]))
"""Type of the column of attributes, by name.

`type` is one of ATTRIBUTE_TYPES; `value` is the text, the number as JSON writes it, true or false, an ISO time in UTC,
or the JSON of a list or object.
"""

Csr = tuple[np.ndarray, np.ndarray]
"""Lists as two arrays: the offsets of the lists, one more than there are lists, and the values of all."""


class Column(NamedTuple):
    """A column of a table: its type and meaning, and whether it may have nulls."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False


BREAKS = pa.list_(pa.int32())
"""Type of `text_breaks`: the bytes of a text before each further column that was joined into it; null: none was."""


def micros(column: pa.Array) -> np.ndarray:
    """Return timestamps as int64 microseconds since 1970."""
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)


def count_terms(rows: pa.RecordBatch) -> int:
    """Return the number of terms of objects, together; 0 if the rows have no column `terms`."""
    return int(pc.sum(pc.list_value_length(rows["terms"])).as_py() or 0) if "terms" in rows.schema.names else 0


def integers(rows: pa.RecordBatch | pa.Table, name: str, null: int = 0) -> np.ndarray:
    """Return a column of integers or timestamps as int64[n], microseconds; `null` stands for nulls."""
    return np.asarray(rows.column(name).cast(pa.int64()).fill_null(null).to_numpy())


def csr(column: pa.Array) -> Csr:
    """Return a list column as offsets int64[n+1] from 0, and its values; nulls are empty lists."""
    if column.null_count:
        column = column.fill_null(pa.scalar([], column.type))
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], values


def take_lists(lists: Csr, rows: np.ndarray) -> Csr:
    """Return some of the lists (int64[n]), in the order of `rows`."""
    offsets, values = lists
    lengths = np.diff(offsets)[rows]
    return offsets_of(lengths), values[concatenate_ranges(offsets[rows], lengths)]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked column as one array, an empty one if it has no chunk."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def sum_column(rows: pa.Table, name: str) -> int:
    """Return the sum of a column of integers without its nulls, 0 if there is no number."""
    return int(pc.sum(rows.column(name)).as_py() or 0)


def lists(offsets: np.ndarray, values: np.ndarray) -> pa.Array:
    """Return the list column of these offsets and values."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def utf8_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes (uint8, read-only) and offsets (int64[n+1]) of a string or large_string column without nulls.

    The result has the same types for both column types, so that a kernel is compiled once.
    """
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    content.flags.writeable = False
    if len(texts) == 0:
        return content, np.zeros(1, np.int64)
    positions = np.frombuffer(offsets, dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    return content, positions.astype(np.int64)
