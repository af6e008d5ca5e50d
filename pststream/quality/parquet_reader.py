"""Parquet files, in chunks; a row's number is its place in the file, from 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.errors import InputFileError
from pststream.quality.input_files import seekable
from pststream.quality.reject_reasons import Reject
from pststream.quality.row_chunks import MOST_ROW_BYTES, MOST_ROWS, Chunk, RecordChunk, Sources, check_columns, names_of
from pststream.quality.utf8 import all_utf8, is_text, without_bad_utf8

_FEWEST_ROWS = 64
_DAMAGED = "it is cut short, damaged or of another format: fetch it again, or give --format"


def read_parquet(path: str, sources: Sources) -> Iterator[Chunk]:
    """Chunks of the wanted columns in the file's types, text as string.

    Raises InputFileError where the file is no Parquet, cut short or damaged, at once or when the reading gets there.
    """
    with _opened(path) as file:
        check_columns(path, sources, file.schema_arrow.names)
        yield from _chunks(path, file, names_of(sources))


def read_parquet_records(path: str, required: Sources) -> Iterator[RecordChunk]:
    """Chunks of rows as objects, a null left out; raises InputFileError as `read_parquet` does."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        hint = "requests take no --column: rename it in the file"
        check_columns(path, {**required, **{name: [name] for name in names}}, names, hint)
        for chunk in _chunks(path, file, names):
            yield _records(chunk)


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(seekable(path)) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: a name in the schema
        if isinstance(error, FileNotFoundError):
            raise InputFileError(path, "no such file") from None
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputFileError(path, f"not readable as Parquet: {first}", _DAMAGED) from None


def _chunks(path: str, file: pq.ParquetFile, names: list[str]) -> Iterator[Chunk]:
    row = 0
    for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), columns=names):
        rows = np.arange(row + 1, row + len(batch) + 1, dtype=np.int64)
        row += len(batch)
        table = pa.RecordBatch.from_arrays([_plain(batch.column(name)) for name in names], names=names)
        chunk = Chunk(path, rows, table)
        if not all_utf8(table):
            chunk = without_bad_utf8(chunk)
        yield Chunk(path, chunk.rows, _as_strings(chunk.table), chunk.rejected)
    if row != file.metadata.num_rows:  # Arrow may read none of a damaged file, and say nothing
        reason = f"{row} rows can be read of the {file.metadata.num_rows} that it says it has"
        raise InputFileError(path, reason, _DAMAGED)


def _records(chunk: Chunk) -> RecordChunk:
    """The rows as objects; those with a value that Python has no form for, as times after the year 9999, as rejects."""
    columns = [_to_microseconds(column) for column in chunk.table.columns]
    table = pa.RecordBatch.from_arrays(columns, names=chunk.table.schema.names)
    try:
        return RecordChunk(chunk.file, chunk.rows.tolist(), _objects(table), chunk.rejected)
    except (ValueError, OverflowError):
        pass
    except LookupError as error:  # a zone that is unknown, of a whole column
        raise InputFileError(chunk.file, f"a value cannot be read: {error}") from None
    found = RecordChunk(chunk.file, [], [], list(chunk.rejected))
    for place, row in enumerate(chunk.rows.tolist()):
        try:
            found.records.extend(_objects(table.slice(place, 1)))
            found.rows.append(row)
        except (ValueError, OverflowError) as error:
            found.rejected.append(_unread(table, place, row, str(error)))
    return found


def _objects(table: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def _unread(table: pa.RecordBatch, place: int, row: int, detail: str) -> Reject:
    """The reject of a row, for the first of its fields that cannot be read."""
    for name, column in zip(table.schema.names, table.columns):
        try:
            column[place].as_py()
        except (ValueError, OverflowError) as error:
            reason = "time_out_of_range" if pa.types.is_temporal(column.type) else "not_a_value"
            return Reject(row, name, reason, None, str(error))
    return Reject(row, "", "not_a_value", None, detail)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Rows of a chunk, so that it stays within MOST_ROW_BYTES where rows are of about one size."""
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    most = MOST_ROW_BYTES * metadata.num_rows // max(size, 1)
    return max(_FEWEST_ROWS, min(MOST_ROWS, most))


def _to_microseconds(column: pa.Array) -> pa.Array:
    """Times as Python has them: it knows no nanoseconds."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        unit = pa.timestamp("us", column.type.tz)
        return column.cast(options=pc.CastOptions(unit, allow_time_truncate=True))
    return column


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type) and _has_zone(column.type):
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column


def _has_zone(kind: pa.TimestampType) -> bool:
    """Whether times are instants. Parquet keeps these in UTC, and their zone beside them, which may be none we know."""
    try:
        return kind.tz is not None
    except UnicodeDecodeError:
        return True


def _as_strings(table: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.cast(pa.string()) if is_text(column.type) else column for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, names=table.schema.names)
