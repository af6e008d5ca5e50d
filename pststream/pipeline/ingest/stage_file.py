"""Parse input files and write their rows, each with its reject reason or null, to staged files.

A large file is read by several tasks, each of which reads a part of it.
"""

import datetime as dt
import errno
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME, micros
from pststream.base.errors import NO_ROOM, InputFileError, PassingError, PstError, passing_number
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.utc_times import to_micros
from pststream.engine.contract import Engine
from pststream.input.confined_files import readable_below
from pststream.input.file_parts import (
    MIN_PART_BYTES,
    CountedRange,
    FileRange,
    choose_part_bytes,
    count_range,
    cut_into_ranges,
    make_parts,
    split_row_groups,
)
from pststream.input.parse_objects import ObjectOptions, parse_objects
from pststream.input.parse_requests import REQUESTS, parse_request_chunk, request_fields
from pststream.input.readers import read_chunks, read_requests
from pststream.input.row_chunks import REASONS, FilePart, check_row_number
from pststream.pipeline.ingest.fetch_objects import is_fetched
from pststream.pipeline.ingest.staged_rows import NoRoom, StagedRows, StagedWriter, read_staged
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.registry import postings_of, room_of
from pststream.queries.shapes.contract import RegionLimits
from pststream.queries.text.expression import MAYBE_REMARKABLE, REMARKS, find_remarks
from pststream.state import fetched_files
from pststream.state.home import Home
from pststream.state.tables import IDS
from pststream.tables.log_events import OPTION
from pststream.tables.owners import find_owner_fault

File = dict[str, Any]
"""A row of the ledger of files; that of an object of a bucket has the address of the home too."""


def split_future_objects(objects: pa.RecordBatch, latest: int) -> list[pa.RecordBatch]:
    """Split parsed objects (input/parse_objects.py) into those with a ts up to `latest` (microseconds) and the rest.

    The rest is rejected, and has the columns field, reason, detail and raw too; there is no second batch if none is
    later. The parsed fields stay, so that the objects can be retried.
    """
    is_future = pc.cast(objects.column("ts"), pa.int64()).to_numpy() > latest
    if not np.any(is_future):
        return [objects]
    future, reason = objects.filter(pa.array(is_future)), "future"
    reject = {"field": "ts", "reason": reason, "detail": REASONS[reason], "raw": future.column("ts").cast(pa.string())}
    for name, value in reject.items():
        future = future.append_column(name, pa.repeat(value, len(future)) if isinstance(value, str) else value)
    return [objects.filter(pa.array(~is_future)), future]


_REJECT = [pa.field(name, pa.string()) for name in ("field", "reason", "detail", "raw")]
SCHEMAS = {
    "objects": pa.schema(
        [
            ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()), ("text_breaks", BREAKS), ("terms", IDS),
            ("attributes", ATTRIBUTES), *_REJECT,
        ]
    ),
    "requests": pa.schema([*REQUESTS, ("room", pa.int64()), ("postings", pa.int64()), *_REJECT]),
}  # fmt: skip
"""Columns of a staged file; `reason` is null where the row passed the row rules."""

WHOLE_FILE_ROWS = 500_000
"""Rows of a staged file if one task reads a whole input file. One task appends the rows of a staged file to the log."""

OBJECT_BOUNDS = ("max_text_bytes", "max_id_bytes")
REQUEST_BOUNDS = (
    *("max_id_bytes", "max_payload_bytes", "max_expression_words"),
    *("max_k", "max_window_steps", "max_past_steps"),
)
MAX_AHEAD = "max_ahead_seconds"
MAX_ROOM = "max_file_room"
QUOTAS = ("quota_subscriptions", "quota_room", "quota_postings")
"""Settings that bound what the live subscriptions of an owner take together: their number, room and postings."""

STORED_SETTINGS = ("max_polygon_vertices", MAX_ROOM, *QUOTAS, *REQUEST_BOUNDS, MAX_AHEAD)
"""Settings that bound the values of new rows; the ledger stores them with the options of a file."""

MAX_REMARKABLE, MAX_SHOWN = 100, 200
"""Requests of a batch that are looked at for remarks, and characters of the keywords of each."""

FOLDER = "folder"
"""Key in the options of a file: the folder that it must not lead out of."""

OWNER = "owner"
"""Key in the options of a file: the owner of its requests."""

Parsed = TypeVar("Parsed")

UNFORESEEN = "reading it failed with an unforeseen error"
TIME_OF = {"objects": "ts", "requests": "effective_at"}
ID_OF = {"objects": "object_id", "requests": "subscription_id"}


