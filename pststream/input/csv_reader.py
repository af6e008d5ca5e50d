"""Read a CSV file in chunks of text columns with exact row numbers; turn rows that cannot be decoded into rejects.

The format is UTF-8 with a header, commas, double quotes and any line ends.

Written by hand, as pyarrow.csv refuses a whole file for one quote that is never closed, for one text that is not UTF-8
and for one record that crosses a block; here each of these records is a reject or a row. A kernel
(kernels/parsing/records.py) finds the fields, so that Python touches faulty rows only.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pststream.base.errors import InputFileError
from pststream.input.attributes import TEXT, KeptColumns, Values, column_of
from pststream.input.input_files import ByteStream, PartStream, check_head
from pststream.input.raw_values import is_utf8_block, reject_invalid_utf8
from pststream.input.row_chunks import (
    BLOCK_BYTES,
    BOM,
    MAX_CHUNK_ROWS,
    MAX_ROW_BYTES,
    ColumnChunk,
    ColumnSources,
    FilePart,
    Reject,
    check_columns,
    column_names,
    to_display_text,
)
from pststream.kernels.parsing.records import gather_fields, scan_records

_MAX_UNCLOSED_QUOTES = 16
_MAX_HEADER_BYTES = 1 << 20
_OTHER_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "pipe"}


def read_csv(
    path: str, sources: ColumnSources, part: FilePart | None = None, kept: KeptColumns | None = None
) -> Iterator[ColumnChunk]:
    """Yield chunks of the wanted columns, all text. Blank lines are not rows; an empty file has no rows.

    part: read only these records after the header.
    kept: the columns that become attributes, if they are not empty; of several with one name the last one
    Raises InputFileError where the file as a whole is not such a CSV file, at once or when the fault is reached.
    """
    with closing(ByteStream(path)) as stream:
        records = _Records(path, stream)
        header = records.header()
        if header is None:
            return
        check_columns(path, sources, header, _delimiter_hint(header))
        if part is None:
            yield from records.chunks(header, column_names(sources), kept)
            return
    with closing(PartStream(path, part.start, part.stop)) as stream:
        yield from _Records(path, stream, part.rows_before).chunks(header, column_names(sources), kept)


def find_header_end(path: str) -> int:
    """Return the byte after the header and its line end. Raises InputFileError."""
    with closing(ByteStream(path)) as stream:
        records = _Records(path, stream)
        records.header()
        return records.position


class _Records:
    """The records of a CSV stream; `data[start:]` is read but not yet returned."""

    def __init__(self, path: str, stream: ByteStream | PartStream, rows_before: int = 0) -> None:
        self._path = path
        self._stream = stream
        self._data = b""
        self._start = 0
        self._read = 0
        self._last = False
        self._row = rows_before
        self._unclosed_quotes = 0

    def header(self) -> list[str] | None:
        """Return the column names without surrounding blanks, or None if the file has no record.

        The stream is at the beginning of the file.
        """
        self._read_more()
        if self._data.startswith(BOM):
            self._start = len(BOM)
        check_head(self._path, self._data[self._start : self._start + 4096], "a CSV file")
        scan = _Scan(1, [], [])
        while not self._scan(scan):
            if not self._last:
                self._read_more()
            elif self._start >= len(self._data):
                return None
            else:
                raise InputFileError(self._path, "the header has a quote that is never closed")
            if len(self._data) > MAX_ROW_BYTES:
                raise InputFileError(self._path, "not a CSV file: its first line does not end")
        if scan.records[0, 1] - scan.records[0, 0] > _MAX_HEADER_BYTES:
            raise InputFileError(self._path, f"its header is longer than {_MAX_HEADER_BYTES} bytes")
        try:
            text = self._data[scan.records[0, 0] : scan.records[0, 1]].decode("utf-8")
        except UnicodeDecodeError:
            raise InputFileError(self._path, "not a CSV file in UTF-8: the header is not", "convert it") from None
        try:
            return [name.strip() for name in next(csv.reader(io.StringIO(text, newline="")))]
        except csv.Error as error:
            raise InputFileError(self._path, f"not a CSV file: its header cannot be read: {error}") from None

    def chunks(self, header: list[str], names: list[str], kept: KeptColumns | None) -> Iterator[ColumnChunk]:
        """Yield the records after the header."""
        scan = _Scan(MAX_CHUNK_ROWS, header, names, kept)
        while True:
            count = self._scan(scan)
            if count:
                yield self._chunk(scan, count)
            elif self._start < len(self._data) and (self._last or self._unread_bytes() > MAX_ROW_BYTES):
                yield self._reject_unclosed_quote(scan)
            elif self._last:
                return
            else:
                self._read_more()

    @property
    def position(self) -> int:
        """Bytes of the stream before the next record."""
        return self._read - self._unread_bytes()

    def _unread_bytes(self) -> int:
        return len(self._data) - self._start

    def _scan(self, scan: "_Scan") -> int:
        count, self._start, scan.unclosed = scan_records(
            np.frombuffer(self._data, np.uint8),
            self._start,
            self._last,
            scan.slots,
            scan.records,
            scan.fields,
            scan.starts,
            scan.ends,
        )
        return int(count)

    def _read_more(self) -> None:
        # Double the buffer up to the limit of a row, so that a long record is not scanned once for each block.
        unread = self._unread_bytes()
        more = self._stream.read(max(BLOCK_BYTES, min(unread, MAX_ROW_BYTES - unread)))
        self._read += len(more)
        self._last = not more
        self._data = self._data[self._start :] + more
        self._start = 0

    def _chunk(self, scan: "_Scan", count: int) -> ColumnChunk:
        numbers = np.arange(self._row + 1, self._row + count + 1, dtype=np.int64)
        long = np.flatnonzero(scan.records[:count, 1] - scan.records[:count, 0] > MAX_ROW_BYTES)
        if len(long):
            raise self._too_long(int(numbers[long[0]]))
        self._row += count
        whole = scan.fields[:count] == scan.columns
        rejected = []
        for i in np.flatnonzero(~whole):
            raw = to_display_text(self._data[scan.records[i, 0] : scan.records[i, 1]])
            detail = f"the row has {scan.fields[i]} fields, the header {scan.columns}"
            rejected.append(Reject(int(numbers[i]), "", "wrong_field_count", raw, detail))
        data = np.frombuffer(self._data, np.uint8)
        content = memoryview(self._data)[scan.records[0, 0] : self._start]
        is_utf8 = is_utf8_block(content)
        starts, ends = scan.starts[:count][whole], scan.ends[:count][whole]
        names = scan.names if is_utf8 else scan.all_names
        arrays = [_column(data, starts[:, k], ends[:, k]) for k in range(len(names))]
        chunk = ColumnChunk(self._path, numbers[whole], pa.RecordBatch.from_arrays(arrays, names=names), rejected)
        if not is_utf8:
            chunk = reject_invalid_utf8(chunk)
            left = np.isin(numbers[whole], chunk.rows)
            starts, ends = starts[left], ends[left]
            chunk = replace(chunk, table=chunk.table.select(scan.names))
        if scan.kept is None or not scan.others:
            return chunk
        return replace(chunk, attributes=_attributes(data, starts, ends, scan.others, scan.kept))

    def _reject_unclosed_quote(self, scan: "_Scan") -> ColumnChunk:
        """Reject the line at `start`: its quote is never closed, so the next line begins a new record."""
        self._row += 1
        self._unclosed_quotes += 1
        if not scan.unclosed:
            raise self._too_long(self._row)
        if self._unclosed_quotes > _MAX_UNCLOSED_QUOTES:
            reason = f"row {self._row}: a quote opens and is never closed, as in {_MAX_UNCLOSED_QUOTES} rows before it"
            raise InputFileError(self._path, reason, 'a quote inside a quoted field is written twice: ""')
        ends = (self._data.find(end, self._start) for end in (b"\n", b"\r"))
        end = min((at for at in ends if at >= 0), default=len(self._data))
        reject = Reject(self._row, "", "unclosed_quote", to_display_text(self._data[self._start : end]))
        after = end + (2 if self._data[end : end + 2] == b"\r\n" else 1)
        self._start = min(after, len(self._data))
        empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())] * len(scan.names), names=scan.names)
        return ColumnChunk(self._path, np.zeros(0, np.int64), empty, [reject])

    def _too_long(self, row: int) -> InputFileError:
        return InputFileError(self._path, f"row {row} is longer than {MAX_ROW_BYTES} bytes", "is it a CSV file?")


class _Scan:
    """Arrays that `scan_records` fills; reused for each chunk.

    names       the columns of fields; `all_names` has those that become attributes, too
    others      the latter, with their index in `all_names`
    """

    def __init__(self, most: int, header: list[str], names: list[str], kept: KeptColumns | None = None) -> None:
        self.columns = len(header)
        self.names, self.kept = names, kept
        others = [name for name in dict.fromkeys(header) if kept is not None and kept.name_of(name)]
        self.all_names = list(dict.fromkeys([*names, *others]))
        slots = {name: slot for slot, name in enumerate(self.all_names)}
        self.others = {name: slots[name] for name in others}
        most = min(most, max(1, BLOCK_BYTES // max(1, len(slots))))  # a record has a comma for each
        self.slots = np.array([slots.get(name, -1) for name in header], dtype=np.int64)
        self.records = np.zeros((most, 2), np.int64)
        self.fields = np.zeros(most, np.int64)
        self.starts = np.zeros((most, len(slots)), np.int64)
        self.ends = np.zeros((most, len(slots)), np.int64)
        self.unclosed = False


def _attributes(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray, columns: Mapping[str, int], kept: KeptColumns
) -> pa.Array:
    """Return the attributes of records, whose fields have these borders (int64[n,w]), of columns with these indices."""
    indices = list(columns.values())
    starts, ends = starts[:, indices], ends[:, indices]
    size = ends - starts
    present = size > 0
    quoted = size == 2
    present[quoted] = data[starts[quoted]] != ord('"')
    chosen = np.nonzero(present)[1]
    texts = _column(data, starts[present], ends[present])
    types = np.full(len(chosen), TEXT, np.int8)
    return column_of(Values(present.sum(axis=1), list(columns), chosen, types, texts), kept)


def _column(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
    offsets, values = gather_fields(data, np.ascontiguousarray(starts), np.ascontiguousarray(ends))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.string(), len(starts), buffers)


def _delimiter_hint(header: list[str]) -> str:
    for delimiter, name in _OTHER_DELIMITERS.items():
        if len(header) == 1 and delimiter in header[0]:
            return f"the file looks {name}-separated; PSTStream reads comma-separated CSV: convert it"
    return ""
