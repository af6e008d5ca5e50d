"""Write Arrow tables to one CSV, JSON Lines or Parquet file, by the ending of its name, and rename it when complete."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import zstandard

from pststream.atomic_files import replacing
from pststream.errors import UsageError

ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")


class RowWriter:
    """Write tables of one schema to a temporary file, which is renamed at the end.

    CSV and JSON Lines may also end in `.gz` or `.zst`. Nulls are empty fields in CSV and are left out in JSON Lines.
    The same rows give the same bytes. Use it as a context manager: after an error there is no file.
    """

    def __init__(self, path: str | os.PathLike[str], schema: pa.Schema) -> None:
        self.path = Path(path)
        self.rows = 0
        kind, packed = _kind(self.path)
        if kind == ".csv" and any(pa.types.is_nested(field.type) for field in schema):
            raise UsageError(f"{self.path.name}: these rows do not fit CSV", "use .jsonl or .parquet")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._replacing = replacing(self.path, durable=False)
        self._file = _open(self._replacing.__enter__(), packed)
        self._write, self._finish = _FORMATS[kind](self._file, schema)

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`."""
        self._write(table)
        self.rows += len(table)

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()
        self._file.close()
        self._replacing.__exit__(kind, error, trace)


def _kind(path: Path) -> tuple[str, str]:
    """Return the endings of the format and of the compression ("": none)."""
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    packed = endings.pop() if endings and endings[-1] in (".gz", ".zst") else ""
    if not endings or endings[-1] not in ENDINGS or (packed and endings[-1] == ".parquet"):
        raise UsageError(f"{path.name}: its ending is none of " + ", ".join(ENDINGS), ".csv and .jsonl: also .gz, .zst")
    return endings[-1], packed


def _open(path: Path, packed: str) -> Any:
    """Open a file for writing, compressed by its ending."""
    if packed == ".gz":
        return _Gzip(path)
    if packed == ".zst":
        return zstandard.ZstdCompressor().stream_writer(path.open("wb"), closefd=True)
    return path.open("wb")


class _Gzip(gzip.GzipFile):
    """A gzip file that closes the file below it; without name and time, so the same rows give the same bytes."""

    def __init__(self, path: Path) -> None:
        self._below = path.open("wb")
        super().__init__("", "wb", 6, self._below, 0)

    def close(self) -> None:
        """Close both files."""
        super().close()
        self._below.close()


_Writer = tuple[Callable[[pa.Table], None], Callable[[], None]]
"""The functions that write a table and that finish the file."""


def _parquet(file: IO[bytes], schema: pa.Schema) -> _Writer:
    """Write Parquet."""
    writer = pq.ParquetWriter(file, schema, compression="zstd")
    return writer.write_table, writer.close


def _csv(file: IO[bytes], schema: pa.Schema) -> _Writer:
    """Write CSV with a header."""
    writer = pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(quoting_style="needed"))
    return writer.write_table, writer.close


def _json_lines(file: IO[bytes], schema: pa.Schema) -> _Writer:
    """Write one JSON object for each row."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode

    def write(table: pa.Table) -> None:
        columns = [column.to_pylist() for column in table.columns]
        lines = (
            encode({name: value for name, value in zip(schema.names, row) if value is not None})
            for row in zip(*columns)
        )
        file.write(("\n".join(lines) + "\n").encode() if len(table) else b"")

    return write, lambda: None


_FORMATS = {".parquet": _parquet, ".csv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines}
