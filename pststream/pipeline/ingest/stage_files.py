"""Files into rows: each file is read by one task into a staged file, accepted and rejected rows in one."""

import datetime as dt
import json
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream.errors import InputFileError, PstError
from pststream.pipeline.engine.arrow_columns import micros
from pststream.quality.parse_objects import ObjectOptions, parse_objects
from pststream.quality.parse_requests import parse_requests
from pststream.quality.readers import read_chunks, read_records
from pststream.state.data_files import FileWriter
from pststream.state.slices import Slice
from pststream.state.tables import IDS, TIME

_REJECT = [pa.field(name, pa.string()) for name in ("field", "reason", "detail", "raw")]
NUMBERS = pa.list_(pa.float64())
SCHEMAS = {
    "objects": pa.schema(
        [
            ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()), ("terms", IDS), *_REJECT,
        ]
    ),
    "requests": pa.schema(
        [
            ("row", pa.int64()), ("op", pa.string()), ("subscription_id", pa.string()), ("at", TIME),
            ("expires_at", TIME), ("keywords", pa.string()), ("clauses", pa.list_(IDS)), ("west", NUMBERS),
            ("south", NUMBERS), ("east", NUMBERS), ("north", NUMBERS), ("circle", NUMBERS), ("payload", pa.string()),
            *_REJECT,
        ]
    ),
}  # fmt: skip
"""Rows of a staged file; `reason` is null where the row was accepted so far."""

NONE = -(2**63)
TIME_OF = {"objects": "ts", "requests": "at"}
ID_OF = {"objects": "object_id", "requests": "subscription_id"}


@dataclass(frozen=True)
class Staged:
    """A file as it was read: number of its last row, greatest time (microseconds) of rows that passed the row rules.

    `faults` are the rows that did not, by field and reason; `problem` is (path, reason, hint) of a file that cannot be
    read; `seen`: whether the node that was to read it found it at all.
    """

    file_seq: int
    path: str
    rows: int
    last_row: int
    max_time: int | None
    problem: tuple[str, str, str] | None = None
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: bool = True

    @property
    def slices(self) -> tuple[Slice, ...]:
        """The whole staged file."""
        return (Slice(self.path, 0, self.rows),) if self.rows else ()


def stage_file(kind: str, folder: str, at: dt.datetime, file: dict[str, Any]) -> Staged:
    """Read a file (a row of the ledger) into a staged file below `folder`; `at`: when the ingest began."""
    writer = FileWriter(folder, SCHEMAS[kind])
    last_row, greatest, problem, faults = 0, NONE, None, Counter[tuple[str, str]]()
    try:
        for part in _read(file["path"], _parts(kind, file, at)):
            if part.num_rows:
                rows = _widened(part, SCHEMAS[kind])
                writer.write(rows)
                last_row = max(last_row, int(rows.column("row").to_numpy().max()))
                faults.update(_faults(rows))
                greatest = int(micros(rows.column(TIME_OF[kind]).drop_null()).max(initial=greatest))
    except InputFileError as error:
        problem = (error.path, error.reason, error.hint)
    written = writer.close()
    return Staged(
        file["file_seq"],
        writer.address,
        written.rows if written else 0,
        last_row,
        None if greatest == NONE else greatest,
        problem,
        faults,
        problem is None or Path(file["path"]).exists(),
    )


def _read(path: str, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The parts; what a reader did not foresee is a fault of this file, which must not stop the others."""
    try:
        yield from parts
    except (PstError, OSError, MemoryError):
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        met = f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}: {(str(error).splitlines() or [''])[0]}"
        raise InputFileError(path, f"reading it met what nobody foresaw: {met}", "please report it") from error


def _faults(rows: pa.RecordBatch) -> Counter[tuple[str, str]]:
    """Rejected rows by field and reason."""
    refused = rows.filter(pc.is_valid(rows.column("reason")))
    return Counter(zip(refused.column("field").to_pylist(), refused.column("reason").to_pylist()))


def _parts(kind: str, file: dict[str, Any], at: dt.datetime) -> Iterator[pa.RecordBatch]:
    options = json.loads(file["options"])
    if kind == "requests":
        for records in read_records(file["path"], options["format"]):
            yield from parse_requests(records, at, options["timezone"])
        return
    reading = object_options(options)
    for chunk in read_chunks(file["path"], options["format"], reading.sources):
        yield from parse_objects(chunk, reading)


def object_options(options: dict[str, Any]) -> ObjectOptions:
    """The options of a reader as they stand in the ledger; raises UsageError for what makes no sense."""
    columns = {name: tuple(sources) for name, sources in options["columns"]}
    return ObjectOptions(columns, dict(options["constants"]), options["timezone"], options["max_text_bytes"])


def _widened(part: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, null where the part has none."""
    found = set(part.schema.names)
    columns = [
        part.column(field.name).cast(field.type) if field.name in found else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
