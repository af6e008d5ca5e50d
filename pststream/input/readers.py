"""Read the rows of an input file in chunks, with the reader of its format: CSV, JSON Lines or Parquet.

Files may be plain or compressed (.gz, .zst).
"""

from collections.abc import Collection, Iterator

from pststream.base.errors import InputFileError
from pststream.input.attributes import KeptColumns
from pststream.input.csv_reader import read_csv
from pststream.input.input_files import format_of
from pststream.input.json_reader import read_json, read_json_requests
from pststream.input.parquet_reader import read_parquet, read_parquet_requests
from pststream.input.row_chunks import MAX_ROW_BYTES, ColumnChunk, ColumnSources, FilePart, RequestChunk

_READERS = {"csv": read_csv, "jsonl": read_json, "parquet": read_parquet}
REQUIRED_OF_REQUESTS = ("op", "subscription_id")
"""Columns that a Parquet file of requests must have."""


def read_chunks(
    path: str, format: str | None, sources: ColumnSources, part: FilePart | None = None, kept: KeptColumns | None = None
) -> Iterator[ColumnChunk]:
    """Yield the rows of a file as columns, at most 65,536 rows and some megabytes at a time.

    If `format` is None, the ending of the file name decides; `sources` gives the columns to read for each field; with
    `part`, only its rows are read; the columns of `kept` become attributes. Raises InputFileError if the file as a
    whole cannot be read, at once or when the fault is reached. So callers commit nothing before the last chunk is read.
    """
    return _READERS[format_of(path, format)](path, sources, part, kept)


def read_requests(
    path: str,
    format: str | None,
    names: Collection[str],
    part: FilePart | None = None,
    longest_row: int = MAX_ROW_BYTES,
    required: Collection[str] = REQUIRED_OF_REQUESTS,
    strict: bool = True,
) -> Iterator[RequestChunk]:
    """Yield the rows of a file of requests or questions (JSON Lines or Parquet) with the fields of these names as
    columns.

    A row of more than `longest_row` bytes is a reject; a Parquet file has the `required` columns, and if `strict` no
    columns but those in `names`. Otherwise as `read_chunks`.
    """
    file_format = format_of(path, format)
    if file_format == "jsonl":
        return read_json_requests(path, names, part, longest_row)
    if file_format == "parquet":
        known = frozenset(names) if strict else None
        return read_parquet_requests(path, {name: [name] for name in required}, known, part, longest_row)
    raise InputFileError(path, "requests and questions are read from JSON Lines or Parquet, not from CSV")
