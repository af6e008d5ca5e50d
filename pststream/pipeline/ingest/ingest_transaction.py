"""Append staged files to the log and `rejects` as one transaction, which the next ingest finishes if interrupted.

The ledger gets a row for each file (`started`), the rows are deduplicated against the log and written to their tables
under the ingest's transaction id, and the ledger gets another row for each file (`done`). An interrupted ingest is
finished from its staged files, which are kept until it is done, even if the input files have changed since. Staged
files are not flushed to disk: if one is missing or damaged, the same input files are read again.
"""

import datetime as dt
import errno
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import lineage, names
from pststream.base.arrow_columns import micros
from pststream.base.errors import HomeError, InputFileError, PassingError, PstError, RetryableError
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.base.utc_times import from_micros, micros_of, utc_now
from pststream.engine.contract import TaskDied, TasksStalled
from pststream.engine.running_engine import get_engine
from pststream.input.input_files import sha256_of
from pststream.pipeline.ingest.deduplicate import (
    TABLE_OF,
    AppendedFile,
    AppendTask,
    accept_deletion,
    append_staged_rows,
    bound_requests,
    deduplicate,
)
from pststream.pipeline.ingest.fetch_objects import parts_in_time
from pststream.pipeline.ingest.groups import expected_bytes
from pststream.pipeline.ingest.isolated_reader import noted_reading, stage_isolated
from pststream.pipeline.ingest.stage_file import (
    SCHEMAS,
    File,
    StagedFile,
    stage_in_parts,
    with_options,
)
from pststream.pipeline.ingest.staged_rows import NoRoom, StagedRows, StagedWriter, is_intact
from pststream.settings import Settings
from pststream.state import fetched_files, ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import SHARED, addresses_and_rows, commit_files, list_data_files
from pststream.state.home import FORMAT, Home
from pststream.state.ledger_tables import PATH, lineage_table, name_withdrawn
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.storage.parquet_files import file_sizes
from pststream.tables.ledgers import JUDGED_BY, Ledger, log_key
from pststream.tables.log_events import SET_ASIDE

STAGING = "staging"
SAVED = ("file_seq", "parts", "last_row", "max_time", "asked", "id_bytes")
"""Fields of staged files that an interrupted ingest is finished with."""

_LIST = f"{STAGING}/staged.json"


def staging_path(home: Home) -> str:
    """Return the folder where tasks write staged files and verdict files."""
    return f"{home.path}/{STAGING}"


def clear_staging(home: Home) -> None:
    """Delete all files of the staging folder."""
    home.files.delete(home.files.names(STAGING))


def delete_staged(home: Home, staged: Sequence[StagedFile]) -> None:
    """Delete the rows of these files from the staging folder."""
    home.files.delete([f"{STAGING}/{part.path.rpartition('/')[2]}" for one in staged for part in one.parts])


def save_staged(home: Home, files: list[File], staged: list[StagedFile]) -> None:
    """Write the list of the staged files of these input files (ledger rows)."""
    rows = [{name: asdict(one)[name] for name in SAVED} for one in staged]
    content = {"home_format": FORMAT, "of": _hashes(files), "staged": rows, "bytes": _bytes(staged)}
    home.files.write(_LIST, json.dumps(content).encode())


def load_staged(home: Home, files: list[File]) -> list[StagedFile] | None:
    """Return the staged files of exactly these input files; None if any is missing or has other bytes."""
    try:
        content = json.loads(home.files.read(_LIST))
    except (FileNotFoundError, ValueError):
        return None
    if content["home_format"] != FORMAT:  # staged before an upgrade, with other columns
        return None
    staged = [
        StagedFile(**one | {"parts": tuple(StagedRows(**part) for part in one["parts"])}) for one in content["staged"]
    ]
    if content["of"] != _hashes(files) or content["bytes"] != _bytes(staged):
        return None
    return staged if all(is_intact(part) for one in staged for part in one.parts) else None


def _hashes(files: list[File]) -> list[str]:
    return [file["sha256"] for file in files]


def _bytes(staged: list[StagedFile]) -> list[int | None]:
    return file_sizes([part.path for one in staged for part in one.parts])


