"""Write named NumPy arrays to one file atomically, and memory-map such a file in many processes.

Layout: 16 bytes (length of the header, length of the file; little-endian int64), a JSON header
{name: [dtype, shape, offset]}, then the arrays, each at a multiple of 64 bytes. The file is written under another name
and renamed, so that a reader sees a whole file or none. It is not flushed to disk, because it can be built again: the
recorded length reveals a file that a power cut has truncated.
"""

import json
import os
from pathlib import Path

import numpy as np

from pststream.base.atomic_files import replacing

ALIGNMENT = 64


class TornFileError(Exception):
    """The file is incomplete: the caller removes it and builds it again."""


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write `arrays` to `path`, all or nothing."""
    entries: dict[str, list[object]] = {}
    offset = 0
    for name, array in arrays.items():
        entries[name] = [array.dtype.str, list(array.shape), offset]
        offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    header = json.dumps(entries).encode()
    header += b" " * (-(16 + len(header)) % ALIGNMENT)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, several_writers=True, durable=False) as temporary, open(temporary, "wb") as file:
        file.write(np.array([len(header), 16 + len(header) + offset], dtype="<i8").tobytes())
        file.write(header)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.write(b"\0" * (-array.nbytes % ALIGNMENT))


def map_arrays(path: Path, *, writable: bool = False) -> dict[str, np.ndarray]:
    """Return the arrays of `path`, mapped; raises FileNotFoundError or TornFileError.

    writable  writes to the arrays change the file; else they are refused
    """
    with open(path, "r+b" if writable else "rb") as file:
        lengths = file.read(16)
        if len(lengths) < 16:
            raise TornFileError(str(path))
        header_bytes, file_bytes = np.frombuffer(lengths, dtype="<i8")
        if os.fstat(file.fileno()).st_size != file_bytes or not 0 < header_bytes < file_bytes + 1:
            raise TornFileError(str(path))
        try:
            entries = json.loads(file.read(int(header_bytes)))
        except ValueError:
            raise TornFileError(str(path)) from None
        whole = np.memmap(file, dtype=np.uint8, mode="r+" if writable else "r") if file_bytes else np.empty(0, np.uint8)
    start = 16 + int(header_bytes)
    arrays = {}
    for name, (dtype, shape, offset) in entries.items():
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays[name] = np.asarray(whole[start + offset : start + offset + size]).view(dtype).reshape(shape)
    return arrays
