"""Files that a landing gate holds: their copies in the home, and the ledger of what became of them.

A hold is a copy of the file below `quarantine/` and, after that, a row of the table. It is released by taking the copy
into the log: the row in `files` with which an ingest begins says so, and there is nothing between the two. A file is
known by its content: once it was held, the same bytes are not judged again.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pststream import names
from pststream.errors import UsageError
from pststream.ledgers.log_end import Ledger, known_hashes
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.fetched_files import local_path
from pststream.state.home import Home
from pststream.utc_times import utc_now

FOLDER = "quarantine"
HELD, RELEASED, DISCARDED = "held", "released", "discarded"


def holds(home: Home) -> list[dict[str, Any]]:
    """Every hold, oldest first: the columns of `quarantine`, with the status held, released or discarded."""
    rows = ledger_tables.read(home, names.QUARANTINE).sort_by("at").to_pylist()
    taken = known_hashes(home, {row["sha256"] for row in rows})
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        first = found.setdefault(row["hold_id"], row)
        if row["status"] == DISCARDED:
            first["status"] = DISCARDED
        elif (row["kind"], row["sha256"]) in taken:
            first["status"] = RELEASED
    return [found[number] for number in sorted(found)]


def held(home: Home, numbers: Sequence[int], become: str) -> list[dict[str, Any]]:
    """The holds of these numbers that are still held, oldest first; those that have `become` so already are left out.

    Raises UsageError for a number that is unknown, or whose file has become something else.
    """
    known = {hold["hold_id"]: hold for hold in holds(home)}
    for number in numbers:
        if number not in known:
            raise UsageError(f"hold {number} is unknown", "see: pststream quarantine list")
        if known[number]["status"] not in (HELD, become):
            raise UsageError(f"hold {number} was {known[number]['status']}", "see: pststream quarantine list")
    return [known[number] for number in sorted(set(numbers)) if known[number]["status"] == HELD]


def hold(home: Home, files: Sequence[tuple[dict[str, Any], list[str]]], first: int) -> list[dict[str, Any]]:
    """Copy files (rows as of `files`, and the reasons) into the home and hold them, numbered from `first`; the holds.

    One that is not what was read any more is left out: it is still being written, and is looked at again when it is
    offered again.
    """
    rows: list[dict[str, Any]] = []
    for file, reasons in files:
        number = first + len(rows)
        copy = f"{FOLDER}/{number}/{Path(file['path']).name}"
        if not _copied(home, local_path(home, file), file["sha256"], copy):
            continue
        kept = {name: file[name] for name in ("kind", "path", "sha256", "bytes", "options")}
        rows.append(
            kept | {"hold_id": number, "copy": copy, "reasons": reasons, "status": HELD, "at": utc_now()}
        )
    crash_point("quarantine.copied")
    if rows:
        ledger_tables.append(home, names.QUARANTINE, rows)
    return rows


def _copied(home: Home, path: str, sha256: str, copy: str) -> bool:
    """Copy a file into the home as `copy`, if it is what was read; whether it is."""
    files, folder = home.files, home.work / FOLDER / "copying"
    files.delete(files.names(copy.rpartition("/")[0]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        part = Path(shutil.copyfile(path, folder / "part"))
        with open(part, "rb") as copied:
            whole = hashlib.file_digest(copied, "sha256").hexdigest() == sha256
        if whole:
            files.upload(copy, part)
        return whole
    except (FileNotFoundError, PermissionError):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def discard(home: Home, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Give held files up: their copies go, their holds stay known; returns the holds."""
    home.check()
    with home.locked():
        rows = [row | {"status": DISCARDED, "at": utc_now()} for row in held(home, numbers, DISCARDED)]
        if rows:
            ledger_tables.append(home, names.QUARANTINE, rows)
        crash_point("quarantine.discarded")
        tidy(home)
    return rows


def tidy(home: Home) -> None:
    """Remove the copies that no hold needs any more; those of an ingest that is not done stay."""
    files = home.files
    there = files.names(FOLDER)  # before the ledger is read: what comes after that is nobody's to remove
    kept = {str(row["hold_id"]) for row in needed(home)}
    files.delete(name for name in there if name.split("/")[1] not in kept)


def needed(home: Home) -> list[dict[str, Any]]:
    """The holds whose copies are needed: those that are held, and those that an ingest which is not done takes in."""
    started = {(f["kind"], f["sha256"]) for f in Ledger(home).unfinished_ingest()}
    return [
        row
        for row in holds(home)
        if row["status"] == HELD or (row["status"] == RELEASED and (row["kind"], row["sha256"]) in started)
    ]
