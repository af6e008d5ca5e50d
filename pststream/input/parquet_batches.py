"""Decode a Parquet file in batches of rows that do not fill the memory, however long its repeated texts are.

The headers of all pages are read first, by the rules of Arrow's reader: the footer may state other encodings and sizes.
A batch has as many rows as the pages that it needs, and the rows of similar size, let fit into the memory.

A page of a dictionary, or of prefixes of the value before (DELTA_BYTE_ARRAY), stores a long text once and refers to it
with a few bits for each row: such a text may be megabytes long in each of many rows or list items. All other pages
store what they decode to. So the longest such text of each column is found, too. A batch has fewer rows if these are
long, and lists of them are decoded in the parts that fit.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, chain
from operator import attrgetter
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.base.errors import InputFileError
from pststream.input.input_files import EXPANDS_TOO_MUCH

# Page headers, and the longest text of a column

_FIRST_READ, _MOST_READ = 256, 1 << 24
"""Bytes of a header that are read at first and at most."""

_MOST_PAGES, _MOST_FIELDS, _MOST_LEVELS = 10_000, 32, 4
_LEAST_VALUES = 10
"""A column chunk has at most _MOST_PAGES pages, or one for so many values if that is more."""

_NOT_KNOWN = 1 << 62
"""Bound on the bytes of a text in a column chunk with a header that cannot be read: no two rows fit into memory."""

_DICTIONARY, _DATA, _DATA_V2 = 2, 0, 3
"""Types of pages."""

_DELTA_BYTE_ARRAY = 7
_READ_BY_DICTIONARY = {-1, 0, 2, 8}
"""Encodings of pages that Arrow reads as indices of a dictionary: none, PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY."""

_PADDING = 100
"""Bytes after the end that the footer states, which Arrow reads in files of old writers."""


class UnreadableHeader(Exception):
    """A page header that is damaged, or that this module does not read."""


class TooManyBytes(Exception):
    """The pages of a column chunk have more bytes than they may."""


class LongestText(NamedTuple):
    """A bound on the bytes of a text that a few bits of a column chunk stand for; 0 if there is none.

    by_dictionary: no text repeats the one before it, so Arrow can read the texts as indices of a dictionary
    """

    bytes: int
    by_dictionary: bool


class Page(NamedTuple):
    """Header of a page: its type, encoding, number of values, and bytes when it is decompressed."""

    kind: int
    encoding: int
    values: int
    bytes: int


def find_longest_text(
    file: IO[bytes],
    column: pq.ColumnChunkMetaData,
    read_dictionary: Callable[[], pa.Array | None],
    short: int,
    allowed: int = _NOT_KNOWN,
    sizes: "array[int] | None" = None,
) -> LongestText:
    """Find how long the texts of a column chunk may be that a few bits stand for.

    read_dictionary: returns the dictionary of the chunk, as far as the reader has it after the first row
    short: a dictionary of at most this many bytes is not read, but its size is returned
    allowed: bytes that the pages may have, decompressed; raises TooManyBytes for more
    sizes: gets the number of values and the bytes of each page; a dictionary has no values
    """
    dictionary, others, total = Page(_DICTIONARY, 0, 0, 0), set[int](), 0
    try:
        for page in read_pages(file, column):
            total += page.bytes
            if total > allowed:
                raise TooManyBytes
            if sizes is not None:
                sizes.extend((0 if page.kind == _DICTIONARY else page.values, page.bytes))
            if page.kind == _DICTIONARY:
                dictionary = max(dictionary, page, key=attrgetter("bytes"))
            else:
                others.add(page.encoding)
    except UnreadableHeader:
        return LongestText(_NOT_KNOWN, by_dictionary=False)
    if _DELTA_BYTE_ARRAY in others:
        return LongestText(max(total, column.total_uncompressed_size), by_dictionary=False)
    longest = dictionary.bytes
    if longest > short:
        values = read_dictionary()
        if values is not None and len(values) == dictionary.values:
            longest = int(pc.max(pc.binary_length(values)).as_py() or 0)
    return LongestText(longest, by_dictionary=others <= _READ_BY_DICTIONARY)


def read_pages(file: IO[bytes], column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield the pages of a column chunk. Raises UnreadableHeader, also for too many pages."""
    at = column.data_page_offset
    if column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    stop, left = at + column.total_compressed_size + _PADDING, column.num_values
    if at < 0:
        raise UnreadableHeader("a column begins before the file")
    most = max(_MOST_PAGES, column.num_values // _LEAST_VALUES)
    for _ in range(most):
        if left <= 0 or at >= stop:
            return
        header, size = _read_header(file, at)
        page = _page_of(header)
        yield page
        at += size + header[3]
        left -= page.values if page.kind in (_DATA, _DATA_V2) else 0
    raise UnreadableHeader(f"it has more than {most} pages")


def _page_of(header: dict[int, Any]) -> Page:
    """Return the page of the fields of a PageHeader."""
    kind, field_ids = header.get(1), {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
    sizes = header.get(2, -1), header.get(3, -1)
    if not all(map(_is_count, sizes)):
        raise UnreadableHeader("a page has no size")
    if kind not in field_ids:
        return Page(-1, -1, 0, 0)
    field_id, encoding = field_ids[kind]
    fields = header.get(field_id)
    if not isinstance(fields, dict) or not _is_count(fields.get(1)):
        raise UnreadableHeader("a page has no number of values")
    return Page(kind, fields.get(encoding, -1), fields[1], sizes[0])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 31


def _read_header(file: IO[bytes], at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of the header at a position in a file, and its length."""
    size = _FIRST_READ
    while True:
        file.seek(at)
        content = file.read(size)
        try:
            return _read_struct(content, 0, 0)
        except IndexError:
            if len(content) < size or size >= _MOST_READ:
                raise UnreadableHeader("a header has no end") from None
            size *= 16


def _read_struct(content: bytes, at: int, level: int) -> tuple[dict[int, Any], int]:
    """Read a struct of Thrift's compact protocol; return its fields by number, and where it ends.

    Only structs and integers of 32 bits, the types of the fields that are needed, have a value; others are None. What
    another reader may understand differently is an UnreadableHeader: a field that is there twice, a number that does
    not fit its type. Raises IndexError where the content is too short.
    """
    fields: dict[int, Any] = {}
    number = 0
    for _ in range(_MOST_FIELDS):
        head = content[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _read_integer(content, at, 16)
        if number in fields:
            raise UnreadableHeader("a header has a field twice")
        fields[number] = None
        if kind in (1, 2):
            pass
        elif kind == 3:
            at += 1
        elif kind == 5:
            fields[number], at = _read_integer(content, at, 32)
        elif kind in (4, 6):
            _, at = _read_varint(content, at)
        elif kind == 8:
            size, at = _read_varint(content, at)
            at += size
        elif kind == 12 and level < _MOST_LEVELS:
            fields[number], at = _read_struct(content, at, level + 1)
        else:
            raise UnreadableHeader(f"a header has a field of type {kind}")
    raise UnreadableHeader("a header has too many fields")


def _read_integer(content: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the zigzag integer of so many bits at a position, and where it ends."""
    value, at = _read_varint(content, at)
    if value >> bits:
        raise UnreadableHeader(f"a header has an integer of more than {bits} bits")
    return (value >> 1) ^ -(value & 1), at


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise UnreadableHeader("a header has an integer of more than 64 bits")


_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 4}
"""Least bytes of a value in memory; of BYTE_ARRAY, of its offset or its index in a dictionary."""

_LEVELS = 4
"""Bytes of the levels of a value in a list, which Arrow keeps until the list ends."""

_FEW_ROWS = 4096
"""Rows of a batch that are read almost as fast as more: then no dictionary is read to find its longest text."""

_LISTS = pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray


def expands_too_much(path: str, how: str = "") -> InputFileError:
    """Return the error of a file that decodes to more than a compressed file may."""
    return InputFileError(
        path, f"decodes to {EXPANDS_TOO_MUCH}{how}", "if the file is valid, write it as several files"
    )


def _width_of(leaf: pq.ColumnSchema) -> int:
    """Return the least bytes of a value of a column without children in memory."""
    width = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(leaf.physical_type, 0)
    return int(max(width, _LEVELS) if leaf.max_repetition_level else width)


def read_batches(
    path: str,
    source: Any,
    file: pq.ParquetFile,
    groups: Sequence[int],
    names: list[str],
    rows: int,
    most: int,
    allowed: int,
) -> Iterator[pa.RecordBatch]:
    """Yield columns of row groups in batches of at most `rows` rows.

    source: the path, or the open file, that `file` reads
    most: bytes that a batch of several rows may have
    allowed: bytes that the row groups may decode to; raises InputFileError before a batch with more is decoded
    """
    try:
        rows, nested = _choose_rows(source, file, groups, names, rows, most, allowed)
    except TooManyBytes:
        raise expands_too_much(path) from None
    if not nested:
        yield from file.iter_batches(rows, list(groups), names)
        return
    schema = file.schema_arrow
    with _open_by_dictionary(source, file, nested) as by_dictionary:
        # Arrow cannot put lists with several dictionaries into one batch, so a batch has rows of one row group.
        for batch in chain.from_iterable(by_dictionary.iter_batches(rows, [group], names) for group in groups):
            if _text_bytes(batch) > allowed:
                raise expands_too_much(path)
            for part in _split(batch, most):
                if part.num_rows < batch.num_rows:  # without it, the texts of all rows are decoded for each part
                    part = part.take(np.arange(part.num_rows))
                columns = [part.column(name).cast(schema.field(name).type) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=names)


def _choose_rows(
    source: Any, file: pq.ParquetFile, groups: Sequence[int], names: list[str], rows: int, most: int, allowed: int
) -> tuple[int, list[int]]:
    """Return the rows of a batch, and the indices of lists of texts that are to be read by dictionaries.

    Arguments as of `read_batches`; raises TooManyBytes.
    """
    counts = [file.metadata.row_group(group).num_rows for group in groups]
    begins, of_row = np.cumsum([0, *counts]), np.zeros(len(groups))
    short, spans, nested, left = most // min(rows, _FEW_ROWS), [np.zeros((0, 3), np.int64)], [], allowed
    castable = not any("_view" in str(kind) for kind in file.schema_arrow.types)
    indices = _leaf_indices(file, names)
    texts = [index for index in indices if file.schema.column(index).physical_type == "BYTE_ARRAY"]
    with ExitStack() as stack:
        content = stack.enter_context(open(source, "rb")) if isinstance(source, str) else source
        by_dictionary = stack.enter_context(_open_by_dictionary(source, file, texts, buffer_size=1 << 16))
        for index in indices:
            leaf, bounds = file.schema.column(index), []
            is_list, width = leaf.max_repetition_level > 0, _width_of(leaf)
            columns = [file.metadata.row_group(group).column(index) for group in groups]
            if width * sum(column.num_values for column in columns) > allowed:
                raise TooManyBytes
            for ordinal, (group, column, count) in enumerate(zip(groups, columns, counts)):
                sizes = array("q")
                read_dictionary = partial(_read_dictionary, by_dictionary, group, leaf.path)
                is_short = short if index in texts else _NOT_KNOWN
                bounds.append(find_longest_text(content, column, read_dictionary, is_short, left, sizes))
                pages = _rows_of_pages(sizes, count, column.num_values if is_list else count)
                left -= int(pages[:, 2].sum())
                of_row[ordinal] += (pages[:, 2].sum() + width * column.num_values) / max(count, 1)
                spans.append(pages + [begins[ordinal], begins[ordinal], 0])
            longest = [text.bytes if index in texts or text.bytes == _NOT_KNOWN else 0 for text in bounds]
            if not (is_list and castable and all(text.by_dictionary for text in bounds)):
                of_row += longest
            elif any(column.num_values * size > most for column, size in zip(columns, longest)):
                nested.append(index)
    rows = max(1, min(rows, int(most / max(of_row.max(initial=0), 1))))
    return _fit_pages(rows, most, np.concatenate(spans)), nested


def _rows_of_pages(sizes: "array[int]", rows: int, values: int) -> np.ndarray:
    """Return the first row, the row after the last, and the bytes of the pages of a column chunk: int64[pages,3].

    sizes: see `find_longest_text`. A dictionary belongs to all rows; lists are taken to be of similar length.
    """
    numbers, size = np.array(sizes, np.int64).reshape(-1, 2).T
    after = np.cumsum(numbers) * (rows / max(values, 1))
    stops, whole = np.minimum(after, rows).astype(np.int64), numbers == 0
    starts = np.concatenate([[0], stops])[:-1].astype(np.int64)
    return np.column_stack([np.where(whole, 0, starts), np.where(whole, rows, stops), size])


def _fit_pages(rows: int, most: int, pages: np.ndarray) -> int:
    """Return how many rows, at most `rows` and one at least, a batch may have so that the pages that any one needs have
    at most `most` bytes, or twice what a single row needs.
    """
    first, last, size = pages[:, 0], np.maximum(pages[:, 1] - 1, pages[:, 0]), pages[:, 2]
    if size.sum() <= most:
        return rows

    def most_needed(rows: int) -> int:
        # The pages of a batch begin to count at its number and end after it: the greatest sum of those that count.
        numbers, changes = np.concatenate([first // rows, last // rows + 1]), np.concatenate([size, -size])
        return int(np.cumsum(changes[np.lexsort((changes, numbers))]).max())

    allowed = max(most, 2 * most_needed(1))
    while rows > 1 and most_needed(rows) > allowed:
        rows //= 2
    return rows


def _open_by_dictionary(source: Any, file: pq.ParquetFile, indices: list[int], **options: Any) -> pq.ParquetFile:
    """Open a file once more; texts of these columns are read as indices of dictionaries."""
    paths = [file.schema.column(index).path for index in indices]
    return pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=paths, coerce_int96_timestamp_unit="us", **options
    )


def _split(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch by halves whose texts in dictionaries have at most `most` bytes, or that are one row."""
    if batch.num_rows <= 1 or _text_bytes(batch) <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split(batch.slice(0, half), most)
    yield from _split(batch.slice(half), most)


def _text_bytes(column: pa.Array | pa.RecordBatch) -> int:
    """Return the bytes that the texts of dictionaries in a column, or a batch, have when they are decoded."""
    if isinstance(column, pa.RecordBatch):
        return sum(map(_text_bytes, column.columns))
    if isinstance(column, pa.DictionaryArray):
        return int(pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0)
    if isinstance(column, pa.StructArray):
        return sum(map(_text_bytes, column.flatten()))
    if isinstance(column, _LISTS):
        return _text_bytes(column.flatten())
    return 0


def _read_dictionary(by_dictionary: pq.ParquetFile, group: int, path: str) -> pa.Array | None:
    """Return the dictionary that a column without children has when the first row of a row group is read."""
    try:
        batch = next(by_dictionary.iter_batches(1, [group], [path], use_threads=False), None)
    except (pa.ArrowException, OSError):  # raised again when the rows are read, unless only dictionaries are at fault
        return None
    column: Any = batch and batch.column(0)
    while isinstance(column, pa.StructArray | _LISTS):
        column = column.field(0) if isinstance(column, pa.StructArray) else column.values
    return column.dictionary if isinstance(column, pa.DictionaryArray) else None


def _leaf_indices(file: pq.ParquetFile, names: Collection[str]) -> list[int]:
    """Return the indices of the columns without children below these columns."""
    wanted, schema = set(names), file.schema

    def paths_of(index: int) -> Iterator[str]:  # of `a.b`, a column of the struct `a`: `a`, `a.b`
        return accumulate(schema.column(index).path.split("."), "{}.{}".format)

    return [index for index in range(len(schema)) if not wanted.isdisjoint(paths_of(index))]
