"""A backup: a copy of a home as it stood at one moment, made while other commands go on writing.

All that a home knows is in the logs of its tables, and each commit is one new file there. So the versions of all tables
are read again and again until two readings in a row are equal: then nothing was committed between them, and these
versions are what a process killed at that moment would have left behind, which every command can go on from. Their log
entries never change, and the data files they name stay for `retention_days` at least, so the copying takes its time.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from pststream.errors import RetryableError, UsageError
from pststream.settings import FILE
from pststream.state import quarantine
from pststream.state.crash import crash_point
from pststream.state.home import MARK, Home
from pststream.state.tables import TABLES

LOG = "_delta_log"
MOST_READINGS = 1000
PAUSE_SECONDS = 0.01


def backup(home: Home, out: str) -> dict[str, Any]:
    """Copy a home to the folder `out`, which must not be there; {"out", "tables": versions, "files", "bytes"}.

    The copy is a home: its mark is written last. To restore it, copy it to where the home was. Raises RetryableError
    if the home is written to so quickly that it never stands still, or if it was vacuumed during the copying.
    """
    home.check()
    target = Path(out).absolute()
    if target.exists():
        raise UsageError(f"{out} is there already", "give a new folder, one for each backup")
    versions = _at_one_moment(home)
    crash_point("backup.read")
    copy = Home(target)
    for name, version in versions.items():
        _copy_table(Path(home.table(name)), Path(copy.table(name)), version)
    for hold in quarantine.holds(copy):
        if hold["status"] == quarantine.HELD:
            _copy(Path(home.path) / hold["copy"], target / hold["copy"])
    if (Path(home.path) / FILE).exists():
        _copy(Path(home.path) / FILE, target / FILE)
    crash_point("backup.copied")
    _copy(Path(home.path) / MARK, target / MARK)
    files = [path for path in target.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return {"out": str(target), "tables": versions, "files": len(files), "bytes": size}


def _at_one_moment(home: Home) -> dict[str, int]:
    """The version of each table, at a moment between two commits."""
    before = _versions(home)
    for _ in range(MOST_READINGS):
        time.sleep(PAUSE_SECONDS)
        now = _versions(home)
        if now == before:
            return now
        before = now
    raise RetryableError(f"home {home.path}: it never stands still", "run this again when less is written")


def _versions(home: Home) -> dict[str, int]:
    return {name: max(map(_version_of, _commits(Path(home.table(name))))) for name in TABLES}


def _commits(table: Path) -> list[Path]:
    return [path for path in (table / LOG).iterdir() if path.suffix == ".json" and path.stem.isdigit()]


def _version_of(path: Path) -> int:
    """The version that a file of a log is of: its name begins with it."""
    return int(path.name.split(".")[0])


def _copy_table(table: Path, target: Path, version: int) -> None:
    """Copy the log up to a version, and the data files that this version names."""
    for path in sorted((table / LOG).iterdir()):
        if path.name[0].isdigit() and _version_of(path) <= version:
            _copy(path, target / LOG / path.name)
    for path in pa.table(DeltaTable(str(target)).get_add_actions(flatten=True)).column("path").to_pylist():
        _copy(table / path, target / path)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:
        raise RetryableError(f"{path} was removed during the backup", "delete the copy and run this again") from None
