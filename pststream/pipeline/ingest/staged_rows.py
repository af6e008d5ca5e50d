"""Write rows that an ingest has read to staged files in Arrow's file format, and read them again.

Staged files are read once or twice and deleted when the ingest is done. In a folder they are not compressed, and a
reader maps them: writing and reading them as Parquet would cost more than parsing the rows. In a bucket they are
compressed.
"""

import errno
import os
import shutil
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import count_terms
from pststream.storage.registry import storage_of

CHECKED_BYTES = 1 << 24
"""Bytes of a staged file that are checked at a time."""

WHOLE_BYTES = 1 << 24
"""Size up to which a staged file of a bucket is read by one request, and not by one for each array of each column."""


@dataclass(frozen=True)
class StagedRows:
    """One staged file: its address, its number of rows, and the CRC-32 of its bytes."""

    path: str
    rows: int
    crc: int


RESERVE_SHARE, MAX_RESERVE = 0.1, 64 << 20
"""Share of the disk, and bytes at most, that staged rows leave free, so that nothing else finds the disk full."""


OVERSIZED = "its rows need more than half of the free space of the disk"
NO_ROOM_NOW = "its rows would fill the disk, on which others are"


class NoRoom(Exception):
    """The rows of a file do not fit on the disk: OVERSIZED or NO_ROOM_NOW."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StagedWriter:
    """Writes rows of one schema to staged files in `folder`, one after the other; without rows there is no file.

    file_rows: a file with so many rows, or with MAX_FILE_TERMS terms of objects, is finished, and the next begins
    """

    def __init__(self, folder: str, schema: pa.Schema, file_rows: int) -> None:
        self._folder, self._schema, self._file_rows = folder, schema, file_rows
        self._written: list[StagedRows] = []
        self._path, self._rows, self._terms, self._is_closed = "", 0, 0, False
        self._sink: _SummedFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._disk = storage_of(folder).local_path(folder)
        self._bytes, self._max_bytes = 0, -1

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, whose columns are those of the schema. Raises NoRoom."""
        if rows.num_rows == 0:
            return
        if self._writer is None:
            self._writer = self._open()
        self._check_room(rows.nbytes)
        self._writer.write_batch(rows)
        self._rows += rows.num_rows
        self._terms += count_terms(rows)
        if self._rows >= self._file_rows or self._terms >= names.MAX_FILE_TERMS:
            self._finish()

    def close(self) -> tuple[StagedRows, ...]:
        """Finish the last file and return all files."""
        self._finish()
        self._is_closed = True
        return tuple(self._written)

    def _check_room(self, more: int) -> None:
        if not self._disk:
            return
        usage = shutil.disk_usage(self._disk)
        reserve = min(RESERVE_SHARE * usage.total, MAX_RESERVE)
        if self._max_bytes < 0:
            self._max_bytes = usage.free // 2
            if usage.free < reserve:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._bytes += more
        if self._bytes > self._max_bytes:
            raise NoRoom(OVERSIZED)
        if usage.free - more < reserve:
            raise NoRoom(NO_ROOM_NOW)

    def discard(self) -> None:
        """Delete what was written, unless the writer was closed."""
        if self._is_closed:
            return
        if self._sink is not None:
            with suppress(OSError):  # the disk may be full
                self._sink.close()
        for path in [*(one.path for one in self._written), *([self._path] if self._sink is not None else [])]:
            system, name = storage_of(path).file_system(path)
            system.delete_file(name)

    def _open(self) -> pa.RecordBatchFileWriter:
        self._path = f"{self._folder}/rows-{uuid.uuid4().hex}.arrow"
        storage = storage_of(self._path)
        system, path = storage.new_file(self._path)
        self._sink = _SummedFile(system.open_output_stream(path))
        options = pa.ipc.IpcWriteOptions(compression="zstd" if storage.is_remote else None, use_threads=False)
        return pa.ipc.new_file(self._sink, self._schema, options=options)

    def _finish(self) -> None:
        if self._writer is None or self._sink is None:
            return
        self._writer.close()
        self._sink.close()
        self._written.append(StagedRows(self._path, self._rows, self._sink.crc))
        self._writer, self._sink, self._rows, self._terms = None, None, 0, 0


class _SummedFile:
    """A file that is written, and the CRC-32 of its bytes so far."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file, self.crc = file, 0

    def write(self, data: bytes | pa.Buffer) -> int:
        """Write all of `data`."""
        self.crc = zlib.crc32(data, self.crc)
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def is_intact(one: StagedRows) -> bool:
    """Whether a staged file, which exists, has the bytes that were written."""
    storage, crc = storage_of(one.path), 0
    system, path = storage.file_system(one.path)
    with system.open_input_stream(path) as file:
        while block := file.read(CHECKED_BYTES):
            crc = zlib.crc32(block, crc)
    return crc == one.crc


def read_staged(files: Sequence[StagedRows], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of the rows of staged files, in their order; the rows of a folder are mapped, not copied."""
    for one in files:
        with _open(one.path) as source:
            names = pa.ipc.open_file(source).schema.names
            options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns], use_threads=False)
            reader = pa.ipc.open_file(source, options=options)
            for ordinal in range(reader.num_record_batches):
                yield reader.get_batch(ordinal).select(list(columns))


def _open(address: str) -> pa.NativeFile:
    storage = storage_of(address)
    if not storage.is_remote:
        return pa.memory_map(str(storage.local_path(address) or address))
    system, path = storage.file_system(address)
    file = system.open_input_file(path)
    if file.size() > WHOLE_BYTES:
        return file
    with file:
        return pa.BufferReader(file.read_buffer())