def number_files(ledger: Ledger, files: list[File]) -> list[File]:
    """Return the files as `started` ledger rows of the next ingest."""
    row = {"ingest_id": ledger.next_ingest_id, "status": "started", "started_at": utc_now()}
    return [file | row | {"file_seq": seq} for seq, file in enumerate(files, ledger.next_file_seq)]


def stage_files(
    home: Home,
    settings: Settings,
    files: list[File],
    progress: Progress,
    quarantine_unreadable: bool = False,
    apart: bool = False,
) -> list[StagedFile]:
    """Read the files of one kind into staged files, one task a file or part; returns them in the order of `files`.

    quarantine_unreadable: a file that cannot be read is no error, and once GROUP_SECONDS have passed, no more files are
        opened: the first ones are returned, one at least
    apart: read all of them one by one in a separate process, not suspects alone
    """
    clear_staging(home)
    of_home = [file | {"home": home.path} for file in files]
    sizes = [expected_bytes(file["path"], file["bytes"]) for file in files]
    staged = list[StagedFile]()
    for part in parts_in_time(sizes) if quarantine_unreadable else (slice(None),):
        staged += _stage_suspects_apart(home, settings, of_home[part], progress, apart)
    try:
        for file, one in zip(files, staged):
            if not one.exists and not quarantine_unreadable and Path(file["path"]).exists():
                raise RetryableError(f"{file['path']}: is there, but a node does not see it", SHARED)
            if one.passing and not quarantine_unreadable:
                raise PassingError(file["path"], one.passing)
            if one.problem and not quarantine_unreadable:
                raise InputFileError(file["path"], *one.problem[1:])
    except PstError:
        clear_staging(home)  # so that the disk has room until the next try
        raise
    crash_point("ingest.parsed")
    return staged


def _stage_suspects_apart(
    home: Home, settings: Settings, files: list[File], progress: Progress, apart: bool
) -> list[StagedFile]:
    """Stage files; read those at which earlier ingests have died one by one in a separate process.

    The other files are read again in this way if memory runs out, a task does not end, or one of Spark dies: this
    process survives all of these.
    """
    target = (files[0]["kind"], staging_path(home), files[0]["started_at"])
    with noted_reading(home, [file["sha256"] for file in files]) as dead:
        suspects = [file for file in files if apart or file["sha256"] in dead]
        others = [file for file in files if not apart and file["sha256"] not in dead]
        staged = stage_isolated(*target, suspects, settings, progress)
        try:
            if others:
                staged += stage_in_parts(get_engine(settings, home), *target, others, progress, settings.read_seconds)
        except (MemoryError, TasksStalled, TaskDied):
            staged += stage_isolated(*target, others, settings, progress)
    return sorted(staged, key=lambda one: one.file_seq)


NO_ROUND: Mapping[str, Any] = {}


def append_files(
    home: Home,
    settings: Settings,
    files: list[File],
    staged: list[StagedFile],
    ledger: Ledger,
    progress: Progress,
    round: Mapping[str, Any] = NO_ROUND,
) -> list[dict[str, Any]]:
    """Append new files to the log as one ingest; returns their ledger rows when done, with rejects by reason.

    ledger: as it was read before these files. The staged files are kept until the ingest is done.
    round: JUDGED_BY and ROUND_GOES_ON of the ledger; without them, each file is judged by the watermark before it
    """
    # A process that finishes this ingest later applies the present lateness.
    more = {"lateness_seconds": settings.lateness_seconds, **round}
    files = [with_options(file, more) for file in files]
    save_staged(home, files, staged)
    ledger_tables.append(home, names.FILES, files)
    crash_point("ingest.started")
    return _run_with_lineage(home, settings, files, staged, ledger, progress)


