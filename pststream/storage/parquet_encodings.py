"""Choose how the columns of data files are encoded in Parquet: by differences, plain, or by dictionaries; and bounds.

A dictionary of a column whose values hardly repeat costs more than half of the time of writing the column, fills up,
and makes the file larger: zstd compresses the plain values better. All readers of Delta tables know these encodings.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

BY_DIFFERENCES = frozenset(("object_key", "request_key", "subscription_key", "ts"))
"""Keys of the logs and times of objects."""

PLAIN = frozenset(
    (
        *("object_id", "subscription_id", "subscription_keys", "lon", "lat", "text", "value"),
        *("west", "south", "east", "north"),
    )
)
"""Other columns whose values hardly repeat."""

WITHOUT_BOUNDS = frozenset(("event", "value"))
"""Columns by whose bounds no reader skips row groups: to find them takes a tenth of the time of writing answers."""

DICTIONARY_BYTES = 4 * 1024 * 1024
"""Largest dictionary of a column in a row group: a row group of objects has more than the default of 131,072 words."""


def encoding_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the options of `pyarrow.parquet.ParquetWriter` for columns of these names."""
    leaves = [(column.name, path) for column in schema for path in _leaf_paths(column.type, column.name)]
    return {
        "use_dictionary": [path for name, path in leaves if name not in BY_DIFFERENCES | PLAIN],
        "column_encoding": {path: "DELTA_BINARY_PACKED" for name, path in leaves if name in BY_DIFFERENCES},
        "dictionary_pagesize_limit": DICTIONARY_BYTES,
        "write_statistics": [path for name, path in leaves if name not in WITHOUT_BOUNDS],
    }


def _leaf_paths(kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the Parquet paths of the columns without children below a column."""
    if pa.types.is_list(kind):
        yield from _leaf_paths(kind.value_type, f"{path}.list.element")
    elif pa.types.is_map(kind):
        yield from _leaf_paths(kind.key_type, f"{path}.key_value.key")
        yield from _leaf_paths(kind.item_type, f"{path}.key_value.value")
    elif pa.types.is_struct(kind):
        for child in kind:
            yield from _leaf_paths(child.type, f"{path}.{child.name}")
    else:
        yield path
