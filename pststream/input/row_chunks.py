"""Chunks that readers return: row numbers, raw values as columns or records, and rejects; check a file's columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.errors import InputFileError
from pststream.input.reject_reasons import Reject
from pststream.queries.raw_fields import RawFields
from pststream.tables.ledger_rows import MAX_ROW

MAX_CHUNK_ROWS = 65_536
BLOCK_BYTES = 1 << 22
MAX_ROW_BYTES = 1 << 26

BOM = b"\xef\xbb\xbf"

ColumnSources = Mapping[str, Sequence[str]]
"""Each field with the names of the file's columns that it is read from."""


@dataclass(frozen=True)
class FilePart:
    """Rows of an input file that are read on their own (input/file_parts.py).

    start, stop   bytes of a CSV or JSON Lines file, or row groups of a Parquet file
    rows_before   number of rows before the part; of JSON Lines, lines
    """

    start: int
    stop: int
    rows_before: int


@dataclass(frozen=True)
class ColumnChunk:
    """Some rows of a file as columns of raw values.

    file      path as given
    rows      int64[n]    number of each row: data rows of CSV and Parquet from 1, lines of JSON Lines from 1
    table     n rows      the wanted columns under the file's names; text if CSV, and if JSON of mixed types
    rejected              rows that cannot be decoded; they are not in `table`
    """

    file: str
    rows: np.ndarray
    table: pa.RecordBatch
    rejected: list[Reject] = field(default_factory=list)


@dataclass(frozen=True)
class RecordChunk:
    """Some rows of a file as JSON objects; `rows` and `rejected` as in ColumnChunk, one row number for each record."""

    file: str
    rows: list[int]
    records: list[dict[str, Any]]
    rejected: list[Reject] = field(default_factory=list)


@dataclass(frozen=True)
class RequestChunk:
    """Some rows of a request file.

    rows      int64[n]    number of each row, as in ColumnChunk
    fields                the fields of the rows, as columns
    records               returns the rows with these numbers (int64, from 0) as records, or as rejects
    rejected              rows that cannot be decoded; they are not in `rows`
    """

    rows: np.ndarray
    fields: RawFields
    records: Callable[[np.ndarray], RecordChunk]
    rejected: list[Reject] = field(default_factory=list)


def check_row_number(path: str, row: int) -> None:
    """Raise InputFileError for a row whose number has no room in a key: it would be a row of another file."""
    if row > MAX_ROW:
        reason = f"it has more than {MAX_ROW} rows, or lines of JSON, which is the most that a file may have"
        raise InputFileError(path, reason, "split it into several files")


def column_names(sources: ColumnSources) -> list[str]:
    """The names of all columns to read, each once."""
    return list(dict.fromkeys(name for names in sources.values() for name in names))


def check_columns(path: str, sources: ColumnSources, present: Sequence[str], hint: str = "") -> None:
    """Raise InputFileError, with the file's columns and a remedy, unless each wanted column occurs exactly once."""
    absent = {name: wanting for wanting, names in sources.items() for name in names if name not in present}
    if absent:
        wanted = ", ".join(_for_field(name, wanting) for name, wanting in absent.items())
        reason = f"no column {wanted}; it has: {_listed(present)}"
        raise InputFileError(path, reason, hint or _remedy(absent.values()))
    twice = [name for name in column_names(sources) if list(present).count(name) > 1]
    if twice:
        raise InputFileError(path, f"column {_listed(twice)} occurs more than once", "rename one of them in the file")


def _for_field(name: str, wanting: str) -> str:
    return name if name == wanting else f"{name} (for {wanting})"


def _remedy(fields: Iterable[str]) -> str:
    wanting = list(dict.fromkeys(fields))
    first = wanting[0]
    lines = [f"name the column: --column {first}=NAME (joined by spaces: --column {first}=NAME+NAME)"]
    constants = [name for name in wanting if name != "object_id"]
    if constants:
        lines.append(f"or give the same value for all rows: --constant {constants[0]}=VALUE")
    if "object_id" in wanting:
        lines.append("if the file has no id: --column object_id=@row makes ids <file name>:<row>")
    return "\n  ".join(lines)


def _listed(names: Sequence[str]) -> str:
    shown = [name if len(name) <= 40 else name[:39] + "…" for name in names[:30]]
    printable = ["".join(c if c.isprintable() else "�" for c in name) or "(empty)" for name in shown]
    return ", ".join(printable) + (f" and {len(names) - 30} more" if len(names) > 30 else "") if names else "none"
