"""Files into rows: each file read by one task, accepted and rejected rows in one frame."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pststream.errors import InputFileError
from pststream.pipeline.index import spark_schema
from pststream.quality.objects import ObjectOptions, parse_objects
from pststream.quality.readers import read_chunks, read_records
from pststream.quality.requests import parse_requests
from pststream.state.tables import IDS, TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_PROBLEM = "file_problem"
"""Reason of the one row that stands for a file that cannot be read: path in `raw`, remedy in `field`."""

_SEQ = pa.field("file_seq", pa.int64())
_REJECT = [pa.field(name, pa.string()) for name in ("field", "reason", "detail", "raw")]
NUMBERS = pa.list_(pa.float64())
SCHEMAS = {
    "objects": pa.schema(
        [
            _SEQ, ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()), ("terms", IDS), *_REJECT,
        ]
    ),
    "requests": pa.schema(
        [
            _SEQ, ("row", pa.int64()), ("op", pa.string()), ("subscription_id", pa.string()), ("at", TIME),
            ("expires_at", TIME), ("keywords", pa.string()), ("clauses", pa.list_(IDS)), ("west", NUMBERS),
            ("south", NUMBERS), ("east", NUMBERS), ("north", NUMBERS), ("circle", NUMBERS), ("payload", pa.string()),
            *_REJECT,
        ]
    ),
}  # fmt: skip


def parse_files(spark: "SparkSession", files: list[dict[str, Any]]) -> "DataFrame":
    """Rows of the files (ledger rows of one kind), schema SCHEMAS[kind]; `reason` is null where accepted."""
    kind = files[0]["kind"]
    at = files[0]["at"].isoformat()
    offered = spark.createDataFrame(
        [(f["file_seq"], f["path"], f["options"], at) for f in files],
        "file_seq long, path string, options string, at string",
    )
    parted = offered.repartitionByRange(len(files), "file_seq") if len(files) > 1 else offered.coalesce(1)
    return parted.mapInArrow(_read_task(kind), spark_schema(SCHEMAS[kind]))


def _read_task(kind: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                yield from read_file(kind, file)

    return task


def read_file(kind: str, file: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of one file; a file that cannot be read ends with a row of reason FILE_PROBLEM."""
    schema = SCHEMAS[kind]
    try:
        for part in _parts(kind, file):
            if part.num_rows:
                yield _widened(part, file["file_seq"], schema)
    except InputFileError as error:
        problem = {
            "file_seq": file["file_seq"], "reason": FILE_PROBLEM,
            "raw": error.path, "detail": error.reason, "field": error.hint,
        }  # fmt: skip
        yield pa.RecordBatch.from_pylist([problem], schema=schema)


def _parts(kind: str, file: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    options = json.loads(file["options"])
    if kind == "requests":
        at = dt.datetime.fromisoformat(file["at"])
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


def _widened(part: pa.RecordBatch, file_seq: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, null where the part has none."""
    found = set(part.schema.names)
    return pa.RecordBatch.from_arrays([_column(part, field, file_seq, found) for field in schema], schema=schema)


def _column(part: pa.RecordBatch, field: pa.Field, file_seq: int, found: set[str]) -> pa.Array:
    if field.name == "file_seq":
        return pa.repeat(pa.scalar(file_seq, pa.int64()), part.num_rows)
    if field.name in found:
        return part.column(field.name).cast(field.type)
    return pa.nulls(part.num_rows, field.type)
