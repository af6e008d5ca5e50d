"""Decode a Parquet file in batches of rows that do not fill the memory, however long its repeated texts are.

Rows of similar size are no problem: the footer says how large they are. But a text of a dictionary, or one that repeats
the text before it, may be megabytes long in each of many rows or list items. So the longest such text of each column is
found first. A batch has fewer rows if these are long, and lists of them are decoded in the parts that fit.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pststream.base.errors import InputFileError
from pststream.input.input_files import EXPANDS_TOO_MUCH
from pststream.input.parquet_pages import TooManyBytes, find_longest_text

_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 4}
"""Least bytes of a value in memory; of BYTE_ARRAY, of its offset or its place in a dictionary."""

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


def least_bytes(file: pq.ParquetFile, names: Collection[str]) -> int:
    """Return the bytes that a column below these columns decodes to at least, by its number of values: the greatest."""
    sizes = [0]
    for place in _places(file, names):
        leaf = file.schema.column(place)
        width = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(leaf.physical_type, 0)
        width = max(width, _LEVELS) if leaf.max_repetition_level else width
        columns = (file.metadata.row_group(group).column(place) for group in range(file.metadata.num_row_groups))
        sizes.append(width * sum(column.num_values for column in columns))
    return max(sizes)


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
    most: bytes that the repeated texts of a batch of several rows may have
    allowed: bytes that the row groups may decode to; raises InputFileError before a batch with more is decoded
    """
    try:
        flat, nested = _bound_texts(source, file, groups, names, most, most // min(rows, _FEW_ROWS), allowed)
    except TooManyBytes:
        raise expands_too_much(path) from None
    rows = max(1, min(rows, most // max(flat, 1)))
    if not nested:
        yield from file.iter_batches(rows, list(groups), names)
        return
    schema = file.schema_arrow
    with _open_by_dictionary(source, file, nested) as by_dictionary:
        # Arrow cannot put lists with several dictionaries into one batch, so a batch has rows of one row group.
        for batch in chain.from_iterable(by_dictionary.iter_batches(rows, [group], names) for group in groups):
            if _text_bytes_of(batch) > allowed:
                raise expands_too_much(path)
            for part in _split(batch, most):
                columns = [part.column(name).cast(schema.field(name).type) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=names)


def _bound_texts(
    source: Any, file: pq.ParquetFile, groups: Sequence[int], names: list[str], most: int, short: int, allowed: int
) -> tuple[int, list[int]]:
    """Return a bound on the repeated texts of a row, and the places of lists that are to be read by dictionaries.

    most: bytes that the texts of a list may have in a row group without that
    short, allowed: as in `find_longest_text`
    """
    leaves = [file.schema.column(place) for place in _places(file, names)]
    fixed = sum(leaf.length for leaf in leaves if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY")
    total, nested = [fixed] * len(groups), []
    castable = not any("_view" in str(kind) for kind in file.schema_arrow.types)
    places = [place for place in _places(file, names) if file.schema.column(place).physical_type == "BYTE_ARRAY"]
    with ExitStack() as stack:
        content = stack.enter_context(open(source, "rb")) if isinstance(source, str) else source
        by_dictionary = stack.enter_context(_open_by_dictionary(source, file, places, buffer_size=1 << 16))
        for place in places:
            path, is_list = file.schema.column(place).path, file.schema.column(place).max_repetition_level > 0
            columns = [file.metadata.row_group(group).column(place) for group in groups]
            texts = [
                find_longest_text(
                    content, column, partial(_read_dictionary, by_dictionary, group, path), short, allowed
                )
                for column, group in zip(columns, groups)
            ]
            if not (is_list and castable and all(text.by_dictionary for text in texts)):
                total = [before + text.bytes for before, text in zip(total, texts)]
            elif any(column.num_values * text.bytes > most for column, text in zip(columns, texts)):
                nested.append(place)
    return max(total, default=0), nested


def _open_by_dictionary(source: Any, file: pq.ParquetFile, places: list[int], **options: Any) -> pq.ParquetFile:
    """Open a file once more; texts of these columns are read as places in dictionaries."""
    paths = [file.schema.column(place).path for place in places]
    return pq.ParquetFile(source, metadata=file.metadata, read_dictionary=paths, **options)


def _split(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the batch by halves whose texts in dictionaries have at most `most` bytes, or that are one row."""
    if batch.num_rows <= 1 or _text_bytes_of(batch) <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split(batch.slice(0, half), most)
    yield from _split(batch.slice(half), most)


def _text_bytes_of(batch: pa.RecordBatch) -> int:
    return sum(map(_text_bytes, batch.columns))


def _text_bytes(column: pa.Array) -> int:
    """Return the bytes that the texts of dictionaries in a column have when they are decoded."""
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
    except (
        pa.ArrowException,
        OSError,
    ):  # it says so again when the rows are read, unless only dictionaries are at fault
        return None
    column: Any = batch and batch.column(0)
    while isinstance(column, pa.StructArray | _LISTS):
        column = column.field(0) if isinstance(column, pa.StructArray) else column.values
    return column.dictionary if isinstance(column, pa.DictionaryArray) else None


def _places(file: pq.ParquetFile, names: Collection[str]) -> list[int]:
    """Return the places of the columns without children below these columns."""
    wanted, schema = set(names), file.schema
    return [place for place in range(len(schema)) if not wanted.isdisjoint(_prefixes(schema.column(place).path))]


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path and the paths of the columns above it: `a.b` and `a` for a column `b` of the struct `a`."""
    return accumulate(path.split("."), "{}.{}".format)
