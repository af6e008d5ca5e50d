"""Write tables to a CSV, JSON Lines or Parquet file, by the ending of its name, whole columns at a time.

Users write the ids and the payloads of an export, and spreadsheets open CSV: a text that begins with `=` runs as a
formula. Quotes do not prevent that. So CSV has an apostrophe wherever a spreadsheet could begin a cell with a formula:
at the start of a text, and after each character in it that separates cells or rows in some locale, as a spreadsheet
that splits lines at `;` takes no notice of a quote in the middle of a cell. An apostrophe that stands there already
gets one more, so that whoever removes one at each such place gets the text back (docs/delivery.md). Other formats, and
files that are input of an ingest, have texts unchanged. Numbers stay as they are. A text with a separator is quoted, so
that no cell joins a number and a part of the next text to a formula: with the quote, which ends behind the separator,
it is none.

Times are ISO 8601 in UTC, always with six digits of a second: 2026-01-01T00:00:00.000000Z (Parquet: a timestamp).
"""

import gzip
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

from pststream.base.atomic_files import replacing
from pststream.base.errors import UsageError

EXPORT_ENDINGS = (".csv", ".jsonl", ".parquet")
INPUT_ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")

BATCH_ROWS = 65_536
"""Rows that are converted to text at a time."""

GROUP_ROWS = 1_048_576
"""Greatest number of rows of a row group of a Parquet file."""

GROUP_BYTES = 128 * 1024 * 1024
"""A row group ends early if its rows take more memory than this."""

_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?$"
_BREAKS = r"\t-\r\x{85}\x{2028}\x{2029}"
_SKIPPED = (
    r'["\x00-\x08\x0e-\x20\x7f-\x{84}\x{86}-\x{a0}\x{ad}\x{1680}\x{180e}\x{2000}-\x{200f}'
    r"\x{202a}-\x{202f}\x{205f}-\x{206f}\x{3000}\x{feff}]"
)
"""Quotes, blanks and invisible characters: what a spreadsheet may skip at the start of a cell."""

