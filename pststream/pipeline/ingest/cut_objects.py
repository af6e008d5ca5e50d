"""Withdraw the last object of a landed file that was read while it was written, once more of the file is there.

The last line of such a file was cut, so that its last number may have been: 59.33 read as 5. The whole line would be a
duplicate of the cut one. The watermark stays. A file is known by its path: whoever may write there may replace the last
object of a file that ended within a line.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import InputFileError, PassingError
from pststream.base.progress import Progress
from pststream.base.texts import counted
from pststream.base.utc_times import micros_of
from pststream.input.confined_files import content_below
from pststream.input.input_files import is_compressed
from pststream.pipeline.ingest.fetch_objects import OfferedFile
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.ledger_tables import append_withdrawal
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, log_key
from pststream.tables.log_events import withdrawn_objects

BLOCK_BYTES = 1 << 20


def withdraw_cut_objects(
    home: Home, new: Sequence[OfferedFile], folders: Mapping[str, str], progress: Progress
) -> None:
    """Withdraw the last objects of the files that were ingested at the paths of `new` as their beginnings.

    folders: the folders that files must not leave, by path
    """
    keys = []
    for one, before in _read_earlier(home, new):
        if _begins_with(one.path, folders.get(one.path), before):
            keys.append(log_key(before["file_seq"], before["rows"]))
    keys = [key for key in sorted(keys) if _is_stored(home, key)]
    if not keys:
        return
    cut = np.array(keys, np.int64)
    cut = cut[~withdrawn_objects(home).contain(cut)]
    if len(cut):
        ledger = Ledger(home)
        append_withdrawal(home, ledger, cut, micros_of(ledger.watermark()), {"reason": "half-written lines"})
        progress(f"withdrew {counted(len(cut), 'object')} that ended a file whose last line had no end then")


def _read_earlier(home: Home, new: Sequence[OfferedFile]) -> list[tuple[OfferedFile, dict[str, Any]]]:
    """Return each text file that has grown since a file was ingested at its path, with the row of that file."""
    grown = {one.path: one for one in new if not is_compressed(one.path)}
    paths = pds.field("path").isin(pa.array(list(grown), pa.string()))
    done = (pds.field("kind") == names.OBJECTS) & (pds.field("status") == "done")
    columns = ["file_seq", "path", "sha256", "bytes", "rows"]
    rows = read_table(home.table(names.FILES), columns, paths & done).sort_by("file_seq").to_pylist()
    last = {row["path"]: row for row in rows}
    return [(grown[path], row) for path, row in last.items() if 0 < row["bytes"] < grown[path].bytes]


def _begins_with(path: str, folder: str | None, before: Mapping[str, Any]) -> bool:
    """Whether the file still begins with what was ingested, and this ended within a line."""
    digest, left, block, following = hashlib.sha256(), before["bytes"], b"", b""
    try:
        with content_below(path, folder) as content, open(content, "rb") as file:
            while left and (block := file.read(min(left, BLOCK_BYTES))):
                digest.update(block)
                left -= len(block)
            following = file.read(1)
    except (OSError, InputFileError, PassingError):
        return False  # whoever reads the file finds out why
    is_cut = not {block[-1:], following} & {b"\n", b"\r"}
    return is_cut and digest.hexdigest() == before["sha256"]


def _is_stored(home: Home, key: int) -> bool:
    """Whether the row with this key was accepted."""
    keys = KeyRange("object_key", key - 1, key)
    files = keys.files(list_data_files(home, names.OBJECTS))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
    return any(rows.num_rows for rows in read_slices(slices, ["object_key"], keys))
