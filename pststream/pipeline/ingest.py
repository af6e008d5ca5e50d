"""Ingest: files into the log, each file once, each row into the log or the rejects.

Files are parsed before anything is written, so a file that cannot be read changes nothing. Then the ledger gets a row
for each file (`started`), the tables get the rows, and the ledger another row for each file (`done`). An ingest that
was left unfinished is finished first, from the same files.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pststream import names
from pststream.errors import HomeError, InputFileError
from pststream.pipeline.judge_objects import judge_objects
from pststream.pipeline.judge_requests import judge_requests
from pststream.pipeline.parse import FILE_PROBLEM, object_options, parse_files
from pststream.quality.readers import find_files, sha256_of
from pststream.settings import Settings
from pststream.state import control, delta
from pststream.state.crash import crash_point
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.session import get_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Progress = Callable[[str], None]
JUDGES = {"objects": judge_objects, "requests": judge_requests}
ROWS_OF = {"objects": names.OBJECTS, "requests": names.REQUESTS}


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
    """Parse, judge and write the files of one ingest; returns their ledger rows, done."""
    from pyspark import StorageLevel

    spark = get_session(settings)
    kind, ingest_id = files[0]["kind"], files[0]["ingest_id"]
    parsed = parse_files(spark, files).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        _refuse_broken_files(parsed)
        crash_point("ingest.parsed")
        if not resumed:
            control.append(home, names.FILES, files)
        crash_point("ingest.started")
        judged = JUDGES[kind](spark, home, settings, files, parsed).persist(StorageLevel.MEMORY_AND_DISK)
        done = _summary(files, judged)
        rows = judged.where("reason IS NULL")
        delta.append_once(rows, home, ROWS_OF[kind], "ingest", ingest_id)
        crash_point(f"ingest.{kind}_written")
        if any(file["rejected"] for file in done):
            delta.append_once(_rejects(judged, files), home, names.REJECTS, "ingest", ingest_id)
        crash_point("ingest.rejects_written")
        control.append(home, names.FILES, [{k: v for k, v in f.items() if k != "reasons"} for f in done])
        crash_point("ingest.done")
        judged.unpersist()
    finally:
        parsed.unpersist()
    for file in done:
        progress(f"{file['path']}: {file['accepted']} accepted, {file['rejected']} rejected")
    return done


def _refuse_broken_files(parsed: "DataFrame") -> None:
    problem = parsed.where(f"reason = '{FILE_PROBLEM}'").select("raw", "detail", "field").first()
    if problem is not None:
        raise InputFileError(problem["raw"], problem["detail"], problem["field"])


def _summary(files: list[dict[str, Any]], judged: "DataFrame") -> list[dict[str, Any]]:
    """Ledger rows of the files when done: counts and times, from one pass over the judged rows."""
    from pyspark.sql import functions as f

    time = f.col("ts") if files[0]["kind"] == "objects" else f.col("at")
    ok = f.col("reason").isNull()
    found = (
        judged.groupBy("file_seq", "reason", "watermark")
        .agg(
            f.count("*").alias("rows"),
            f.max("row").alias("last"),
            f.unix_micros(f.min(f.when(ok, time))).alias("min_ts"),
            f.unix_micros(f.max(time)).alias("max_ts"),
        )
        .collect()
    )
    done = []
    for file in files:
        groups = [group for group in found if group["file_seq"] == file["file_seq"]]
        reasons = {g["reason"]: g["rows"] for g in groups if g["reason"] is not None}
        rejected = sum(reasons.values())
        done.append(
            {
                **file,
                "status": "done",
                "rows": max((g["last"] for g in groups), default=0),
                "accepted": sum(g["rows"] for g in groups) - rejected,
                "rejected": rejected,
                "watermark": _moment(max((g["watermark"] for g in groups if g["watermark"] is not None), default=None)),
                "min_ts": _moment(min((g["min_ts"] for g in groups if g["min_ts"] is not None), default=None)),
                "max_ts": _moment(max((g["max_ts"] for g in groups if g["max_ts"] is not None), default=None)),
                "reasons": reasons,
            }
        )
    return done


def _moment(micros: int | None) -> dt.datetime | None:
    return None if micros is None else dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def _rejects(judged: "DataFrame", files: list[dict[str, Any]]) -> "DataFrame":
    from pyspark.sql import functions as f

    paths = f.create_map(*(f.lit(v) for file in files for v in (file["file_seq"], file["path"])))
    return judged.where("reason IS NOT NULL").select(
        f.lit(files[0]["kind"]).alias("kind"),
        paths[f.col("file_seq")].alias("file"),
        "row",
        "field",
        "reason",
        "detail",
        "raw",
        f.lit(files[0]["ingest_id"]).cast("long").alias("ingest_id"),
    )


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
