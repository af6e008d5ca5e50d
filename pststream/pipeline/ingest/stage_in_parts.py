"""Read input files into staged files, a large file by several tasks, each of which reads a part of it."""

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from pststream.base.errors import PstError
from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.engine.contract import Engine, TaskEnded
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
from pststream.input.row_chunks import FilePart
from pststream.pipeline.ingest.stage_file import StagedFile, folder_of, join_parts, stage_file

File = dict[str, Any]
"""A row of the ledger of files, with a path that can be read."""


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


@dataclass(frozen=True)
class CountTask:
    """A range of a file to count; `folder`: the one that the file must not lead out of."""

    range: FileRange
    folder: str | None


def stage_in_parts(
    engine: Engine,
    kind: str,
    folder: str,
    at: dt.datetime,
    files: Sequence[File],
    progress: Progress = no_progress,
    seconds: float | None = None,
) -> list[StagedFile]:
    """Return the staged files of input files (ledger rows) of one kind, in the order of `files`.

    Large files are split. A file of which any part cannot be read has the problem of the first such part. Raises
    TasksStalled if no file or part has been read for `seconds`.
    """
    parts = _split_files(engine, files, seconds)
    tasks = [StageTask(number, file, part) for number, (file, part) in enumerate(parts)]
    counter = _count_files(tasks, f"reading {kind}", progress)
    staged = engine.run_tasks(tasks, partial(_stage, kind, folder, at), counter, seconds)
    in_order = sorted(staged, key=lambda one: one[0])
    return [join_parts([one for _, one in group]) for _, group in groupby(in_order, lambda one: one[1].file_seq)]


def _count_files(tasks: Sequence[StageTask], step: str, progress: Progress) -> TaskEnded:
    """Return a function that counts the bytes of each task that has ended, and the files that have been read whole."""
    waiting = Counter(task.file["file_seq"] for task in tasks)
    sizes = [task.file["bytes"] // waiting[task.file["file_seq"]] for task in tasks]
    counter, files = StepCounter(progress, step, "byte", sum(sizes)), len(waiting)

    def count(stage: int, number: int) -> None:
        file_seq = tasks[number].file["file_seq"]
        waiting[file_seq] -= 1
        if not waiting[file_seq]:
            del waiting[file_seq]
        counter.add(sizes[number], f"{files - len(waiting):,} of {files:,} files" if files > 1 else "")

    return count


def _stage(kind: str, folder: str, at: dt.datetime, task: StageTask) -> tuple[int, StagedFile]:
    return task.number, stage_file(kind, folder, at, task.file, task.part)


def _split_files(
    engine: Engine, files: Sequence[File], seconds: float | None = None
) -> list[tuple[File, FilePart | None]]:
    """Return each file with each of its parts, or with None if it is read as a whole."""
    part_bytes = choose_part_bytes([_size(file["path"]) for file in files])
    formats = {file["path"]: json.loads(file["options"])["format"] for file in files}
    folders = {file["path"]: folder_of(file) for file in files}
    ranges: list[CountTask] = []
    parts_of: dict[str, list[FilePart]] = {}
    for path, format in formats.items():
        with suppress(PstError), readable_below(path, folders[path]) as readable:
            cuts = cut_into_ranges(readable, format, part_bytes)
            ranges += [CountTask(replace(one, path=path), folders[path]) for one in cuts]
            parts_of[path] = [] if cuts else split_row_groups(readable, format, part_bytes)
    counts = engine.run_tasks(ranges, _count_range, seconds=seconds) if ranges else []
    counted = sorted(counts, key=lambda one: one.range.start)
    split: list[tuple[File, FilePart | None]] = []
    for file in files:
        path = file["path"]
        if of_file := [one for one in counted if one.range.path == path]:
            with suppress(PstError), readable_below(path, folders[path]) as readable:
                parts_of[path] = make_parts([replace(one, range=replace(one.range, path=readable)) for one in of_file])
        parts = parts_of.get(path)
        split += [(file, part) for part in parts] if parts else [(file, None)]
    return split


def _count_range(task: CountTask) -> CountedRange:
    """Count a range; one that cannot be read has no records, so the file is not split and its one reader decides."""
    try:
        with readable_below(task.range.path, task.folder) as readable:
            return replace(count_range(replace(task.range, path=readable)), range=task.range)
    except PstError:
        return CountedRange(task.range, 0, -1, False, 0)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
