"""Read a Parquet file in chunks of columns; turn rows that cannot be decoded into rejects.

The number of a row is its position in the file, from 1.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.base.arrow_columns import ATTRIBUTES
from pststream.base.errors import InputFileError, PassingError, passing_number
from pststream.base.names import MAX_JSON_LEVELS
from pststream.input.attributes import MAX_NAMES, KeptColumns, of_table
from pststream.input.input_files import most_expanded, open_seekable
from pststream.input.parquet_batches import expands_too_much, read_batches
from pststream.input.raw_values import is_all_utf8, is_text, reject_invalid_utf8
from pststream.input.request_fields import ParquetFields
from pststream.input.row_chunks import (
    MAX_CHUNK_ROWS,
    MAX_ROW_BYTES,
    ColumnChunk,
    ColumnSources,
    FilePart,
    RecordChunk,
    Reject,
    RequestChunk,
    check_columns,
    check_row_number,
    column_names,
)
from pststream.queries.kinds.registry import describe_unknown

_DAMAGED = "it is cut short, damaged or of another format: fetch it again, or give --format"


def read_parquet(
    path: str, sources: ColumnSources, part: FilePart | None = None, kept: KeptColumns | None = None
) -> Iterator[ColumnChunk]:
    """Yield chunks of the wanted columns in the file's types, text as string.

    part: read only these row groups.
    kept: the columns that become attributes, unless they are of bytes
    Raises InputFileError where the file is not Parquet, cut short or damaged, has a row of more than MAX_ROW_BYTES, or
    decodes to more bytes than a compressed file may; at once or when the fault is reached.
    """
    with _open(path) as (source, file):
        check_columns(path, sources, file.schema_arrow.names)
        names, others = column_names(sources), _others(path, file.schema_arrow, kept)
        for chunk in _chunks(path, source, file, list(dict.fromkeys([*names, *others])), part):
            for index in _find_long_rows(chunk.table, MAX_ROW_BYTES):
                raise InputFileError(path, f"row {chunk.rows[index]} is longer than {MAX_ROW_BYTES} bytes")
            if kept is not None and others:
                columns = chunk.table.select(others)
                column = columns.column(0).cast(ATTRIBUTES) if kept.is_retry else of_table(columns, kept)
                chunk = replace(chunk, table=chunk.table.select(names), attributes=column)
            yield chunk


def _others(path: str, schema: pa.Schema, kept: KeptColumns | None) -> list[str]:
    """Return the columns that become attributes; raises InputFileError for one that is nested too deeply."""
    named = [field for field in schema if kept is not None and kept.name_of(field.name)]
    others = [field for field in named if schema.names.count(field.name) == 1 and not _is_bytes(field.type)]
    for field in others:
        _check_levels(path, field)
    return [field.name for field in others]


def _is_bytes(kind: pa.DataType) -> bool:
    of = pa.types
    return any(test(kind) for test in (of.is_binary, of.is_large_binary, of.is_fixed_size_binary, of.is_binary_view))


def read_parquet_requests(
    path: str,
    required: ColumnSources,
    known: frozenset[str] | None = None,
    part: FilePart | None = None,
    longest: int = MAX_ROW_BYTES,
) -> Iterator[RequestChunk]:
    """Yield chunks of all columns; rows of more than `longest` bytes are rejects.

    Otherwise raises InputFileError as `read_parquet` does, for a column that is not `known` (None: any may be there),
    and for columns nested too deeply.
    """
    with _open(path) as (source, file):
        for field in file.schema_arrow:
            _check_levels(path, field)
        names = file.schema_arrow.names
        hint = "these files have no option --column: rename the column in the file"
        check_columns(path, {**required, **{name: [name] for name in names}}, names, hint)
        for name in names:
            if known is not None and name not in known:
                reason = "column " + describe_unknown(name[:40], known, "requests" if "op" in known else "questions")
                raise InputFileError(path, reason, "rename or drop the column in the file")
        for chunk in map(partial(_reject_long_rows, longest), _chunks(path, source, file, names, part)):
            yield RequestChunk(chunk.rows, ParquetFields(chunk.table), partial(_records, chunk), chunk.rejected)


@contextmanager
def _open(path: str) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """Open a Parquet file; yield what it is read from, a path or an open file, too."""
    try:
        source = open_seekable(path, b"PAR1")
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
            yield source, file
    except MemoryError:  # an ArrowException too, which says nothing about the file
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: a name in the schema
        if isinstance(error, FileNotFoundError):
            raise InputFileError(path, "no such file") from None
        if number := passing_number(error):
            raise PassingError(path, number) from None
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputFileError(path, f"not readable as Parquet: {first}", _DAMAGED) from None


def _chunks(
    path: str, source: Any, file: pq.ParquetFile, names: list[str], part: FilePart | None
) -> Iterator[ColumnChunk]:
    check_row_number(path, file.metadata.num_rows)
    row = before = part.rows_before if part else 0
    groups = range(part.start, part.stop) if part else range(file.metadata.num_row_groups)
    most = max(1, min(MAX_CHUNK_ROWS, MAX_CHUNK_ROWS * MAX_NAMES // max(1, len(names))))  # nulls take no bytes
    left = _allowed_bytes(path, file, groups)
    _refuse_far_times(path, source, file, groups, names, row)
    for batch in read_batches(path, source, file, groups, names, most, MAX_ROW_BYTES, left):
        rows = np.arange(row + 1, row + len(batch) + 1, dtype=np.int64)
        row += len(batch)
        table = pa.RecordBatch.from_arrays([_decode(batch.column(name)) for name in names], names=names)
        left -= rows.nbytes + table.nbytes
        if left < 0:
            raise expands_too_much(path)
        chunk = ColumnChunk(path, rows, table)
        if not is_all_utf8(table):
            chunk = reject_invalid_utf8(chunk)
        columns = [column.cast(pa.string()) if is_text(column.type) else column for column in chunk.table.columns]
        table = pa.RecordBatch.from_arrays(columns, names=names)
        yield ColumnChunk(path, chunk.rows, table, chunk.rejected)
    expected = sum(file.metadata.row_group(group).num_rows for group in groups)
    if row - before != expected:  # Arrow may read nothing of a damaged file without an error
        reason = f"only {row - before} of {'its' if part is None else 'a part of'} {expected} rows can be read"
        raise InputFileError(path, reason, _DAMAGED)


def _refuse_far_times(
    path: str, source: Any, file: pq.ParquetFile, groups: Sequence[int], names: Sequence[str], row: int
) -> None:
    """Raise InputFileError for a time of INT96 with more microseconds than 64 bits hold, which Arrow reads as another.

    row   rows before the groups
    """
    columns = map(file.schema.column, range(len(file.schema)))
    wide = [one.path for one in columns if one.physical_type == "INT96" and one.path in names]
    if not wide:
        return
    with pq.ParquetFile(source, metadata=file.metadata, coerce_int96_timestamp_unit="s") as of_seconds:
        given = (one.iter_batches(MAX_CHUNK_ROWS, list(groups), wide) for one in (file, of_seconds))
        for micros, seconds in zip(*given, strict=True):
            for name in wide:
                of_both = (one.column(name).cast(pa.int64()) for one in (micros, seconds))
                read, meant = (pc.fill_null(values, 0).to_numpy() for values in of_both)
                for index in np.flatnonzero(read // 1_000_000 != meant)[:1].tolist():
                    reason = f"row {row + index + 1}, column {name!r}: the time of INT96 lies beyond the years of times"
                    raise InputFileError(path, reason, "write the column as timestamp in microseconds, or null")
            row += micros.num_rows


def _allowed_bytes(path: str, file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Return how many bytes row groups may decode to: their share, by the sizes in the footer, of what the file may.

    Raises InputFileError if already the sizes in the footer make more.
    """
    metadata = file.metadata
    sizes = [max(metadata.row_group(group).total_byte_size, 0) for group in range(metadata.num_row_groups)]
    allowed, claimed = most_expanded(path), sum(sizes)
    if claimed > allowed:
        raise expands_too_much(path, ", by its footer")
    share = sum(sizes[group] for group in groups) / claimed if claimed else 1.0
    return max(MAX_ROW_BYTES, int(allowed * share))


