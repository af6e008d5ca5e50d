"""Keep input files that fail the landing gate: copy them into the home, list them with their status, discard them.

An entry is a copy of the file in `quarantine/` and then a row of the table. An ingest of the copy releases the entry:
it counts as released as soon as `files` has its row `started`. Files are identified by their content, so the landing
gate does not check a released file again. When the quarantine is full, an entry has no copy, only the first characters
of the file; when it is discarded, the file is checked again where it lands.
"""

import datetime as dt
import hashlib
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import InputFileError, UsageError
from pststream.base.utc_times import utc_now
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.fetched_files import fetch
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, known_hashes

FOLDER = "quarantine"
HEAD_BYTES = 1_000
QUARANTINED, RELEASED, DISCARDED = "held", "released", "discarded"


def read_entries(home: Home) -> list[dict[str, Any]]:
    """Return all entries, oldest first: the columns of `quarantine`, with the status held, released or discarded."""
    rows = read_table(home.table(names.QUARANTINE)).sort_by("written_at").to_pylist()
    ingested = known_hashes(home, {row["sha256"] for row in rows})
    entries: dict[int, dict[str, Any]] = {}
    for row in rows:
        first = entries.setdefault(row["hold_id"], row)
        if row["status"] == DISCARDED:
            first["status"] = DISCARDED
        elif (row["kind"], row["sha256"]) in ingested:
            first["status"] = RELEASED
    return [entries[number] for number in sorted(entries)]


def judged_files(home: Home, hashes: Collection[str]) -> list[dict[str, Any]]:
    """Return kind, sha256, path, options and is_discarded of those files with these hashes that were quarantined, and
    are not to be checked again where they landed.
    """
    columns = ["hold_id", "kind", "sha256", "path", "options", "copy", "status"]
    rows = read_table(home.table(names.QUARANTINE), columns, _of(hashes)).to_pylist()
    discarded = {row["hold_id"]: row["copy"] for row in rows if row["status"] == DISCARDED}
    return [
        row | {"is_discarded": row["hold_id"] in discarded}
        for row in rows
        if discarded.get(row["hold_id"], "") is not None
    ]


def _of(hashes: Collection[str]) -> pds.Expression:
    return pds.field("sha256").isin(pa.array(list(hashes), pa.string()))


class Room(NamedTuple):
    """How many files, with how many bytes, the quarantine still takes."""

    files: int
    bytes: int


UNBOUNDED = Room(names.MAX_INT64, names.MAX_INT64)


def find_room(home: Home, settings: Settings) -> Room:
    """Return the room that the settings and the copies leave."""
    columns = ["hold_id", "kind", "sha256", "bytes", "status"]
    rows = read_table(home.table(names.QUARANTINE), columns, pds.field("copy").is_valid()).to_pylist()
    discarded = {row["hold_id"] for row in rows if row["status"] == DISCARDED}
    kept = [row for row in rows if row["hold_id"] not in discarded]
    ingested = known_hashes(home, {row["sha256"] for row in kept})
    sizes = [row["bytes"] for row in kept if (row["kind"], row["sha256"]) not in ingested]
    return Room(settings.quarantine_files - len(sizes), settings.quarantine_bytes - sum(sizes))


def find_quarantined(home: Home, numbers: Sequence[int], next_status: str) -> list[dict[str, Any]]:
    """Return the entries with these numbers that are still in quarantine, oldest first.

    Skips entries that have `next_status` already. Raises UsageError for an unknown number or any other status, and for
    an entry without a copy that is to be released.
    """
    known = {entry["hold_id"]: entry for entry in read_entries(home)}
    for number in numbers:
        if number not in known:
            raise UsageError(f"quarantined file {number} is unknown", "see: pststream quarantine list")
        if known[number]["status"] not in (QUARANTINED, next_status):
            raise UsageError(
                f"quarantined file {number} was {known[number]['status']}", "see: pststream quarantine list"
            )
        if known[number]["copy"] is None and next_status == RELEASED:
            raise UsageError(
                f"quarantined file {number} was not copied, as the quarantine was full",
                "discard others, then this one: where it lands, it is checked again, and copied",
            )
    return [known[number] for number in sorted(set(numbers)) if known[number]["status"] == QUARANTINED]


Opener = Callable[[dict[str, Any], str], AbstractContextManager[str]]
"""Takes a row of `files` and the local path of its file or copy; yields a path under which the content can be opened,
or raises InputFileError."""


