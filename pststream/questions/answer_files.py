"""Write the table of answers to a CSV, JSON Lines or Parquet file."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.atomic_files import replacing
from pststream.errors import UsageError
from pststream.reports.commands.pair_files import csv_fields, joined, json_strings, times


def check_answer_path(out: str) -> None:
    """Raise UsageError for a file whose ending is that of no known format."""
    if Path(out).suffix.lower() not in _WRITERS:
        raise UsageError(f"--out {out}: unknown format", f"end the name with {', '.join(_WRITERS)}")


def write_answers(answers: pa.Table, out: str) -> None:
    """Write answers to a file, all or nothing; the ending of its name gives the format.

    Texts of CSV that a spreadsheet would run as a formula get an apostrophe; nulls are empty fields.
    """
    check_answer_path(out)
    path = Path(out)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        _WRITERS[path.suffix.lower()](answers, file)


def _write_csv(answers: pa.Table, file: BinaryIO) -> None:
    file.write((",".join(answers.column_names) + "\n").encode())
    for rows in answers.to_batches(max_chunksize=65_536):
        fields = [csv_fields(_text(column).fill_null("")) for column in rows.columns]
        _write_lines(joined(*_separated(fields, ","), "\n"), file)


def _write_json(answers: pa.Table, file: BinaryIO) -> None:
    for rows in answers.to_batches(max_chunksize=65_536):
        values = []
        for name, column in zip(rows.schema.names, rows.columns):
            text = _text(column)
            quoted = (
                json_strings(text) if not pa.types.is_integer(column.type) and column.type != pa.float64() else text
            )
            values.append(joined(f'"{name}": ', quoted.fill_null("null")))
        _write_lines(joined("{", *_separated(values, ", "), "}\n"), file)


def _write_parquet(answers: pa.Table, file: BinaryIO) -> None:
    pq.write_table(answers, file, compression="zstd")


def _text(column: pa.Array) -> pa.Array:
    return times(column) if pa.types.is_timestamp(column.type) else column.cast(pa.large_string())


def _separated(parts: list[pa.Array], separator: str) -> list[pa.Array | str]:
    mixed: list[pa.Array | str] = []
    for part in parts:
        mixed += [separator, part] if mixed else [part]
    return mixed


def _write_lines(lines: pa.Array, file: BinaryIO) -> None:
    file.write("".join(pc.cast(lines, pa.large_string()).to_pylist()).encode())


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_json,
    ".parquet": _write_parquet,
}
