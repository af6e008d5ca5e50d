"""Find ids in files of a home outside its tables: refuse quarantined files, delete pages and logs that name them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pststream.base.errors import UsageError
from pststream.base.escape_text import escape_controls
from pststream.pipeline.upkeep.row_changes import MAX_SOUGHT, TextFinder
from pststream.state import quarantine
from pststream.state.erasures import PendingErasure
from pststream.state.home import Home

DERIVED = ("pages", "data_docs", "logs")
"""Folders of a home with files that commands write for people; any of them may be deleted."""

BLOCK_BYTES = 1 << 22


def refuse_quarantined(home: Home, asked: PendingErasure) -> None:
    """Raise UsageError if a file in quarantine names one of the ids: with the file, other rows would go."""
    ids = {"objects": asked.object_ids, "requests": asked.subscription_ids}
    finders = {kind: TextFinder(wanted) for kind, wanted in ids.items() if wanted}
    for entry in quarantine.read_needed_entries(home):
        if entry["kind"] in finders and _names_id(home, entry, finders[entry["kind"]]):
            number, path = entry["hold_id"], escape_controls(entry["path"])
            raise UsageError(
                f"quarantined file {number} ({path}) names an id to erase; nothing was changed",
                f"pststream quarantine release {number}, or discard {number}; then run this again",
            )


def _names_id(home: Home, entry: dict[str, Any], finder: TextFinder) -> bool:
    local = home.storage.local_path(home.path)
    if local is not None:
        return _has_text(local / entry["copy"], finder)
    with tempfile.TemporaryDirectory(prefix="pststream-erase-") as folder:
        path = Path(folder) / Path(entry["copy"]).name
        home.files.download(entry["copy"], path)
        return _has_text(path, finder)


def _has_text(path: Path, finder: TextFinder) -> bool:
    """Whether a file has one of the texts sought: in its values, or if it cannot be read, in its bytes."""
    try:
        return any(bool(finder.search(texts).any()) for texts in _values(path))
    except (OSError, pa.ArrowException):
        return any(bool(finder.search(texts).any()) for texts in _blocks(path, None))


def _values(path: Path) -> Iterator[pa.Array]:
    """Yield the content of a file as texts: of Parquet the values, of other files blocks, uncompressed."""
    if not path.name.endswith(".parquet"):
        yield from _blocks(path, "detect")
        return
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(8_192):
            for column in rows.columns:
                is_nested = pa.types.is_nested(column.type)
                yield (
                    pa.array(map(str, column.to_pylist()), pa.large_string()) if is_nested else column.cast(pa.string())
                )


def _blocks(path: Path, compression: str | None) -> Iterator[pa.Array]:
    """Yield the text of a file in blocks that overlap."""
    before = b""
    with pa.input_stream(str(path), compression) as stream:
        while block := stream.read(BLOCK_BYTES):
            yield pa.array([(before + block).decode("utf-8", errors="replace")], pa.large_string())
            before = block[-8 * MAX_SOUGHT :]


def delete_files_that_name(home: Home, finder: TextFinder) -> int:
    """Delete the pages and logs that have one of the texts sought; return how many."""
    named = []
    for name in (name for folder in DERIVED for name in home.files.names(folder)):
        text = home.files.read(name).decode("utf-8", errors="replace")
        if finder.search(pa.array([text], pa.large_string())).any():
            named.append(name)
    home.files.delete(named)
    return len(named)