@dataclass(frozen=True)
class StagedFile:
    """The rows of one input file in staged files.

    parts     the staged files, in the order of the rows
    last_row  number of the last row that was read
    max_time  greatest time (microseconds) of the rows that passed the row rules, None if there is none
    problem   (path, reason, hint) of an input file that cannot be read
    asked     what its insertions that passed the row rules take together, in the order of QUOTAS
    passing   number of the system error, which may pass, for which the input file was not read; else 0
    refusal   why its rows do not go on the disk, which has room for others; else ""
    undated   whether it has requests without a time of their own
    id_bytes  bytes of the ids of its rows
    faults    number of rejected rows by (field, reason)
    exists    whether the node that read the input file saw it at all
    remarks   [row, keywords, remark] of the first request for each kind of remark (queries/text/expression.py)
    """

    file_seq: int
    parts: tuple[StagedRows, ...]
    last_row: int
    max_time: int | None
    problem: tuple[str, str, str] | None = None
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    exists: bool = True
    passing: int = 0
    refusal: str = ""
    undated: bool = False
    asked: tuple[int, ...] = (0, 0, 0)
    id_bytes: int = 0
    remarks: Mapping[str, tuple[int, str, str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts)


def stage_file(kind: str, folder: str, at: dt.datetime, file: File, part: FilePart | None = None) -> StagedFile:
    """Read an input file, or a part of it, into staged files in `folder`.

    at: the time when the ingest began
    Raises PassingError if the rows cannot be written for another reason than that the disk has no room for them.
    """
    writer = StagedWriter(folder, SCHEMAS[kind], WHOLE_FILE_ROWS if part is None else sys.maxsize)
    last_row, greatest, problem, faults, passing = 0, names.NO_TIME, None, Counter[tuple[str, str]](), 0
    asked = np.zeros(len(QUOTAS), np.int64)
    parts: tuple[StagedRows, ...] = ()
    refusal, undated, id_bytes = "", False, 0
    remarks = dict[str, tuple[int, str, str]]()
    try:
        try:
            with open_input(file) as path:
                for parsed in explain_failures(path, _parse(kind, file | {"path": path}, at, part)):
                    if parsed.num_rows:
                        rows = _add_missing_columns(parsed, SCHEMAS[kind])
                        rows = _add_room(rows, to_micros(at)) if kind == "requests" else rows
                        last_row = max(last_row, int(rows.column("row").to_numpy().max()))
                        check_row_number(path, last_row)
                        writer.write(rows)
                        id_bytes += rows.column(ID_OF[kind]).nbytes
                        accepted = pc.is_null(rows.column("reason"))
                        rejected = rows.filter(pc.invert(accepted))
                        faults.update(zip(rejected.column("field").to_pylist(), rejected.column("reason").to_pylist()))
                        times = micros(rows.column(TIME_OF[kind]).filter(accepted))
                        greatest = int(times.max(initial=greatest))
                        undated |= kind == names.REQUESTS and bool((times == to_micros(at)).any())
                        if kind == "requests":
                            asked += taken_by(rows.filter(accepted)).sum(axis=0)
                            _find_remarks(rows.filter(accepted), remarks)
        except InputFileError as error:
            problem = (error.path, error.reason, error.hint)
        parts = writer.close()
    except NoRoom as error:
        passing, refusal = errno.ENOSPC, error.reason
    except PassingError as error:
        passing = error.number
    except OSError as error:  # of writing the rows
        passing = passing_number(error)
        if passing not in NO_ROOM:
            raise (PassingError(folder, passing) if passing else error) from None
    finally:
        writer.discard()
    return StagedFile(
        file["file_seq"],
        parts,
        last_row,
        None if greatest == names.NO_TIME else greatest,
        problem,
        faults,
        problem is None or is_fetched(file["path"]) or Path(file["path"]).exists(),
        passing,
        refusal,
        undated,
        tuple(asked.tolist()),
        id_bytes,
        remarks,
    )


def _find_remarks(rows: pa.RecordBatch, remarks: dict[str, tuple[int, str, str]]) -> None:
    """Add the first row, its keywords and the remark for each kind of remark on keywords that has none yet."""
    if len(remarks) == len(REMARKS):
        return
    rows = rows.filter(pc.match_substring_regex(rows.column("keywords"), MAYBE_REMARKABLE)).slice(0, MAX_REMARKABLE)
    for row, keywords in zip(rows.column("row").to_pylist(), rows.column("keywords").to_pylist()):
        for kind, remark in find_remarks(keywords[:MAX_SHOWN]).items():
            remarks.setdefault(kind, (row, keywords[:MAX_SHOWN], remark))


def with_options(file: File, more: Mapping[str, Any]) -> File:
    """Return a file with more options."""
    return file | {"options": json.dumps(json.loads(file["options"]) | more, sort_keys=True)}


@contextmanager
def open_input(file: File) -> Iterator[str]:
    """Yield a local path with the name of an input file, under which readers open this very file; on any node.

    Raises InputFileError or PassingError.
    """
    path = fetched_files.fetch(Home(file["home"]), file) if is_fetched(file["path"]) else file["path"]
    with readable_below(path, folder_of(file)) as readable:
        yield readable


def folder_of(file: File) -> str | None:
    """Return the folder that an input file must not lead out of; None if there is none."""
    folder: str | None = json.loads(file["options"]).get(FOLDER)
    return folder


def join_parts(parts: Sequence[StagedFile]) -> StagedFile:
    """Return the staged file of a whole input file from those of its parts, in order; its problem is the first one."""
    return StagedFile(
        parts[0].file_seq,
        tuple(rows for one in parts for rows in one.parts),
        max(one.last_row for one in parts),
        max((one.max_time for one in parts if one.max_time is not None), default=None),
        next((one.problem for one in parts if one.problem), None),
        sum((one.faults for one in parts), Counter()),
        all(one.exists for one in parts),
        next((one.passing for one in parts if one.passing), 0),
        max(one.refusal for one in parts),
        any(one.undated for one in parts),
        tuple(map(sum, zip(*(one.asked for one in parts)))),
        sum(one.id_bytes for one in parts),
        {kind: remark for one in reversed(parts) for kind, remark in one.remarks.items()},
    )


def last_row_with_room(one: StagedFile, file: File) -> int:
    """Return the last row of a file of requests that has room: up to it, the requests take at most `max_file_room`.

    file: its row of the ledger. The rows are read only if those of the whole file take more.
    """
    most, room = json.loads(file["options"]).get(MAX_ROOM, names.MAX_INT64), 0
    if one.asked[QUOTAS.index("quota_room")] <= most:
        return names.MAX_INT64
    for rows in read_staged(one.parts, ["row", "reason", "room"]):
        rows = rows.filter(pc.is_null(rows.column("reason")))
        rooms = room + np.cumsum(rows.column("room").to_numpy())
        if len(rooms) and rooms[-1] > most:
            return int(rows.column("row")[int(np.searchsorted(rooms, most, "right"))].as_py()) - 1
        room = int(rooms[-1]) if len(rooms) else room
    return names.MAX_INT64


def taken_by(rows: pa.RecordBatch) -> np.ndarray:
    """Return what each of some requests takes, in the order of QUOTAS: int64[n, 3]; nothing if it deletes."""
    inserted = pc.not_equal(rows.column("op"), "delete").cast(pa.int64())
    return np.stack([inserted.to_numpy(), rows.column("room").to_numpy(), rows.column("postings").to_numpy()], 1)


def explain_failures(path: str, parsed: Iterator[Parsed]) -> Iterator[Parsed]:
    """Pass on what a reader yields; turn its unforeseen error into InputFileError, which does not stop other files."""
    try:
        yield from parsed
    except (PstError, OSError, MemoryError):
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}: {(str(error).splitlines() or [''])[0]}"
        raise InputFileError(path, f"{UNFORESEEN}: {what}", "please report it") from error


