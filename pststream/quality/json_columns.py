"""Read the wanted fields of JSON Lines as columns of texts; lines in a rare form or that are invalid are left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.kernels.parsing.json_lines import ABSENT, gather_values, scan_lines
from pststream.quality.utf8 import is_utf8_block


@dataclass(frozen=True)
class LineColumns:
    """Some lines of a block.

    numbers   int64[n]    number of line feeds in the block before each line
    lines     int64[n,2]  slice of the block of each line
    plain     bool[n]     whether `columns` has the line
    columns               the fields of the plain lines: string, null where a field is absent
    """

    numbers: np.ndarray
    lines: np.ndarray
    plain: np.ndarray
    columns: list[pa.Array]


def read_columns(block: bytes, limits: Mapping[str, int], most: int) -> Iterator[LineColumns]:
    """Yield the lines of a block that are not blank, at most `most` at a time.

    limits: of each wanted field; a line is plain only if the number of a field with a decimal point is below its limit
    (0: a number with a decimal point is never plain)
    """
    data, width = np.frombuffer(block, np.uint8), len(limits)
    encoded = [name.encode("utf-8") for name in limits]
    offsets = np.concatenate([[0], np.cumsum([len(name) for name in encoded])]).astype(np.int64)
    names = np.frombuffer(b"".join([*encoded, b" "]), np.uint8)
    utf8, bounds = is_utf8_block(memoryview(block)), np.array(list(limits.values()), np.int64)
    lines, numbers, plain = np.empty((most, 2), np.int64), np.empty(most, np.int64), np.empty(most, np.bool_)
    starts, ends = np.empty((most, width), np.int64), np.empty((most, width), np.int64)
    kinds = np.empty((most, width), np.uint8)
    position, feeds = 0, 0
    while position < len(data):
        count, passed, position = scan_lines(
            data, position, utf8, names, offsets, bounds, lines, numbers, plain, starts, ends, kinds
        )
        if not count:
            break
        kept = np.flatnonzero(plain[:count])
        columns = [_gather(data, starts[kept, k], ends[kept, k], kinds[kept, k]) for k in range(width)]
        yield LineColumns(feeds + numbers[:count], lines[:count].copy(), plain[:count].copy(), columns)
        feeds += passed


def _gather(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, kinds: np.ndarray) -> pa.Array:
    offsets, values = gather_values(data, starts, ends, kinds)
    present = kinds != ABSENT
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(kinds), [valid, pa.py_buffer(offsets), pa.py_buffer(values)])
