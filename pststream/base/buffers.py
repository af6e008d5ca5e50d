"""Return the bytes and offsets of an Arrow column of texts as NumPy arrays, the input of kernels."""

import numpy as np
import pyarrow as pa


def utf8_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes (uint8, read-only) and offsets (int64[n+1]) of a string or large_string column without nulls.

    The result has the same types for both column types, so that a kernel is compiled once.
    """
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    content.flags.writeable = False
    if len(texts) == 0:
        return content, np.zeros(1, np.int64)
    positions = np.frombuffer(offsets, dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    return content, positions.astype(np.int64)
