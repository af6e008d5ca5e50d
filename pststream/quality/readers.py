"""The readers of input files, by format: CSV, JSON Lines, Parquet; plain, .gz or .zst."""

from collections.abc import Iterator

from pststream.errors import InputFileError
from pststream.quality.csv_reader import read_csv
from pststream.quality.input_files import find_files, format_of, sha256_of
from pststream.quality.json_reader import read_json, read_json_records
from pststream.quality.parquet_reader import read_parquet, read_parquet_records
from pststream.quality.row_chunks import Chunk, RecordChunk, Sources

__all__ = ["Chunk", "RecordChunk", "find_files", "format_of", "read_chunks", "read_records", "sha256_of"]

_READERS = {"csv": read_csv, "jsonl": read_json, "parquet": read_parquet}
_REQUIRED_OF_REQUESTS = {"op": ["op"], "subscription_id": ["subscription_id"]}


def read_chunks(path: str, format: str | None, sources: Sources) -> Iterator[Chunk]:
    """The rows of a file as columns, at most 65,536 rows and some megabytes at a time.

    `format` is None to go by the ending; `sources` says which columns are wanted and for what. Raises InputFileError
    where the file as a whole cannot be read, at once or when the reading gets there, so nothing should be committed
    before the last chunk was read.
    """
    return _READERS[format_of(path, format)](path, sources)


def read_records(path: str, format: str | None) -> Iterator[RecordChunk]:
    """The rows of a file of requests as objects; otherwise as `read_chunks`."""
    found = format_of(path, format)
    if found == "jsonl":
        return read_json_records(path)
    if found == "parquet":
        return read_parquet_records(path, _REQUIRED_OF_REQUESTS)
    raise InputFileError(path, "requests are read from JSON Lines or Parquet, not from CSV")
