"""Test whether bytes and text columns are valid UTF-8, and move the rows of a chunk that are not to its rejects."""

import numpy as np
import pyarrow as pa

from pststream.input.reject_reasons import Reject, to_display_text
from pststream.input.row_chunks import ColumnChunk


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_utf8_block(data: memoryview) -> bool:
    """Whether the bytes are UTF-8; as `is_utf8`, faster for many bytes and without the interpreter's lock."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds bytes or characters."""
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in text)


def is_all_utf8(table: pa.RecordBatch) -> bool:
    """Whether all text in the table is UTF-8."""
    try:
        for column in table.columns:
            if is_text(column.type):
                column.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def reject_invalid_utf8(chunk: ColumnChunk) -> ColumnChunk:
    """Move the rows with text that is not UTF-8 to the rejects of the chunk."""
    rejected = list(chunk.rejected)
    kept = np.ones(len(chunk.rows), dtype=bool)
    for name, column in zip(chunk.table.schema.names, chunk.table.columns):
        if not is_text(column.type):
            continue
        for i, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
            if kept[i] and value is not None and not is_utf8(value):
                kept[i] = False
                rejected.append(Reject(int(chunk.rows[i]), name, "invalid_utf8", to_display_text(value)))
    return ColumnChunk(chunk.file, chunk.rows[kept], chunk.table.filter(pa.array(kept)), rejected)