def _parse(kind: str, file: File, at: dt.datetime, part: FilePart | None) -> Iterator[pa.RecordBatch]:
    options = json.loads(file["options"])
    if kind == "requests":
        bounds = {name: options[name] for name in REQUEST_BOUNDS}
        limits = RequestLimits(RegionLimits(options["max_polygon_vertices"]), **bounds)
        if fault := find_owner_fault(options[OWNER]):
            raise InputFileError(file["path"], fault, "rename the folder, whose name is the owner")
        for requests in read_requests(file["path"], options["format"], request_fields(), part, limits.longest_row):
            zone, unit = options["timezone"], options["time_unit"]
            yield from parse_request_chunk(requests, at, zone, limits, options[OWNER], unit)
        return
    parsing, ahead = replace(object_options(options), sha256=file["sha256"]), options[MAX_AHEAD]
    latest = to_micros(at) + ahead * 1_000_000 if ahead else names.NEVER_US
    for chunk in read_chunks(file["path"], options["format"], parsing.sources, part, parsing.kept):
        objects, rejects = parse_objects(chunk, parsing)
        yield from split_future_objects(objects, latest)
        yield rejects


def object_options(options: dict[str, Any]) -> ObjectOptions:
    """Return the reader options that the ledger stores for a file; raises UsageError for invalid ones."""
    columns = {name: tuple(sources) for name, sources in options["columns"]}
    bounds = {name: options[name] for name in OBJECT_BOUNDS if name in options}
    times = {name: options[name] for name in ("timezone", "time_unit")}
    kept = options.get("attributes", True)
    return ObjectOptions(
        columns,
        dict(options["constants"]),
        attributes=kept if isinstance(kept, bool) else tuple(kept),
        types=dict(options.get("types", ())),
        source=options.get("source", ""),
        is_retry=OPTION in options,
        **times,
        **bounds,
    )


