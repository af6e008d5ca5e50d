"""Find input files by patterns, recognize their format by name, read and decompress their bytes, hash them."""

import glob
import hashlib
import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from pststream.base.errors import InputFileError, PassingError, UsageError, passing_number

FORMATS = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "parquet": "parquet"}
"""Format by the ending of a file name, or by the value of `--format`."""

_CODECS = {".gz": "gzip", ".zst": "zstd"}
_MAGIC = (
    (b"PAR1", "a Parquet file", "give --format parquet"),
    (b"\x1f\x8b", "compressed by gzip", "let its name end in .gz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "let its name end in .zst"),
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet", "unpack it, or save it as CSV"),
    (b"\xff\xfe", "text in UTF-16", "convert it to UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "convert it to UTF-8"),
)
MAX_EXPANSION = 200
ALWAYS_ALLOWED_BYTES = 1 << 26
"""A file may decompress to this many bytes, or to MAX_EXPANSION times its size if that is more."""

EXPANDS_TOO_MUCH = f"over {MAX_EXPANSION} times its own size and {ALWAYS_ALLOWED_BYTES} bytes"

AHEAD_BYTES = 1 << 22
"""Bytes of a compressed file that are decompressed before they are asked for."""

MAX_FOLDERS = 64
"""Folders that may lie in one another; deeper ones are not read."""

_DAMAGED = "it is cut short or damaged: fetch it again"


def find_files(
    patterns: Iterable[str | os.PathLike[str]], format: str | None = None, any_name: bool = False
) -> list[str]:
    """Return the files that match the patterns, sorted, each once. A pattern is a file, a folder or a glob (also `**`).

    Skips files whose name, or a folder above, begins with `.` or `_`, and files of folders with an unknown ending. A
    file given by name or glob may have any ending if `format` is given. Raises InputFileError for a pattern without
    files, and for a name that is not UTF-8 unless `any_name`; UsageError for an unknown `format`.
    """
    if format is not None:
        format_of("", format)
    paths: set[str] = set()
    for given in patterns:
        pattern = os.fspath(given)
        files = sorted(_files_of(pattern, format))
        if not files:
            known = ", ".join(f".{ending}" for ending in FORMATS)
            if os.path.isdir(pattern):
                raise InputFileError(pattern, "no input file is in this folder", f"known endings: {known}")
            raise InputFileError(pattern, "no such file", f"a file, a folder or a glob; known endings: {known}")
        paths.update(files)
    for path in sorted(paths):
        if not any_name and not is_utf8_name(path):
            raise InputFileError(path, "its name is not UTF-8", "rename it")
    return sorted(paths)


def is_utf8_name(path: str) -> bool:
    """Whether a path is valid UTF-8, as the ledger needs it; on Linux a name may be any bytes."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def files_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files that `find_files` finds in a folder, sorted; none is no error."""
    return sorted(_below(os.fspath(folder), None))


def unknown_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the files in a folder that `find_files` would find if it knew their ending, sorted."""
    return sorted(path for path in _all_below(os.fspath(folder)) if _known_format(path) is None)


def is_left_out(name: str) -> bool:
    """Return whether a file or folder of this name is skipped when its folder is read."""
    return name.startswith((".", "_"))


def has_format(name: str, format: str | None) -> bool:
    """Whether the name has a known ending, and that of `format` if given."""
    known = _known_format(name)
    return known is not None and (format is None or known == FORMATS[format])


def format_of(path: str, format: str | None = None) -> str:
    """Return csv, jsonl or parquet, by `format` or else by the ending. Raises UsageError or InputFileError."""
    known = ", ".join(FORMATS)
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"unknown format {format!r}", f"one of: {known}")
        return FORMATS[format]
    known_format = _known_format(path)
    if known_format is None:
        raise InputFileError(path, "its ending is that of no known format", f"give --format, one of: {known}")
    return known_format


def sha256_of(path: str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes as they are on disk. Raises InputFileError or PassingError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


class ByteStream:
    """The bytes of a file, decompressed if its name ends in .gz or .zst. Raises InputFileError or PassingError."""

    def __init__(self, path: str) -> None:
        self.path = path
        codec = _CODECS.get(Path(path).suffix.lower())
        try:
            if codec is not None and os.path.getsize(path) == 0:
                raise InputFileError(path, "empty, though its name says it is compressed", _DAMAGED)
            self._left = most_expanded(path) if codec else math.inf
            self._file = pa.OSFile(path)
            self._stream = _ReadAhead(pa.CompressedInputStream(self._file, codec)) if codec else self._file
        except OSError as error:
            raise unreadable(path, error) from None

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        parts: list[bytes] = []
        while size > 0:
            try:
                part = self._stream.read(size)
            except OSError as error:
                if number := passing_number(error):
                    raise PassingError(self.path, number) from None
                raise InputFileError(self.path, f"cannot be decompressed: {_first_line(error)}", _DAMAGED) from None
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self._left -= len(part)
            if self._left < 0:
                raise InputFileError(
                    self.path, f"decompresses to {EXPANDS_TOO_MUCH}", "if the file is valid, decompress it first"
                )
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._stream, _ReadAhead):
            self._stream.close()
        self._file.close()


class _ReadAhead:
    """Reads a stream in a thread, one block ahead: the next block is decompressed while the caller parses this one."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._block = stream, b""
        self._thread = ThreadPoolExecutor(1)
        self._next = self._thread.submit(stream.read, AHEAD_BYTES)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        if not self._block:
            self._block = self._next.result()
            if self._block:
                self._next = self._thread.submit(self._stream.read, AHEAD_BYTES)
        part, self._block = self._block[:size], self._block[size:]
        return part

    def close(self) -> None:
        self._thread.shutdown()


class PartStream:
    """The bytes of a plain file from `start` to `stop`; every failure is an InputFileError or PassingError."""

    def __init__(self, path: str, start: int, stop: int) -> None:
        self._path = path
        self._left = stop - start
        try:
            self._file = pa.OSFile(path)
            self._file.seek(start)
        except OSError as error:
            raise unreadable(path, error) from None

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        try:
            part: bytes = self._file.read(min(size, self._left))
        except OSError as error:
            raise unreadable(self._path, error) from None
        self._left -= len(part)
        return part

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def most_expanded(path: str) -> int:
    """Return how many bytes a compressed file may have when it is decompressed."""
    return max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * os.path.getsize(path))


def is_compressed(path: str) -> bool:
    """Whether the name ends like that of a compressed file."""
    return Path(path).suffix.lower() in _CODECS


def open_seekable(path: str, magic: bytes) -> Any:
    """Return what a reader that seeks can open: the path, or a temporary file with the decompressed content.

    Raises InputFileError, as `ByteStream` does, or if decompressed content does not begin with `magic`.
    """
    if not is_compressed(path):
        return path
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    with closing(ByteStream(path)) as stream:
        block = stream.read(len(magic))
        if block != magic:
            raise InputFileError(path, "its content, decompressed, has another format than its name says", _DAMAGED)
        while block:
            file.write(block)
            block = stream.read(AHEAD_BYTES)
    file.seek(0)
    return file


def check_head(path: str, head: bytes, wanted: str) -> None:
    """Raise InputFileError if a file does not begin like text."""
    for magic, what, hint in _MAGIC:
        if head.startswith(magic):
            raise InputFileError(path, f"not {wanted}: it begins like {what}", hint)
    line = head.lstrip(b"\r\n \t").splitlines()[:1]
    if line and any(byte < 32 and byte != 9 for byte in line[0]):
        known = ", ".join(FORMATS)
        raise InputFileError(path, f"not {wanted}: it begins like a binary file", f"known formats: {known}")


def unreadable(path: str, error: Exception) -> InputFileError | PassingError:
    """Return the error for a failure to open or read a file."""
    if number := passing_number(error):
        return PassingError(path, number)
    if isinstance(error, FileNotFoundError):
        return InputFileError(path, "no such file")
    if isinstance(error, PermissionError):
        return InputFileError(path, "cannot be read: permission denied", "ask for the permission to read it")
    if isinstance(error, IsADirectoryError) or os.path.isdir(path):
        return InputFileError(path, "is a folder, not a file")
    return InputFileError(path, f"cannot be read: {_first_line(error)}", _DAMAGED)


def _files_of(pattern: str, format: str | None) -> Iterator[str]:
    if os.path.isdir(pattern):
        yield from _below(pattern, format)
    elif os.path.exists(pattern):
        format_of(pattern, format)
        yield pattern
    else:
        spelled_out = Path(pattern).parts
        for path in glob.glob(pattern, recursive=True):
            if any(is_left_out(part) for part in Path(path).parts if part not in spelled_out):
                continue
            if os.path.isdir(path):
                yield from _below(path, format)
            elif format is not None or _known_format(path):
                yield path


def _below(folder: str, format: str | None) -> Iterator[str]:
    return (path for path in _all_below(folder) if has_format(path, format))


def _all_below(folder: str) -> Iterator[str]:
    left = [(folder, 0)]
    while left:
        parent, depth = left.pop()
        try:
            with os.scandir(parent) as entries:
                below = [one for one in entries if not is_left_out(one.name)]
        except OSError:  # it is gone, or nobody may list it
            continue
        for one in below:
            if not one.is_dir():
                yield one.path
            elif depth < MAX_FOLDERS and not one.is_symlink():
                left.append((one.path, depth + 1))


def _known_format(path: str) -> str | None:
    name = Path(path)
    ending = Path(name.stem).suffix if name.suffix.lower() in _CODECS else name.suffix
    return FORMATS.get(ending[1:].lower())


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
