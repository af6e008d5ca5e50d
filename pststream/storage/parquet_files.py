"""Open, measure, flush and delete Parquet files in any storage, choose their encodings, and raise errors of tasks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from pststream.base import names
from pststream.base.atomic_files import flush_file, flush_folders
from pststream.base.errors import RetryableError, UsageError
from pststream.base.texts import mask_urls
from pststream.storage.registry import storage_of

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

ERROR_LENGTH = 300
"""Largest number of characters of a task's error that are shown."""


def open_parquet(address: str) -> pq.ParquetFile:
    """Open a Parquet file; over a network, with few large reads. The error of a damaged file names it."""
    storage = storage_of(address)
    try:
        if not storage.is_remote:
            return pq.ParquetFile(storage.local_path(address) or address)
        system, path = storage.file_system(address)
        return pq.ParquetFile(path, filesystem=system, pre_buffer=True)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{address}: {error}") from error


def count_values(metadata: pq.FileMetaData, name: str) -> int:
    """Return the number of values in a column of a Parquet file, or of the elements of its lists; an empty list counts
    as one.
    """
    if not metadata.num_row_groups:
        return 0
    paths = [metadata.schema.column(index).path.split(".")[0] for index in range(metadata.num_columns)]
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(group.column(paths.index(name)).num_values for group in groups)


def without_views(rows: Rows) -> Rows:
    """Return the rows with text as plain strings. Files that delta-rs rewrote have views, which Arrow cannot filter."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_string_view(field.type):
            rows = rows.set_column(index, field.name, rows.column(index).cast(pa.string()))
    return rows


def file_sizes(addresses: list[str]) -> list[int | None]:
    """Return the size of each file in bytes; None for a file that does not exist. All are of one storage."""
    if not addresses:
        return []
    storage = storage_of(addresses[0])
    system, _ = storage.file_system(addresses[0])
    infos = system.get_file_info([storage.file_system(address)[1] for address in addresses])
    return [one.size if one.type == FileType.File else None for one in infos]


def flush_content(address: str) -> None:
    """Flush the content of a file to disk, on the node that wrote it; a bucket has stored it already."""
    path = storage_of(address).local_path(address)
    if path is not None:
        flush_file(path)


def flush_names(addresses: list[str]) -> None:
    """Flush the names of files to disk: the entries of their folders."""
    paths = [storage_of(address).local_path(address) for address in addresses]
    flush_folders(Path(path).parent for path in paths if path is not None)


def delete_files(addresses: list[str]) -> None:
    """Delete data files; skip those that do not exist."""
    for address, size in zip(addresses, file_sizes(addresses)):
        if size is not None:
            system, path = storage_of(address).file_system(address)
            system.delete_file(path)


def raise_storage_error(error: Exception) -> None:
    """Raise the storage error that made a Spark task fail, as the text of Spark's error names it; else return."""
    prefixes = tuple(names.STORAGES)
    for line in map(str.strip, str(error).splitlines()):
        kind, _, text = line.partition(": ")
        if kind == "pststream.base.errors.UsageError" and text.startswith(prefixes):
            raise UsageError(text, "each node needs what the driver has (docs/where-it-runs.md)") from None
        is_marked = (mark in line for prefix in prefixes for mark in storage_of(prefix).task_error_marks)
        if (kind.startswith("pststream.") and text.startswith(prefixes)) or any(is_marked):
            raise RetryableError(
                f"a task could not access the storage: {mask_urls(text)[:ERROR_LENGTH]}", "run this again"
            ) from None


# Encodings of columns

BY_DIFFERENCES = frozenset(("object_key", "request_key", "subscription_key", "ts"))
"""Keys of the logs and times of objects."""

PLAIN = frozenset(
    (
        *("object_id", "subscription_id", "subscription_keys", "lon", "lat", "text", "value"),
        *("west", "south", "east", "north"),
        "attributes.key_value.value.value",
    )
)
"""Other columns whose values hardly repeat."""

WITHOUT_BOUNDS = frozenset(("event", "value", "attributes"))
"""Columns by whose bounds no reader skips row groups: to find them takes a tenth of the time of writing answers."""

DICTIONARY_BYTES = 4 * 1024 * 1024
"""Largest dictionary of a column in a row group: a row group of objects has more than the default of 131,072 words."""


def encoding_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the options of `pyarrow.parquet.ParquetWriter` for columns of these names: their encodings and bounds.

    A dictionary of a column whose values hardly repeat costs more than half of the time of writing the column, fills
    up, and makes the file larger: zstd compresses the plain values better. All readers of Delta tables know these.
    """
    leaves = [(column.name, path) for column in schema for path in _leaf_paths(column.type, column.name)]
    return {
        "use_dictionary": [path for name, path in leaves if not {name, path} & (BY_DIFFERENCES | PLAIN)],
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