def add_entries(
    home: Home,
    files: Sequence[tuple[dict[str, Any], list[str]]],
    first: int,
    opener: Opener = lambda file, path: nullcontext(path),
    room: Room = UNBOUNDED,
) -> list[dict[str, Any]]:
    """Copy files (rows of `files`, with reasons) into quarantine, numbered from `first`; return the entries.

    opener: keeps files of a folder from leading out of it; without it, files are what their paths lead to
    room: for copies; of a file that does not fit, the first characters are kept
    Skips a file that has changed since it was read: another process still writes it, and the next ingest reads it.
    """
    rows: list[dict[str, Any]] = []
    for file, reasons in files:
        number = first + len(rows)
        fits = room.files > 0 and room.bytes >= file["bytes"]
        copy = f"{FOLDER}/{number}/{Path(file['path']).name}" if fits else None
        head: list[str] = []
        try:
            with opener(file, fetch(home, file)) as path:
                if copy is None:
                    head = _read_head(path)
                elif not _copy_unchanged(home, path, file["sha256"], copy):
                    continue
        except InputFileError:  # it is a link by now, or gone
            continue
        if fits:
            room = Room(room.files - 1, room.bytes - file["bytes"])
        columns = {name: file[name] for name in ("kind", "path", "sha256", "bytes", "options")}
        rows.append(
            columns
            | {
                "hold_id": number,
                "copy": copy,
                "head": head,
                "reasons": reasons,
                "status": QUARANTINED,
                "written_at": utc_now(),
            }
        )
    crash_point("quarantine.copied")
    if rows:
        ledger_tables.append(home, names.QUARANTINE, rows)
    return rows


def _read_head(path: str) -> list[str]:
    """Return the first characters of a file; none if it has none, or is no file."""
    if not Path(path).is_file():
        return []
    with suppress(FileNotFoundError, PermissionError), open(path, "rb") as file:
        text = file.read(HEAD_BYTES).decode("utf-8", errors="backslashreplace")
        return [text] if text else []
    return []


def _copy_unchanged(home: Home, path: str, sha256: str, copy: str) -> bool:
    """Copy a file into the home as `copy` if its content still has this hash; return whether it has it."""
    if not Path(path).is_file():  # a pipe or a device would be read without end
        return False
    files, folder = home.files, home.work_folder / FOLDER / "copying"
    files.delete(files.names(copy.rpartition("/")[0]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        part = Path(shutil.copyfile(path, folder / "part"))
        with open(part, "rb") as copied:
            is_unchanged = hashlib.file_digest(copied, "sha256").hexdigest() == sha256
        if is_unchanged:
            files.upload(copy, part)
        return is_unchanged
    except (FileNotFoundError, PermissionError):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def discard(home: Home, numbers: Sequence[int], older: dt.timedelta | None = None) -> list[dict[str, Any]]:
    """Discard quarantined files: remove their copies and keep their entries; return the entries.

    older: all files that are in quarantine for longer, too
    """
    home.check()
    with home.locked():
        chosen = {entry["hold_id"]: entry for entry in find_quarantined(home, numbers, DISCARDED)}
        if older is not None:
            for entry in read_entries(home):
                if entry["status"] == QUARANTINED and entry["written_at"] < utc_now() - older:
                    chosen[entry["hold_id"]] = entry
        rows = note_discarded(home, [chosen[number] for number in sorted(chosen)])
        crash_point("quarantine.discarded")
        remove_unneeded_copies(home)
    return rows


def note_discarded(home: Home, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let entries be discarded, so that their copies are not needed any more; return them. The home is locked."""
    changes = {"status": DISCARDED, "written_at": utc_now()}
    rows = [row | changes for row in entries]
    if rows:
        ledger_tables.append(home, names.QUARANTINE, rows)
    return rows


def remove_unneeded_copies(home: Home) -> None:
    """Remove the copies that no entry and no unfinished ingest needs."""
    files = home.files
    copies = files.names(FOLDER)  # listed before the ledger is read: later copies may get their rows later
    needed = {str(row["hold_id"]) for row in read_needed_entries(home)}
    files.delete(name for name in copies if name.split("/")[1] not in needed)


def read_needed_entries(home: Home) -> list[dict[str, Any]]:
    """Return the entries whose copies are needed: files still in quarantine, and files of an unfinished ingest.

    Entries without a copy are not among them.
    """
    started = {(f["kind"], f["sha256"]) for f in Ledger(home).unfinished_ingest()}
    return [
        row
        for row in read_entries(home)
        if row["copy"] is not None
        and (row["status"] == QUARANTINED or (row["status"] == RELEASED and (row["kind"], row["sha256"]) in started))
    ]