_FORMULA = f"'*{_SKIPPED}*[=+\\-@＝＋－＠﹦﹢﹣﹫⁼₌⁺₊﬩−⁻₋]"
_AT_START, _INSIDE = f"^('*[{_BREAKS}]|{_FORMULA})", f"([;|{_BREAKS}])({_FORMULA})"
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class TableWriter:
    """Writes tables of one schema to an open file in one format. The file stays open.

    A column may be dictionary-encoded. A dictionary that several tables share is converted to text once.

    ending        .csv: RFC 4180 with a header, fields quoted where needed, lines end with a line feed;
                  .jsonl, .ndjson: an object for each row; .parquet: compressed with zstd
    for_ingest    the file is input of an ingest: CSV has texts as they are, JSON Lines lack members that are null
    json_columns  their texts are JSON: values in JSON Lines
    group_rows    a row group of Parquet ends when it has this many rows, or more
    """

    def __init__(
        self,
        file: Any,
        ending: str,
        schema: pa.Schema,
        *,
        for_ingest: bool = False,
        json_columns: Collection[str] = (),
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self.rows = 0
        self._file, self._schema, self._for_ingest, self._json_columns = file, schema, for_ingest, json_columns
        self._group_rows, self._group, self._group_sizes = group_rows, list[pa.Table](), (0, 0)
        self._dictionaries: dict[str, tuple[list[pa.Array], pa.Array]] = {}
        self._parquet = pq.ParquetWriter(file, schema, compression="zstd") if ending == ".parquet" else None
        self._lines: Callable[[pa.RecordBatch], pa.Array] = self._csv_lines if ending == ".csv" else self._json_lines
        if ending == ".csv":
            file.write((",".join(schema.names) + "\n").encode())

    def write(self, table: pa.Table) -> None:
        """Append the rows of a table, whose columns have the names of the schema, in its order."""
        self.rows += table.num_rows
        if self._parquet is None:
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                self._write_lines(self._lines(batch))
            return
        self._group.append(table.cast(self._schema))
        rows, size = self._group_sizes
        self._group_sizes = rows + table.num_rows, size + self._group[-1].nbytes
        if self._group_sizes[0] >= self._group_rows or self._group_sizes[1] >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is buffered, and the footer."""
        if self._parquet is not None:
            self._flush()
            self._parquet.close()

    def _flush(self) -> None:
        if self._parquet is not None and self._group:
            self._parquet.write_table(pa.concat_tables(self._group), row_group_size=GROUP_ROWS)
        self._group, self._group_sizes = [], (0, 0)

    def _csv_lines(self, batch: pa.RecordBatch) -> pa.Array:
        return joined(*self._parts(batch, self._field, ","), "\n")

    def _json_lines(self, batch: pa.RecordBatch) -> pa.Array:
        if not self._for_ingest:
            return joined("{", *self._parts(batch, self._member, ", "), "}\n")
        members = [self._member(name, column) for name, column in zip(self._schema.names, batch.columns)]
        present = pc.binary_join_element_wise(*members, pa.scalar(", ", pa.large_string()), null_handling="skip")
        return joined("{", present, "}\n")

    def _parts(
        self, batch: pa.RecordBatch, convert: Callable[[str, pa.Array], pa.Array], separator: str
    ) -> list[pa.Array | str]:
        """Return the text of each column, with separators between them.

        Neighbouring columns that are dictionary-encoded by the same indices are converted and joined before their rows
        are repeated.
        """
        parts: list[pa.Array | str] = []
        last = self._schema.names[-1]
        for run in _runs(self._schema.names, batch.columns):
            (name, column), end = run[-1], [] if run[-1][0] == last else [separator]
            if not pa.types.is_dictionary(column.type):
                parts += [convert(name, column), *end]
                continue
            dictionaries, texts = self._dictionaries.get(name, ([], None))
            columns = [one.dictionary for _, one in run]
            if len(columns) != len(dictionaries) or not all(map(_is_same, dictionaries, columns)):
                converted = [convert(of, values) for (of, _), values in zip(run, columns)]
                texts = joined(converted[0], *(part for one in converted[1:] for part in (separator, one)), *end)
                self._dictionaries[name] = columns, texts
            parts.append(texts.take(column.indices))
        return parts

    def _field(self, name: str, column: pa.Array) -> pa.Array:
        texts = _plain(column)
        if _is_text(column):
            texts = csv_fields(texts) if not self._for_ingest else _quoted(texts)
        return texts.fill_null("")

    def _member(self, name: str, column: pa.Array) -> pa.Array:
        if pa.types.is_nested(column.type):
            values = (None if value is None else _encode_json(value) for value in column.to_pylist())
            texts = pa.array(values, pa.large_string())
        else:
            texts = _plain(column)
            if pa.types.is_timestamp(column.type):
                texts = joined('"', texts, '"')
            elif _is_text(column) and name not in self._json_columns:
                texts = json_strings(texts)
        return joined(f'"{name}": ', texts if self._for_ingest else texts.fill_null("null"))

    def _write_lines(self, lines: pa.Array) -> None:
        _, offsets, data = lines.buffers()
        positions = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
        if len(lines):
            self._file.write(memoryview(data)[positions[0] : positions[-1]])


def check_export(out: str) -> None:
    """Raise UsageError for a file to export to whose ending is that of no known format."""
    if Path(out).suffix.lower() not in EXPORT_ENDINGS:
        raise UsageError(f"--out {out}: unknown format", f"end the name with {', '.join(EXPORT_ENDINGS)}")


def export_tables(
    tables: Iterable[pa.Table], out: str, schema: pa.Schema, *, json_columns: Collection[str] = ()
) -> int:
    """Write tables to a file, all or nothing; return the number of rows.

    The ending of the name gives the format. One table is in memory at a time, and of Parquet a row group. `schema` and
    `json_columns` as TableWriter takes them. Raises UsageError for a file name or folder that cannot be used.
    """
    check_export(out)
    path = Path(out)
    if path.is_dir():
        raise UsageError(f"--out {out}: is a folder", "give the name of a file")
    with replacing(path) as temporary, _create(temporary, out) as file:
        writer = TableWriter(file, path.suffix.lower(), schema, json_columns=json_columns)
        for table in tables:
            writer.write(table)
        writer.close()
    return writer.rows


def _create(path: Path, out: str) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}", "give a folder that exists") from None


@contextmanager
def input_file(path: str | os.PathLike[str], schema: pa.Schema, group_rows: int = GROUP_ROWS) -> Iterator[TableWriter]:
    """Yield a writer of a file for an ingest, which is renamed when the block ends; after an error there is no file.

    CSV and JSON Lines may also end in `.gz` or `.zst`. The same rows give the same bytes. Raises UsageError for another
    ending, and for CSV of nested columns.
    """
    path = Path(path)
    ending, packed = _kind(path)
    if ending == ".csv" and any(pa.types.is_nested(field.type) for field in schema):
        raise UsageError(f"{path.name}: these rows do not fit CSV", "use .jsonl or .parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=False) as temporary, temporary.open("wb") as below, _compressed(below, packed) as file:
        writer = TableWriter(file, ending, schema, for_ingest=True, group_rows=group_rows)
        yield writer
        writer.close()


def _kind(path: Path) -> tuple[str, str]:
    """Return the endings of the format and of the compression ("": none)."""
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    packed = endings.pop() if endings and endings[-1] in (".gz", ".zst") else ""
    if not endings or endings[-1] not in INPUT_ENDINGS or (packed and endings[-1] == ".parquet"):
        known = ", ".join(INPUT_ENDINGS)
        raise UsageError(f"{path.name}: its ending is none of {known}", ".csv and .jsonl: also .gz, .zst")
    return endings[-1], packed


@contextmanager
def _compressed(file: Any, packed: str) -> Iterator[Any]:
    """Yield a file whose content is compressed into another; gzip without name and time, so that bytes repeat."""
    if packed == ".gz":
        with gzip.GzipFile("", "wb", 6, file, 0) as compressed:
            yield compressed
    elif packed == ".zst":
        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as compressed:
            yield compressed
    else:
        yield file


def times(moments: pa.Array) -> pa.Array:
    """Format times as texts: 2026-01-01T00:00:00.000000Z."""
    texts = moments.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).cast(pa.large_string())
    return joined(pc.replace_substring(texts, " ", "T"), "Z")


def csv_fields(texts: pa.Array) -> pa.Array:
    """Each text as a field, with an apostrophe where a formula could begin, quoted where needed; a number is none."""
    inside = pc.replace_substring_regex(texts, _INSIDE, r"\1'\2")
    marked = pc.replace_substring_regex(inside, _AT_START, r"'\1")
    return _quoted(pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, marked))


def _quoted(texts: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(texts, f'[",;|{_BREAKS}]')
    if not pc.any(special).as_py():
        return texts
    return pc.if_else(special, joined('"', pc.replace_substring(texts, '"', '""'), '"'), texts)


def json_strings(texts: pa.Array) -> pa.Array:
    """Each text as a JSON string; texts with characters to escape are converted one by one."""
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]')
    if pc.any(special).as_py():
        spelled = [_encode_json(text)[1:-1] for text in texts.filter(special).to_pylist()]
        texts = pc.replace_with_mask(texts, special, pa.array(spelled, pa.large_string()))
    return joined('"', texts, '"')


def attributes_as_json(column: pa.Array) -> pa.Array:
    """Return attributes (ATTRIBUTES) as JSON objects (large_string); null where a row has none.

    A time is a text.
    """
    kinds, values = column.items.field("type"), column.items.field("value").cast(pa.large_string())
    is_text = pc.is_in(kinds, pa.array(["text", "time"]))
    values = pc.replace_with_mask(values, is_text, json_strings(values.filter(is_text)))
    members = joined(json_strings(column.keys.cast(pa.large_string())), ": ", values)
    rows = pa.LargeListArray.from_arrays(column.offsets.cast(pa.int64()), members)
    objects = joined("{", pc.binary_join(rows, pa.scalar(", ", pa.large_string())), "}")
    return pc.if_else(column.is_valid(), objects, pa.scalar(None, pa.large_string()))


def read_attributes(text: str | None) -> dict[str, Any] | None:
    """Return attributes that `attributes_as_json` wrote; a number that no float64 holds is a text."""
    if text is None:
        return None
    attributes: dict[str, Any] = json.loads(text, parse_float=_float_or_text)
    return attributes


def _float_or_text(number: str) -> float | str:
    value = float(number)
    return value if isfinite(value) else number


def joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate texts row by row."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _plain(column: pa.Array) -> pa.Array:
    return times(column) if pa.types.is_timestamp(column.type) else column.cast(pa.large_string())


def _is_text(column: pa.Array) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two arrays are the same memory; the caller holds the first, so its memory is not used again."""
    addresses = [[buffer and buffer.address for buffer in array.buffers()] for array in (one, other)]
    return addresses[0] == addresses[1] and (one.offset, len(one)) == (other.offset, len(other))


def _runs(names: Sequence[str], columns: Sequence[pa.Array]) -> list[list[tuple[str, pa.Array]]]:
    """Group neighbouring columns whose dictionaries have the same indices; other columns are alone."""
    runs: list[list[tuple[str, pa.Array]]] = []
    for name, column in zip(names, columns):
        before = runs[-1][-1][1] if runs else None
        if (
            before is not None
            and pa.types.is_dictionary(column.type)
            and pa.types.is_dictionary(before.type)
            and _is_same(before.indices, column.indices)
            and len(before.dictionary) == len(column.dictionary)
        ):
            runs[-1].append((name, column))
        else:
            runs.append([(name, column)])
    return runs
