"""Split large input files at record boundaries into parts that tasks read on their own, with exact row numbers.

Only plain CSV and JSON Lines files and row groups of Parquet are split. CSV and JSON Lines are cut after line feeds at
about equal distances; tasks count the records between the cuts; then the row number of each part is known. A line feed
may be in quotes of CSV, where no record ends: that is known once the ranges before it are counted, and such a range is
counted again from inside the quotes. A file that the parts could judge differently than a reader of the whole file, or
that cannot be read, is not split: its one reader decides.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pststream.base.errors import PstError
from pststream.input.csv_reader import find_header_end
from pststream.input.input_files import PartStream, format_of, is_compressed
from pststream.input.row_chunks import BLOCK_BYTES, BOM, MAX_ROW_BYTES, FilePart
from pststream.kernels.parsing.records import QUOTED, RECORD, count_lines, count_records

MOST_PARTS = 8
"""Parts and files of an ingest, as long as parts are within the next two limits; see `engine.auto_engine`."""

MIN_PART_BYTES = 16 << 20
MAX_PART_BYTES = 64 << 20
CUT_BYTES = 1 << 20
"""A line feed is looked for in so many bytes after a cut."""


@dataclass(frozen=True)
class FileRange:
    """The bytes of a CSV or JSON Lines file between two cuts; `format` csv or jsonl."""

    path: str
    format: str
    start: int
    stop: int


@dataclass(frozen=True)
class CountedRange:
    """What begins in a range: rows (CSV) or lines (JSON Lines), and where.

    rows     number of records or line feeds
    first    byte of the file where the first record begins, -1 if none does
    quoted   whether the range ends in quotes
    longest  size in bytes of the longest record or line
    """

    range: FileRange
    rows: int
    first: int
    quoted: bool
    longest: int


def choose_part_bytes(sizes: Sequence[int]) -> int:
    """Return the size of a part for an ingest of files of these sizes in bytes."""
    part_bytes = MIN_PART_BYTES if len(sizes) <= MOST_PARTS else MAX_PART_BYTES
    while part_bytes < MAX_PART_BYTES and sum(max(round(size / part_bytes), 1) for size in sizes) > MOST_PARTS:
        part_bytes += MIN_PART_BYTES // 4
    return part_bytes


def cut_into_ranges(path: str, format: str | None, part_bytes: int) -> list[FileRange]:
    """Return the ranges of a large plain file of CSV or JSON Lines; none if it is not to be split."""
    try:
        file_format, size = format_of(path, format), os.path.getsize(path)
        if file_format == "parquet" or is_compressed(path) or size < 2 * part_bytes:
            return []
        bom_size = len(BOM) if _read_range(path, 0, len(BOM)) == BOM else 0
        cuts = [find_header_end(path) if file_format == "csv" else bom_size]
        ends = (b"\n", b"\r") if file_format == "csv" else (b"\n",)
        for at in range(cuts[0] + part_bytes, size - part_bytes // 2, part_bytes):
            cut = _find_cut(path, max(at, cuts[-1]), size, ends)
            if cut is not None and cuts[-1] < cut < size:
                cuts.append(cut)
    except (PstError, OSError):
        return []
    return [FileRange(path, file_format, start, stop) for start, stop in zip(cuts, [*cuts[1:], size])]


def _find_cut(path: str, at: int, size: int, ends: Sequence[bytes]) -> int | None:
    """Return the position after the next of the line ends, of the first kind that is nearby; None if none is."""
    near = _read_range(path, at, min(at + CUT_BYTES, size))
    positions = [near.find(end) for end in ends if end in near]
    return at + positions[0] + 1 if positions else None


def _read_range(path: str, start: int, stop: int) -> bytes:
    with closing(PartStream(path, start, stop)) as stream:
        return stream.read(stop - start)


def count_range(one: FileRange, state: int = RECORD) -> CountedRange:
    """Count what begins in a range; by default no quotes are open where it starts."""
    rows, size, longest, first, position = 0, 0, 0, -1, one.start
    with closing(PartStream(one.path, one.start, one.stop)) as stream:
        while block := stream.read(BLOCK_BYTES):
            data = np.frombuffer(block, np.uint8)
            if one.format == "csv":
                more, state, size, greatest, at = count_records(data, state, size)
                first = position + at if first < 0 <= at else first
            else:
                more, size, greatest = count_lines(data, size)
                first = one.start
            rows, longest, position = rows + more, max(longest, greatest), position + len(block)
    return CountedRange(one, int(rows), first, bool(state == QUOTED), int(longest))


def make_parts(counted: Sequence[CountedRange]) -> list[FilePart]:
    """Return the parts of a file from all of its ranges, in order; none if one reader must read the file.

    That is so if a record is very long, begins in no range, or has quotes that are still open at the end of the file.
    """
    parts: list[FilePart] = []
    quoted, rows = False, 0
    for one in counted:
        if quoted:
            one = count_range(one.range, QUOTED)
        if one.first < 0 or one.longest > MAX_ROW_BYTES // 3:  # a record is in two ranges at most
            return []
        parts.append(FilePart(one.first, one.range.stop, rows))
        quoted, rows = one.quoted, rows + one.rows
    if quoted or not parts:
        return []
    # A record ends where the next part begins.
    stops = [part.start for part in parts[1:]] + [counted[-1].range.stop]
    return [FilePart(part.start, stop, part.rows_before) for part, stop in zip(parts, stops)]


def split_row_groups(path: str, format: str | None, part_bytes: int) -> list[FilePart]:
    """Return parts of whole row groups of a large Parquet file; none if it is not to be split."""
    try:
        small = os.path.getsize(path) < part_bytes // 2
        if small or format_of(path, format) != "parquet" or is_compressed(path):
            return []
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        sizes, counts = [group.total_byte_size for group in groups], [group.num_rows for group in groups]
    except (PstError, OSError, pa.ArrowException, UnicodeDecodeError):
        return []
    parts, start, rows, waiting = [], 0, 0, 0
    for index, size in enumerate(sizes):
        waiting += size
        if waiting >= part_bytes or index == len(sizes) - 1:
            parts.append(FilePart(start, index + 1, rows))
            rows += sum(counts[start : index + 1])
            start, waiting = index + 1, 0
    return parts if len(parts) > 1 else []