def append_file_of_home(
    home: Home, settings: Settings, file: File, ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Append a file in a folder of the home, without the landing gate; arguments and result as of `append_files`."""
    files = number_files(ledger, [file])
    return append_files(home, settings, files, stage_files(home, settings, files, progress), ledger, progress)


def withdraw_request(home: Home, settings: Settings, key: int, progress: Progress) -> None:
    """Set a request aside (the key of an insertion): an ingest of one row, which deletes it at its start.

    The caller writes the reject, which the ledger counts here.
    """
    number, ledger = name_withdrawn(home, np.array([key])), Ledger(home)
    event = {"kind": names.REQUESTS, "path": PATH, "sha256": "", "bytes": 0, "withdrawal_id": number}
    files = number_files(ledger, [event | {"options": json.dumps({SET_ASIDE: key})}])
    clear_staging(home)
    append_files(home, settings, files, [_stage_withdrawal(home, files[0])], ledger, progress)


def _stage_withdrawal(home: Home, file: File) -> StagedFile:
    """Stage the deletion of the request that a withdrawal names."""
    key, schema = json.loads(file["options"])[SET_ASIDE], SCHEMAS[names.REQUESTS]
    keys = KeyRange("request_key", key - 1, key)
    files = addresses_and_rows(home, names.REQUESTS, keys.files(list_data_files(home, names.REQUESTS)))
    columns = ["request_key", "owner", "subscription_id", "effective_at"]
    (rows,) = [rows for rows in read_slices([whole_file(path) for path, _ in files], columns, keys) if rows.num_rows]
    named = {name: rows.column(name) for name in columns[1:]} | {"row": pa.array([1]), "op": pa.array(["delete"])}
    writer = StagedWriter(staging_path(home), schema, sys.maxsize)
    try:
        nulls = {one.name: pa.nulls(1, one.type) for one in schema}
        writer.write(pa.RecordBatch.from_pydict(nulls | named, schema))
        start = int(micros(rows.column("effective_at"))[0])
        return StagedFile(file["file_seq"], writer.close(), 1, start)
    except NoRoom:
        raise PassingError(staging_path(home), errno.ENOSPC) from None
    finally:
        writer.discard()


def finish_interrupted_ingest(
    home: Home, settings: Settings, progress: Progress, ledger: Ledger | None = None
) -> Ledger:
    """Finish the ingest that the ledger says was interrupted, if there is one; return the ledger after it.

    ledger: if it was read already

    The home is locked. Raises HomeError if a file that must be read again has changed.
    """
    ledger = ledger or Ledger(home)
    files = [dict(file) for file in ledger.unfinished_ingest()]
    if not files:
        return ledger
    progress(f"finishing ingest {files[0]['ingest_id']}, which was interrupted")
    staged = load_staged(home, files)
    if staged is None and files[0]["withdrawal_id"] is not None:
        staged = [_stage_withdrawal(home, files[0])]
    if staged is None:
        for file in files:
            if not _is_unchanged(home, file):
                raise HomeError(
                    home.path,
                    f"ingest {file['ingest_id']} was interrupted, and its file {file['path']} is gone or has changed",
                    "put the file back as it was, then run this again",
                )
        staged = stage_files(home, settings, files, progress)
    _run_with_lineage(home, settings, files, staged, ledger, progress)
    return Ledger(home)


def _is_unchanged(home: Home, file: File) -> bool:
    """Whether the file has the content that the ledger says."""
    try:
        path = fetched_files.fetch(home, file)
    except PassingError as error:
        if error.number == errno.ESTALE:
            return False
        raise
    return Path(path).is_file() and sha256_of(path) == file["sha256"]


def _run_with_lineage(
    home: Home, settings: Settings, files: list[File], staged: list[StagedFile], ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Run the transaction, and report it as a lineage run."""
    rows_of = {TABLE_OF[files[0]["kind"]]: "accepted", names.REJECTS: "rejected"}
    outputs = [lineage_table(home, name, rows) for name, rows in rows_of.items()]
    inputs = [lineage.LineageDataset(file["path"]) for file in files]
    with lineage.record_run(home.path, "ingest", files[0]["ingest_id"], inputs, outputs) as figures:
        done = _run(home, settings, files, staged, ledger, progress)
        figures.update({name: sum(row[name] for row in done) for name in ("rows", "accepted", "rejected")})
    return done


def _run(
    home: Home, settings: Settings, files: list[File], staged: list[StagedFile], ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Deduplicate and write the rows of one ingest; each step may have been done by an earlier try."""
    kind, ingest_id = files[0]["kind"], files[0]["ingest_id"]
    # Objects are late before the watermark of the log before their round or file, minus the lateness.
    watermarks = _watermarks(ledger, files, staged)
    is_event = files[0].get("withdrawal_id") is not None
    judged = kind == names.REQUESTS and not is_event
    requests = bound_requests(home, settings, files, staged, progress) if judged else {}
    if kind == "objects":
        options = json.loads(files[0]["options"])
        judged_by = dict.fromkeys(watermarks, options[JUDGED_BY]) if JUDGED_BY in options else watermarks
        late_by = options["lateness_seconds"] * 1_000_000
        bounds = {seq: names.NO_TIME if mark is None else mark - late_by for seq, mark in judged_by.items()}
    else:
        bounds = {seq: one.last for seq, one in requests.items()}
    if is_event:
        deletion, concerned = log_key(files[0]["file_seq"], 1), json.loads(files[0]["options"])[SET_ASIDE]
        verdicts: tuple[str, ...] = (accept_deletion(deletion, concerned, staging_path(home)),)
        bounds = {files[0]["file_seq"]: names.MAX_INT64}
    else:
        verdicts = tuple(deduplicate(home, settings, kind, staged, bounds, staging_path(home), progress))
    beyond = {seq: one.reason for seq, one in requests.items()}
    # Each task writes the accepted and the rejected rows of one staged file.
    path_of = {file["file_seq"]: file["path"] for file in files}
    tasks = [
        AppendTask(kind, home.path, ingest_id, seq, part, path_of[seq], bounds[seq], beyond.get(seq, "late"), verdicts)
        for seq, part in ((one.file_seq, part) for one in staged for part in one.parts)
    ]
    counter = TaskCounter(progress, Counted(f"appending {kind}", "row", sum(task.staged.rows for task in tasks)))
    appended = get_engine(settings, home).run_tasks(tasks, append_staged_rows, counter)
    rows = [one.rows for one in appended if one.rows]
    commit_files(home, TABLE_OF[kind], rows, application="ingest", transaction=ingest_id)
    crash_point(f"ingest.{kind}_written")
    rejects = [one.rejects for one in appended if one.rejects]
    if rejects:
        commit_files(home, names.REJECTS, rejects, application="ingest", transaction=ingest_id)
    crash_point("ingest.rejects_written")
    files = [file | (requests[file["file_seq"]].columns if requests else {}) for file in files]
    done = _done_rows(files, staged, appended, watermarks)
    ledger_tables.append(home, names.FILES, [{k: v for k, v in f.items() if k != "reasons"} for f in done])
    crash_point("ingest.done")
    clear_staging(home)
    for file in done:
        progress(f"{file['path']}: {file['accepted']:,} accepted, {file['rejected']:,} rejected")
    return done


def _watermarks(ledger: Ledger, files: list[File], staged: list[StagedFile]) -> dict[int, int | None]:
    """Return the watermark of each file: the greatest ts (microseconds) in the files of objects before it, or None."""
    if files[0]["kind"] != "objects":
        return {file["file_seq"]: None for file in files}
    greatest = micros_of(ledger.watermark())
    watermarks: dict[int, int | None] = {}
    for one in staged:
        watermarks[one.file_seq] = greatest
        greatest = max((time for time in (greatest, one.max_time) if time is not None), default=None)
    return watermarks


def _done_rows(
    files: list[File],
    staged: list[StagedFile],
    appended: list[AppendedFile],
    watermarks: dict[int, int | None],
) -> list[dict[str, Any]]:
    """Return the files' ledger rows with status `done`, and the number of rejects by reason of each."""
    done = []
    written_of: dict[int, list[AppendedFile]] = {file["file_seq"]: [] for file in files}
    for one in appended:
        written_of[one.file_seq].append(one)
    for file, read in zip(files, staged, strict=True):
        written = written_of[file["file_seq"]]
        reasons = sum((Counter(one.reasons) for one in written), Counter[str]())
        times = [one.min_time for one in written if one.min_time is not None]
        done.append(
            {
                **file,
                "status": "done",
                "rows": read.last_row,
                "accepted": sum(one.accepted for one in written),
                "rejected": sum(reasons.values()) + (SET_ASIDE in json.loads(file["options"])),
                "attributed": sum(one.attributed for one in written) if file["kind"] == names.OBJECTS else None,
                "watermark": _to_datetime(watermarks[file["file_seq"]]),
                "min_ts": _to_datetime(min(times, default=None)),
                "max_ts": _to_datetime(read.max_time),
                "reasons": dict(reasons),
            }
        )
    return done


def _to_datetime(micros: int | None) -> dt.datetime | None:
    return None if micros is None else from_micros(micros)
