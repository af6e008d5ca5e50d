"""Write tables of answers to a CSV, JSON Lines or Parquet file."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.atomic_files import replacing
from pststream.errors import UsageError
from pststream.questions.answer_table import ANSWERS
from pststream.reports.commands.pair_files import csv_fields, joined, json_strings, times

BATCH_ROWS = 65_536

ROW_GROUP = 1_048_576
"""Rows of a row group of a Parquet file."""


def check_answer_path(out: str) -> None:
    """Raise UsageError for a file whose ending is that of no known format."""
    if Path(out).suffix.lower() not in _WRITERS:
        raise UsageError(f"--out {out}: unknown format", f"end the name with {', '.join(_WRITERS)}")


def write_answers(answers: Iterable[pa.Table], out: str, schema: pa.Schema = ANSWERS) -> int:
    """Write tables of answers, or of other rows of numbers and texts, to a file, all or nothing.

    The ending of the name gives the format. One table is in memory at a time. Texts of CSV that a spreadsheet would run
    as a formula get an apostrophe; nulls are empty fields. Returns the number of rows.
    """
    check_answer_path(out)
    path = Path(out)
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for table in answers:
            rows += table.num_rows
            yield from table.to_batches(max_chunksize=BATCH_ROWS)

    with replacing(path) as temporary, open(temporary, "wb") as file:
        _WRITERS[path.suffix.lower()](counted(), file, schema)
    return rows


def _write_csv(answers: Iterator[pa.RecordBatch], file: BinaryIO, schema: pa.Schema) -> None:
    file.write((",".join(schema.names) + "\n").encode())
    for rows in answers:
        fields = [csv_fields(_text(column).fill_null("")) for column in rows.columns]
        _write_lines(joined(*_separated(fields, ","), "\n"), file)


def _write_json(answers: Iterator[pa.RecordBatch], file: BinaryIO, _: pa.Schema) -> None:
    for rows in answers:
        values = []
        for name, column in zip(rows.schema.names, rows.columns):
            text = _text(column)
            quoted = (
                json_strings(text) if not pa.types.is_integer(column.type) and column.type != pa.float64() else text
            )
            values.append(joined(f'"{name}": ', quoted.fill_null("null")))
        _write_lines(joined("{", *_separated(values, ", "), "}\n"), file)


def write_parquet(answers: Iterator[pa.RecordBatch], file: BinaryIO, schema: pa.Schema = ANSWERS) -> None:
    """Write rows of answers, or of another schema, as a Parquet file."""
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        group: list[pa.RecordBatch] = []
        for rows in answers:
            group.append(rows)
            if sum(one.num_rows for one in group) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(group))
                group = []
        if group:
            writer.write_table(pa.Table.from_batches(group))


def _text(column: pa.Array) -> pa.Array:
    return times(column) if pa.types.is_timestamp(column.type) else column.cast(pa.large_string())


def _separated(parts: list[pa.Array], separator: str) -> list[pa.Array | str]:
    mixed: list[pa.Array | str] = []
    for part in parts:
        mixed += [separator, part] if mixed else [part]
    return mixed


def _write_lines(lines: pa.Array, file: BinaryIO) -> None:
    file.write("".join(pc.cast(lines, pa.large_string()).to_pylist()).encode())


_WRITERS: dict[str, Callable[[Iterator[pa.RecordBatch], BinaryIO, pa.Schema], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_json,
    ".parquet": write_parquet,
}
