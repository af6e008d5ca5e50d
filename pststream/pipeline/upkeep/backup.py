"""Copy a home to a new local folder as it is at one moment, while other commands write to it (`pststream backup`).

The state of a home is in the Delta logs of its tables, and each commit is a new file of a log. So the versions of all
tables are read repeatedly until two readings are equal: nothing was committed between the two. A process killed at that
moment would leave the same versions, and every command can continue from there. If commits are too frequent for two
equal readings, the versions are read under the lock of the home. Then only sinks commit: first to `dead_letters`, then
to `deliveries`; the versions are read in the opposite order. The logs are copied first, as far as these versions need
them. The data files that the logs list stay for at least `retention_days`, so there is time to copy them.
"""

import os
import time
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.atomic_files import flush_file, flush_folders, make_folder
from pststream.base.errors import QuestionsBusy, RetryableError, UsageError
from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.input.suite_files import FOLDER as SUITES
from pststream.pipeline.ingest import retry_rejects
from pststream.pipeline.questions.question_ledger import copy_name, unfinished_files
from pststream.settings import FILE
from pststream.state import quarantine
from pststream.state.crash_points import crash_point
from pststream.state.data_files import list_data_files
from pststream.state.home import RUNNER_WAIT_SECONDS, Home
from pststream.state.tables import TABLES
from pststream.storage.registry import local_path, normalize
from pststream.tables.ledgers import Ledger

MAX_READINGS = 100
PAUSE_SECONDS = 0.01


def backup(home: Home, out: str, progress: Progress = no_progress) -> dict[str, Any]:
    """Copy a home to the new folder `out`; return {"out", "tables": versions, "files", "bytes"}.

    The copy is a home: its mark is written last, when everything else is flushed to disk. To restore it, copy it to the
    address of the home. Raises HomeBusy if commits are too frequent while a long command has the home, RetryableError
    if files were removed during the copy.
    """
    home.check()
    if local_path(normalize(out)) is None:
        raise UsageError(f"{out}: a backup goes into a folder", "give a folder, and copy that to a bucket afterwards")
    target = Path(out).absolute()
    if target.exists():
        raise UsageError(f"{out} exists already", "give a new folder, one for each backup")
    versions = _consistent_versions(home)
    crash_point("backup.read")
    make_folder(target, 0o700)
    copy = Home(target)
    logs = [_needed_log(home, name, version) for name, version in versions.items()]
    for entry in (entry for log in logs for entry in log):
        _copy(home, entry, target)
    data = [f"tables/{name}/{file.path}" for name in TABLES for file in list_data_files(copy, name)]
    counter = StepCounter(progress, "copying the data", "file", len(data))
    for file in data:
        _copy(home, file, target)
        counter.add(1)
    for hold in quarantine.read_needed_entries(copy):
        _copy(home, hold["copy"], target)
    for started in Ledger(copy).unfinished_ingest():
        name = started["path"].removeprefix(f"{home.path}/")
        if name.startswith(f"{retry_rejects.FOLDER}/"):  # only the home has it
            _copy(home, name, target)
    for question_file in unfinished_files(copy):
        if home.files.exists(name := copy_name(question_file)):
            _copy(home, name, target)
    if home.files.exists(FILE):
        _copy(home, FILE, target)
    for suite in home.files.names(SUITES):
        _copy(home, suite, target)
    flush_folders(folder for folder, _, _ in os.walk(target))
    crash_point("backup.copied")
    _copy(home, names.HOME_MARK, target)
    flush_folders([target])
    files = [path for path in target.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return {"out": str(target), "tables": versions, "files": len(files), "bytes": size}


def _consistent_versions(home: Home) -> dict[str, int]:
    """Return the version of each table at a moment between two commits."""
    before = _versions(home)
    for _ in range(MAX_READINGS):
        time.sleep(PAUSE_SECONDS)
        now = _versions(home)
        if now == before:
            return now
        before = now
    with home.locked(), home.locked(names.QUESTIONS, QuestionsBusy, wait_seconds=RUNNER_WAIT_SECONDS):
        return _versions(home)


def _versions(home: Home) -> dict[str, int]:
    return {table: max(_version_of(name) for name in _log(home, table) if name.endswith(".json")) for table in TABLES}


def _log(home: Home, table: str) -> list[str]:
    """Return the files of a table's log that belong to one version each: commits and checkpoints."""
    files = home.files.names(f"tables/{table}/{names.DELTA_LOG}")
    return [name for name in files if name.rpartition("/")[2][0].isdigit()]


def _needed_log(home: Home, table: str, version: int) -> list[str]:
    """Return the files of a log that define a version: its last checkpoint, and the commits from there on."""
    until = [name for name in _log(home, table) if _version_of(name) <= version]
    start = max((_version_of(name) for name in until if name.endswith(".parquet")), default=0)
    needed = [name for name in until if _version_of(name) >= start]
    if {_version_of(name) for name in needed} != set(range(start, version + 1)):
        raise RetryableError(f"{home.table(table)}: its log was trimmed during the backup", "run this again")
    return needed


def _version_of(name: str) -> int:
    """Return the version of a log file: the number at the start of its name."""
    return int(name.rpartition("/")[2].split(".")[0])


def _copy(home: Home, name: str, root: Path) -> None:
    """Copy a file of the home to the same relative path below another root."""
    target = root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        home.files.download(name, target)
        flush_file(target)
    except FileNotFoundError:
        raise RetryableError(
            f"{home.path}/{name} was removed during the backup", "delete the copy and run this again"
        ) from None
