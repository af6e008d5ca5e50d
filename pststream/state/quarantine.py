"""Keep input files that fail the landing gate: copy them into the home, list them with their status, discard them.

An entry is a copy of the file in `quarantine/` and then a row of the table. An ingest of the copy releases the entry:
it counts as released as soon as `files` has its row `started`. Files are identified by their content, so the landing
gate does not check a released file again.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.errors import InputFileError, UsageError
from pststream.base.utc_times import utc_now
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.fetched_files import fetch
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, known_hashes

FOLDER = "quarantine"
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


def judged_files(home: Home) -> set[tuple[str, str]]:
    """Return kind and hash of each file that was ever quarantined."""
    return {(row["kind"], row["sha256"]) for row in read_entries(home)}


def find_quarantined(home: Home, numbers: Sequence[int], next_status: str) -> list[dict[str, Any]]:
    """Return the entries with these numbers that are still in quarantine, oldest first.

    Skips entries that have `next_status` already. Raises UsageError for an unknown number or any other status.
    """
    known = {entry["hold_id"]: entry for entry in read_entries(home)}
    for number in numbers:
        if number not in known:
            raise UsageError(f"quarantined file {number} is unknown", "see: pststream quarantine list")
        if known[number]["status"] not in (QUARANTINED, next_status):
            raise UsageError(
                f"quarantined file {number} was {known[number]['status']}", "see: pststream quarantine list"
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
) -> list[dict[str, Any]]:
    """Copy files (rows of `files`, with reasons) into quarantine, numbered from `first`; return the entries.

    opener: keeps files of a folder from leading out of it; without it, files are what their paths lead to
    Skips a file that has changed since it was read: another process still writes it, and the next ingest reads it.
    """
    rows: list[dict[str, Any]] = []
    for file, reasons in files:
        number = first + len(rows)
        copy = f"{FOLDER}/{number}/{Path(file['path']).name}"
        try:
            with opener(file, fetch(home, file)) as path:
                is_copied = _copy_unchanged(home, path, file["sha256"], copy)
        except InputFileError:  # it is a link by now, or gone
            continue
        if not is_copied:
            continue
        columns = {name: file[name] for name in ("kind", "path", "sha256", "bytes", "options")}
        rows.append(
            columns
            | {"hold_id": number, "copy": copy, "reasons": reasons, "status": QUARANTINED, "written_at": utc_now()}
        )
    crash_point("quarantine.copied")
    if rows:
        ledger_tables.append(home, names.QUARANTINE, rows)
    return rows


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


def discard(home: Home, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Discard quarantined files: remove their copies and keep their entries; return the entries."""
    home.check()
    with home.locked():
        rows = note_discarded(home, find_quarantined(home, numbers, DISCARDED))
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
    """Return the entries whose copies are needed: files still in quarantine, and files of an unfinished ingest."""
    started = {(f["kind"], f["sha256"]) for f in Ledger(home).unfinished_ingest()}
    return [
        row
        for row in read_entries(home)
        if row["status"] == QUARANTINED or (row["status"] == RELEASED and (row["kind"], row["sha256"]) in started)
    ]