def _reject_long_rows(longest: int, chunk: ColumnChunk) -> ColumnChunk:
    """Turn rows of more than `longest` bytes into rejects."""
    indices = list(_find_long_rows(chunk.table, longest))
    if not indices:
        return chunk
    details = [f"{chunk.table.slice(index, 1).nbytes} bytes, more than {longest}" for index in indices]
    rejected = [Reject(int(chunk.rows[index]), "", "row_too_long", None, text) for index, text in zip(indices, details)]
    kept = np.delete(np.arange(len(chunk.rows)), indices)
    return ColumnChunk(chunk.file, chunk.rows[kept], chunk.table.take(pa.array(kept)), chunk.rejected + rejected)


def _find_long_rows(table: pa.RecordBatch, longest: int, first: int = 0) -> Iterator[int]:
    """Yield the indices of rows of more than `longest` bytes, by halves; `first`: index of the first row."""
    if table.num_rows == 0 or table.nbytes <= longest:
        return
    if table.num_rows == 1:
        yield first
        return
    half = table.num_rows // 2
    yield from _find_long_rows(table.slice(0, half), longest, first)
    yield from _find_long_rows(table.slice(half), longest, first + half)


def _records(chunk: ColumnChunk, indices: np.ndarray) -> RecordChunk:
    """Return rows of the chunk (indices in it, from 0) as records, without nulls.

    Rows with a value that Python cannot hold, such as the year 10000, become rejects.
    """
    some = chunk.table if len(indices) == len(chunk.rows) else chunk.table.take(pa.array(indices))
    columns = [_to_microseconds(column) for column in some.columns]
    table = pa.RecordBatch.from_arrays(columns, names=chunk.table.schema.names)
    rows = chunk.rows[indices].tolist()
    try:
        return RecordChunk(chunk.file, rows, _objects(table))
    except (ValueError, OverflowError):
        pass
    except LookupError as error:  # an unknown zone, of a whole column
        raise InputFileError(chunk.file, f"a value cannot be read: {error}") from None
    parsed = RecordChunk(chunk.file, [], [])
    for index, row in enumerate(rows):
        try:
            parsed.records.extend(_objects(table.slice(index, 1)))
            parsed.rows.append(row)
        except (ValueError, OverflowError) as error:
            parsed.rejected.append(_reject_row(table, index, row, str(error)))
    return parsed