def _add_missing_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, null where the rows have none."""
    present, count = set(rows.schema.names), rows.num_rows
    columns = [rows.column(f.name).cast(f.type) if f.name in present else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _add_room(rows: pa.RecordBatch, now: int) -> pa.RecordBatch:
    """Return staged requests with the room and the postings that they take."""
    for name, values in (("room", room_of(rows, now)), ("postings", postings_of(rows))):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows


@dataclass(frozen=True)
class StageTask:
    """A part of a file to read, or the whole file if `part` is None; tasks are numbered in the order of the rows."""

    number: int
    file: File
    part: FilePart | None

    @property
    def weight(self) -> float:
        """The work as a share of a full task; a part of a file is about a full one."""
        return float(self.file["bytes"]) / MIN_PART_BYTES if self.part is None else 1.0


def stage_in_parts(
    engine: Engine,
    kind: str,
    folder: str,
    at: dt.datetime,
    files: Sequence[File],
    progress: Progress = no_progress,
    seconds: float | None = None,
) -> list[StagedFile]:
    """Return the staged files of input files of one kind, in the order of `files`.

    Large files are split. A file of which any part cannot be read has the problem of the first such part. Raises
    TasksStalled if no file or part has been read for `seconds`.
    """
    parts = _split_files(engine, files, seconds)
    tasks = [StageTask(number, file, part) for number, (file, part) in enumerate(parts)]
    counter = TaskCounter(progress, Counted(f"reading {kind}", "byte", sum(file["bytes"] for file in files)))
    staged = engine.run_tasks(tasks, partial(_stage, kind, folder, at), counter, seconds)
    in_order = sorted(staged, key=lambda one: one[0])
    return [join_parts([one for _, one in group]) for _, group in groupby(in_order, lambda one: one[1].file_seq)]


def _stage(kind: str, folder: str, at: dt.datetime, task: StageTask) -> tuple[int, StagedFile]:
    return task.number, stage_file(kind, folder, at, task.file, task.part)


def _split_files(
    engine: Engine, files: Sequence[File], seconds: float | None = None
) -> list[tuple[File, FilePart | None]]:
    """Return each file with each of its parts, or with None if it is read as a whole."""
    part_bytes = choose_part_bytes([file["bytes"] for file in files])
    large = {file["path"]: file for file in files if file["bytes"] >= part_bytes // 2}
    if not large:
        return [(file, None) for file in files]
    cuts = engine.run_tasks([_CutTask(file) for file in large.values()], partial(_cut, part_bytes), seconds=seconds)
    parts_of = {path: parts for path, _, parts in cuts}
    ranges = [(large[path], one) for path, of_file, _ in cuts for one in of_file]
    counts = engine.run_tasks(ranges, _count_range, seconds=seconds) if ranges else []
    counted: dict[str, list[CountedRange]] = {}
    for count in sorted(counts, key=lambda one: one.range.start):
        counted.setdefault(count.range.path, []).append(count)
    again = {path: of_file for path, of_file in counted.items() if any(one.quoted for one in of_file)}
    parts_of |= {path: make_parts(of_file) for path, of_file in counted.items() if path not in again}
    if again:  # ranges that begin in quotes are counted again
        tasks = [(large[path], of_file) for path, of_file in again.items()]
        parts_of |= dict(engine.run_tasks(tasks, _count_again, seconds=seconds))
    split: list[tuple[File, FilePart | None]] = []
    for file in files:
        parts = parts_of.get(file["path"])
        split += [(file, part) for part in parts] if parts else [(file, None)]
    return split


@dataclass(frozen=True)
class _CutTask:
    """A large file, of which little is read to cut it."""

    file: File
    weight: float = 0.0


def _cut(part_bytes: int, task: _CutTask) -> tuple[str, list[FileRange], list[FilePart]]:
    """Return the path of a file and its ranges, or its parts of row groups; neither if it is not to be split."""
    path, format = task.file["path"], json.loads(task.file["options"])["format"]
    with suppress(PstError), open_input(task.file) as readable:
        cuts = cut_into_ranges(readable, format, part_bytes)
        parts = [] if cuts else split_row_groups(readable, format, part_bytes)
        return path, [replace(one, path=path) for one in cuts], parts
    return path, [], []


def _count_range(task: tuple[File, FileRange]) -> CountedRange:
    """Count a range; one that cannot be read has no records, so the file is not split and its one reader decides."""
    file, range = task
    with suppress(PstError), open_input(file) as readable:
        return replace(count_range(replace(range, path=readable)), range=range)
    return CountedRange(range, 0, -1, False, 0)


def _count_again(task: tuple[File, list[CountedRange]]) -> tuple[str, list[FilePart]]:
    file, counted = task
    with suppress(PstError), open_input(file) as readable:
        return file["path"], make_parts([replace(one, range=replace(one.range, path=readable)) for one in counted])
    return file["path"], []
