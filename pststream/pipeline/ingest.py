"""Ingest: files into the log, each file once, each row into the log or the rejects.

Files are read into staged files before anything is written, so a file that cannot be read changes nothing. Then the
ledger gets a row for each file (`started`), the log judges the rows, the tables get them, and the ledger another row
for each file (`done`). An ingest that was left unfinished is finished first, from the same files.
"""

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pststream import names
from pststream.errors import HomeError, InputFileError
from pststream.pipeline.accept import ROWS_OF, Accepted, Accepting, accept
from pststream.pipeline.judge import FIRST, judge
from pststream.pipeline.spark_tasks import run_tasks
from pststream.pipeline.stage import Staged, object_options, stage_file
from pststream.quality.readers import find_files, sha256_of
from pststream.settings import Settings
from pststream.state import control
from pststream.state.crash import crash_point
from pststream.state.data_files import commit
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.session import get_context

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ReaderOptions:
    """How files are read; see quality/objects.py. `format` None: by the file's ending."""

    format: str | None = None
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"
    max_text_bytes: int = 1_048_576


def ingest(
    home: Home,
    settings: Settings,
    kind: str,
    paths: Iterable[str],
    options: ReaderOptions,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Take in the files of `paths` (files, folders, globs); returns what CONTRACT says `ingest` prints.

    Raises InputFileError for a file that cannot be read as what it is offered as; nothing was changed then.
    """
    object_options(options.__dict__)
    home.check()
    found = find_files(list(paths), options.format)
    with home.locked():
        _finish(home, settings, progress)
        files, skipped = _new_files(home, kind, found, options)
        progress(f"{kind}: {len(files)} new files, {skipped} known")
        done = _take_in(home, settings, files, progress, resumed=False) if files else []
    return _figures(done, skipped)


def _finish(home: Home, settings: Settings, progress: Progress) -> None:
    """Finish an ingest that was killed."""
    unfinished = Ledger(home).unfinished_ingest()
    if not unfinished:
        return
    progress(f"finishing ingest {unfinished[0]['ingest_id']}, which was left unfinished")
    for file in unfinished:
        if not Path(file["path"]).is_file() or sha256_of(file["path"]) != file["sha256"]:
            raise HomeError(
                home.path,
                f"ingest {file['ingest_id']} was left unfinished, and {file['path']} is gone or has changed",
                "put the file back as it was, then run this again",
            )
    _take_in(home, settings, unfinished, progress, resumed=True)


def _new_files(home: Home, kind: str, paths: list[str], options: ReaderOptions) -> tuple[list[dict[str, Any]], int]:
    """Ledger rows of the files whose content is new, in the order offered; and how many are not."""
    ledger = Ledger(home)
    known = {f["sha256"] for f in ledger.files if f["kind"] == kind}
    with ThreadPoolExecutor(4) as pool:
        hashes = list(pool.map(sha256_of, paths))
    files: list[dict[str, Any]] = []
    at = control.now()
    for path, sha256 in zip(paths, hashes, strict=True):
        if sha256 in known:
            continue
        known.add(sha256)
        files.append(
            {
                "file_seq": ledger.next_file_seq + len(files),
                "ingest_id": ledger.next_ingest_id,
                "kind": kind,
                "path": str(Path(path).absolute()),
                "sha256": sha256,
                "bytes": Path(path).stat().st_size,
                "options": json.dumps(options.__dict__, sort_keys=True),
                "status": "started",
                "at": at,
            }
        )
    return files, len(paths) - len(files)


def _take_in(
    home: Home, settings: Settings, files: list[dict[str, Any]], progress: Progress, resumed: bool
) -> list[dict[str, Any]]:
    """Read, judge and write the files of one ingest; returns their ledger rows, done."""
    context = get_context(settings)
    kind, ingest_id = files[0]["kind"], files[0]["ingest_id"]
    folder = f"{home.path}/staging"
    shutil.rmtree(folder, ignore_errors=True)
    staged = run_tasks(context, files, partial(stage_file, kind, folder, files[0]["at"]))
    for one in sorted(staged, key=lambda one: one.file_seq):
        if one.problem:
            raise InputFileError(*one.problem)
    crash_point("ingest.parsed")
    if not resumed:
        control.append(home, names.FILES, files)
    crash_point("ingest.started")
    watermarks = _watermarks(home, files, staged)
    late_by = settings.lateness_seconds * 1_000_000
    horizons = {seq: FIRST if mark is None else mark - late_by for seq, mark in watermarks.items()}
    verdicts = tuple(judge(context, home, kind, staged, horizons, folder))
    of_file = {one.file_seq: one for one in staged}
    told = [
        Accepting(kind, home.path, ingest_id, of_file[f["file_seq"]], f["path"], horizons[f["file_seq"]], verdicts)
        for f in files
    ]
    accepted = run_tasks(context, told, accept)
    rows = [one.rows for one in accepted if one.rows]
    commit(home, ROWS_OF[kind], rows, application="ingest", transaction=ingest_id)
    crash_point(f"ingest.{kind}_written")
    rejects = [one.rejects for one in accepted if one.rejects]
    if rejects:
        commit(home, names.REJECTS, rejects, application="ingest", transaction=ingest_id)
    crash_point("ingest.rejects_written")
    done = _done(files, of_file, {one.file_seq: one for one in accepted}, watermarks)
    control.append(home, names.FILES, [{k: v for k, v in f.items() if k != "reasons"} for f in done])
    crash_point("ingest.done")
    shutil.rmtree(folder, ignore_errors=True)
    for file in done:
        progress(f"{file['path']}: {file['accepted']} accepted, {file['rejected']} rejected")
    return done


def _watermarks(home: Home, files: list[dict[str, Any]], staged: list[Staged]) -> dict[int, int | None]:
    """Greatest ts (microseconds) in the files of objects before each of these; None if there is none."""
    if files[0]["kind"] != "objects":
        return {file["file_seq"]: None for file in files}
    before = [file for file in Ledger(home).done("objects") if file["file_seq"] < files[0]["file_seq"]]
    moments = [file["max_ts"] for file in before if file["max_ts"] is not None]
    greatest = control.micros_of(max(moments)) if moments else None
    own = {one.file_seq: one.max_time for one in staged}
    marks: dict[int, int | None] = {}
    for file in files:
        marks[file["file_seq"]] = greatest
        found = own[file["file_seq"]]
        if found is not None:
            greatest = found if greatest is None else max(greatest, found)
    return marks


def _done(
    files: list[dict[str, Any]],
    staged: dict[int, Staged],
    accepted: dict[int, Accepted],
    watermarks: dict[int, int | None],
) -> list[dict[str, Any]]:
    """Ledger rows of the files when done, with the counts of rejects by reason."""
    done = []
    for file in files:
        read, found = staged[file["file_seq"]], accepted[file["file_seq"]]
        done.append(
            {
                **file,
                "status": "done",
                "rows": read.last_row,
                "accepted": found.accepted,
                "rejected": sum(found.reasons.values()),
                "watermark": _moment(watermarks[file["file_seq"]]),
                "min_ts": _moment(found.min_time),
                "max_ts": _moment(read.max_time),
                "reasons": found.reasons,
            }
        )
    return done


def _moment(micros: int | None) -> dt.datetime | None:
    return None if micros is None else dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def _figures(done: list[dict[str, Any]], skipped: int) -> dict[str, Any]:
    reasons: dict[str, int] = {}
    for file in done:
        for reason, count in file["reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    accepted, rejected = sum(f["accepted"] for f in done), sum(f["rejected"] for f in done)
    return {
        "files": len(done),
        "files_skipped": skipped,
        "rows": accepted + rejected,
        "accepted": accepted,
        "rejected": rejected,
        "rejects_by_reason": dict(sorted(reasons.items())),
    }