def _objects(table: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def _reject_row(table: pa.RecordBatch, index: int, row: int, detail: str) -> Reject:
    """Reject a row for the first of its fields that cannot be read."""
    for name, column in zip(table.schema.names, table.columns):
        try:
            column[index].as_py()
        except (ValueError, OverflowError) as error:
            reason = "time_out_of_range" if pa.types.is_temporal(column.type) else "not_a_value"
            return Reject(row, name, reason, None, str(error))
    return Reject(row, "", "not_a_value", None, detail)


def _check_levels(path: str, field: pa.Field) -> None:
    """Raise InputFileError if JSON of a row has more than MAX_JSON_LEVELS levels because of the type of this column."""
    level, types = 1, [field.type]
    while types := [kind for kind in types if kind.num_fields]:
        level += 1
        if level > MAX_JSON_LEVELS:
            reason = f"the column {field.name} has lists and structs nested more than {MAX_JSON_LEVELS} levels deep"
            raise InputFileError(path, reason)
        types = [kind.field(i).type for kind in types for i in range(kind.num_fields)]


def _to_microseconds(column: pa.Array) -> pa.Array:
    """Nanoseconds as microseconds, which Python can hold."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        unit = pa.timestamp("us", column.type.tz)
        return column.cast(options=pc.CastOptions(unit, allow_time_truncate=True))
    return column


def _decode(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type) and _has_zone(column.type):
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column


def _has_zone(kind: pa.TimestampType) -> bool:
    """Whether times are instants. Parquet stores these in UTC and names a zone, which may be unknown here."""
    try:
        return kind.tz is not None
    except UnicodeDecodeError:
        return True
