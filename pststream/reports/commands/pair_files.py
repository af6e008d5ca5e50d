"""Write blocks of matched pairs to a CSV, JSON Lines or Parquet file, whole columns at a time, for `export`.

Users write the ids and the payloads, and spreadsheets open CSV: a text that begins with `=` runs as a formula. Quotes
do not prevent that. So CSV has an apostrophe wherever a spreadsheet could begin a cell with a formula: at the start of
a text, and after each character in it that separates cells or rows in some locale, as a spreadsheet that splits lines
at `;` takes no notice of a quote in the middle of a cell. An apostrophe that stands there already gets one more, so
that whoever removes one at each such place gets the text back (docs/delivery.md). Other formats have texts unchanged.
Numbers stay as they are. A text with a separator is quoted, so that no cell joins a number and a part of the next text
to a formula: with the quote, which ends behind the separator, it is none.

Times are ISO 8601 in UTC, always with six digits of a second: 2026-01-01T00:00:00.000000Z (Parquet: a timestamp).
A payload is JSON: a text in CSV and Parquet, a value in JSON Lines; null if the subscription had no other fields.
"""

import json
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.domain.arrow_columns import TIME
from pststream.reports.reading.pair_tables import PAIR_SCHEMA, pair_table
from pststream.reports.reading.pairs import InsertedSubscriptions, Pairs

COLUMNS = ("object_id", "subscription_id", "ts", "batch_id", "plan_version", "payload")
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?$"
_BREAKS = r"\t-\r\x{85}\x{2028}\x{2029}"
_SKIPPED = (
    r'["\x00-\x08\x0e-\x20\x7f-\x{84}\x{86}-\x{a0}\x{ad}\x{1680}\x{180e}\x{2000}-\x{200f}'
    r"\x{202a}-\x{202f}\x{205f}-\x{206f}\x{3000}\x{feff}]"
)
"""Quotes, blanks and invisible characters: what a spreadsheet may skip at the start of a cell."""

_FORMULA = f"'*{_SKIPPED}*[=+\\-@＝＋－＠﹦﹢﹣﹫⁼₌⁺₊﬩−⁻₋]"
_AT_START, _INSIDE = f"^('*[{_BREAKS}]|{_FORMULA})", f"([;|{_BREAKS}])({_FORMULA})"
_ROW_GROUP = 1_000_000
_ROW_GROUP_BYTES = 128 * 1024 * 1024


class PairFile(Protocol):
    """Writes pairs to a file."""

    def write(self, pairs: Pairs) -> None:
        """Append pairs."""

    def close(self) -> None:
        """Finish the file; the underlying stream stays open."""


class CsvFile:
    """CSV as in RFC 4180, with a header; fields are quoted where needed, lines end with a line feed.

    No cell is a formula: see above.
    """

    def __init__(self, file: BinaryIO, inserted: InsertedSubscriptions) -> None:
        self._file = file
        self._ids = csv_fields(inserted.ids)
        self._payloads = csv_fields(inserted.payloads.fill_null(""))
        file.write((",".join(COLUMNS) + "\n").encode())

    def write(self, pairs: Pairs) -> None:
        """Append pairs."""
        rows = pairs.rows
        heads = joined(csv_fields(_large(rows.column("object_id"))), ",")
        tails = joined(
            ",", times(rows.column("ts")), ",", _text(rows, "batch_id"), ",", _text(rows, "plan_version"), ","
        )
        _write_lines(self._file, pairs, heads, self._ids, tails, self._payloads, "\n")

    def close(self) -> None:
        """Nothing to finish."""


class JsonLinesFile:
    """JSON Lines: one object per line, in UTF-8."""

    def __init__(self, file: BinaryIO, inserted: InsertedSubscriptions) -> None:
        self._file = file
        self._ids = json_strings(inserted.ids)
        self._payloads = inserted.payloads.fill_null("null")

    def write(self, pairs: Pairs) -> None:
        """Append pairs."""
        rows = pairs.rows
        heads = joined('{"object_id": ', json_strings(_large(rows.column("object_id"))), ', "subscription_id": ')
        tails = joined(
            ', "ts": "', times(rows.column("ts")), '", "batch_id": ', _text(rows, "batch_id"),
            ', "plan_version": ', _text(rows, "plan_version"), ', "payload": ',
        )  # fmt: skip
        _write_lines(self._file, pairs, heads, self._ids, tails, self._payloads, "}\n")

    def close(self) -> None:
        """Nothing to finish."""


class ParquetFile:
    """Parquet with zstd; row groups of about a million pairs."""

    def __init__(self, file: BinaryIO, inserted: InsertedSubscriptions) -> None:
        self._writer = pq.ParquetWriter(file, PAIR_SCHEMA, compression="zstd")
        self._inserted = inserted
        self._buffered: list[pa.Table] = []

    def write(self, pairs: Pairs) -> None:
        """Append pairs."""
        self._buffered.append(pair_table(pairs, self._inserted))
        buffered_bytes = sum(table.nbytes for table in self._buffered)
        if sum(table.num_rows for table in self._buffered) >= _ROW_GROUP or buffered_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the buffered pairs and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._buffered:
            self._writer.write_table(pa.concat_tables(self._buffered), row_group_size=_ROW_GROUP)
        self._buffered = []


def times(moments: pa.Array) -> pa.Array:
    """Format times as texts: 2026-01-01T00:00:00.000000Z."""
    texts = moments.cast(TIME).cast(pa.timestamp("us")).cast(pa.large_string())
    return joined(pc.replace_substring(texts, " ", "T"), "Z")


def _write_lines(
    file: BinaryIO, pairs: Pairs, heads: pa.Array, ids: pa.Array, tails: pa.Array, payloads: pa.Array, end: str
) -> None:
    row, place = pa.array(pairs.row), pa.array(pairs.subscription)
    lines = joined(heads.take(row), ids.take(place), tails.take(row), payloads.take(place), end)
    _, offsets, data = lines.buffers()
    places = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    if len(lines):
        file.write(memoryview(data)[places[0] : places[-1]])


def csv_fields(texts: pa.Array) -> pa.Array:
    """Each text as a field, quoted where needed."""
    texts = _without_formulas(texts)
    quoted = joined('"', pc.replace_substring(texts, '"', '""'), '"')
    return pc.if_else(pc.match_substring_regex(texts, f'[",;|{_BREAKS}]'), quoted, texts)


def _without_formulas(texts: pa.Array) -> pa.Array:
    """Return each text with an apostrophe where a formula could begin; a number is none."""
    inside = pc.replace_substring_regex(texts, _INSIDE, r"\1'\2")
    marked = pc.replace_substring_regex(inside, _AT_START, r"'\1")
    return pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, marked)


def json_strings(texts: pa.Array) -> pa.Array:
    """Each text as a JSON string; texts with characters to escape are converted one by one."""
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]')
    if pc.any(special).as_py():
        spelled = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(special).to_pylist()]
        texts = pc.replace_with_mask(texts, special, pa.array(spelled, pa.large_string()))
    return joined('"', texts, '"')


def joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate texts row by row."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _text(rows: pa.RecordBatch, name: str) -> pa.Array:
    return rows.column(name).cast(pa.large_string())


def _large(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.large_string())
