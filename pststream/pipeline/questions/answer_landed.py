"""Answer the new files of questions of a landing folder, each exactly once, and write the answers next to them.

A file is known by its path and its content. It starts with a row of the ledger `question_files`, which says up to which
position of the log objects count. Its answers are written to data files, listed in the home, committed under the number
of the file, and read again for `answers/<file>.parquet`. A run that was killed at any point is finished by the next
one, with the same rows. Matching and ingestion go on meanwhile: only the scope QUESTIONS of the home is locked.
"""

import math
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from pststream.base import names
from pststream.base.atomic_files import TEMPORARY_PREFIX
from pststream.base.errors import InputFileError, PstError, QuestionsBusy, RetryableError
from pststream.base.progress import Progress, no_progress, with_fields
from pststream.base.texts import counted, escape_controls
from pststream.engine.running_engine import get_engine
from pststream.engine.spark_session import spark_has_died
from pststream.engine.task_context import cache_place
from pststream.input.row_chunks import Reject
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES, isolated_reader, noted_reading
from pststream.pipeline.questions.answer_on_engine import AnsweredPart, answer_on_engine, build_missing
from pststream.pipeline.questions.question_ledger import FOLDER as QUESTIONS
from pststream.pipeline.questions.question_ledger import (
    NOTHING_ANSWERED,
    QuestionFile,
    WrittenAnswers,
    commit_answers,
    copy_file,
    copy_name,
    delete_needed,
    delete_unneeded,
    describe_left,
    drop_written,
    finish_file,
    known_files,
    load_written,
    new_question_files,
    note_name,
    question_paths,
    save_written,
    settings_of,
)
from pststream.queries.shapes.contract import Region
from pststream.search.answer_rows import ANSWERS, ASKED, with_attributes
from pststream.search.open_snapshot import list_segments
from pststream.search.read_questions import (
    AskedQuestion,
    Question,
    ReadQuestions,
    describe_rejects,
    read_question_parts,
    resolve_versions,
)
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import RUNNER_WAIT_SECONDS, Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import TableReader
from pststream.tables.table_files import TableWriter

BATCH_ROWS = 8_192


def question_rows(number: int, asked: Sequence[AskedQuestion], answered: AnsweredPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `questions` of a file's answered questions: what a model of their cost needs."""
    schema = TABLES[names.QUESTIONS].schema
    for low in range(0, len(asked), BATCH_ROWS):
        positions = range(low, min(low + BATCH_ROWS, len(asked)))
        records = [
            {"question_file": number, **_row(asked[position].question, answered, position)} for position in positions
        ]
        yield pa.RecordBatch.from_pylist(records, schema)


def _row(question: Question, answered: AnsweredPart, position: int) -> dict[str, Any]:
    parsed, distance = question.parsed, float(answered.distances[position])
    after, _, up_to, _ = answered.bounds[position].tolist()
    box = _bounding_box(parsed.region) if parsed.region else (*(parsed.point or ()), *(parsed.point or ()))
    return {
        "row": question.row,
        "kind": question.kind.name,
        **dict(zip(("west", "south", "east", "north"), box)),
        "clauses": [list(clause) for clause in parsed.clauses],
        "conditions": question.where,
        "window_after": None if after == names.NO_TIME else after,
        "window_to": None if up_to == names.NO_TIME else up_to,
        "k": parsed.k,
        "rows": int(answered.counts[position]),
        "distance_m": None if math.isnan(distance) else distance,
    }


def _bounding_box(region: Region) -> tuple[float, float, float, float]:
    """Return west, south, east, north; west > east if the region is one across the antimeridian."""
    west, south, east, north = zip(*region.boxes)
    if len(region.boxes) == 2 and min(west) == -180.0 and max(east) == 180.0:
        return max(west), min(south), min(east), max(north)
    return min(west), min(south), max(east), max(north)


@dataclass
class PartReader:
    """Reads the questions of a file.

    path      of the copy
    name      path of the file that is reported
    isolated  whether a process of its own reads each part, since reading may kill it
    """

    path: str
    settings: Settings
    name: str
    isolated: bool = False
    _parts: Iterator[ReadQuestions] | None = None
    _rest: ReadQuestions | None = None

    def read(self, after: int, most: int) -> ReadQuestions | None:
        """Return the next `most` questions of the file, after this row, where the part before ended; None: there are
        none.

        Raises InputFileError if the file cannot be read, or if reading it exceeds the limits of the settings.
        """
        part, self._rest = self._rest or self._read(after), None
        if part is not None and len(part.questions) > most:
            part, self._rest = _split(part, most)
        return part

    def _read(self, after: int) -> ReadQuestions | None:
        arguments = (self.path, self.settings, self.name, after)
        if not self.isolated:
            self._parts = self._parts or read_parts(*arguments)
            try:
                return next(self._parts, None)
            except MemoryError:
                self.isolated = True
        with isolated_reader(read_part) as reader:
            return reader.read(arguments, self.name, self.settings)


def _split(part: ReadQuestions, count: int) -> tuple[ReadQuestions, ReadQuestions]:
    """Return the first questions of a part, and the others; each with the rejects before its last row."""
    last = part.questions[count - 1].row
    early = [one for one in part.rejects if one["row"] < last]
    late = [one for one in part.rejects if one["row"] > last]
    return ReadQuestions(part.questions[:count], early), ReadQuestions(part.questions[count:], late)


def read_parts(path: str, settings: Settings, name: str, after: int) -> Iterator[ReadQuestions]:
    """Yield the questions and rejects after a row, some at a time."""
    for part in read_question_parts(path, settings, name):
        questions = [one for one in part.questions if one.row > after]
        rejects = [one for one in part.rejects if one["row"] > after]
        if questions or rejects:
            yield ReadQuestions(questions, rejects)


def read_part(path: str, settings: Settings, name: str, after: int) -> ReadQuestions | None:
    """Return the first questions and rejects after a row; None if there are none."""
    return next(read_parts(path, settings, name, after), None)


MAX_TRIES = 5
"""After so many dead tries at the same questions the rest of a file is not answered."""

FEWER = {3: 1_000, 4: 50}
"""Questions that are answered together after so many dead tries, and from then on."""

SPLIT = "put them there again in smaller files"
RETRY = "run this again when the disk or the store answers and has room"


def write_answers(home: Home, settings: Settings, file: QuestionFile, progress: Progress) -> WrittenAnswers:
    """Answer the questions of a file from its copy, a part after the other; return the data files, which are not
    committed.

    Parts are listed in the home when they are written, and an earlier try's are kept. A file that cannot be read is one
    reject, with row 0, and none of its questions is answered. Raises RetryableError for a system error.
    """
    written, settings = load_written(home, file) or WrittenAnswers(complete=False), settings_of(settings, file)
    try:
        with _local_copy(home, file) as path:
            reader = PartReader(path, settings, file["path"])
            answer = _Answerer(home, settings, file, progress)
            while not written.complete:
                written = _try_part(home, file, reader, answer, written)
                if not written.complete:
                    save_written(home, file, written)
                    crash_point("questions.part_listed")
    except InputFileError as error:
        drop_written(home, file, written)
        return _reject_file(home, file, WrittenAnswers(), "unreadable_file", f"{error.reason}. {error.hint}")
    return written


def _try_part(
    home: Home, file: QuestionFile, reader: PartReader, answer: "_Answerer", written: WrittenAnswers
) -> WrittenAnswers:
    """Answer the next questions of a file, unless too many tries of that have died; return all that is written.

    After DEAD_TRIES the questions are read in a process of their own, and after more fewer are answered together.
    """
    content = file["sha256"]
    with noted_reading(home, [content], note_name(file), (PstError, KeyboardInterrupt)) as suspects:
        tries = suspects.get(content, 0)
        if tries >= MAX_TRIES:
            detail = f"{MAX_TRIES} processes ended while they answered those after row {written.last_row:,}. {SPLIT}"
            return _reject_file(home, file, written, "unanswered", detail)
        written = replace(written, most=min(written.most, FEWER.get(tries, written.most)))
        reader.isolated |= tries >= DEAD_TRIES
        began = time.perf_counter()
        part = reader.read(written.last_row, written.most)
        if part is None:
            return replace(written, complete=True)
        try:
            return answer.answer_part(part, written, time.perf_counter() - began)
        except OSError as error:
            if spark_has_died():  # the questions may have killed it
                raise
            reason = f"{file['path']}: its questions cannot be answered now: {error}"
            raise RetryableError(escape_controls(reason), RETRY) from error


def _reject_file(home: Home, file: QuestionFile, written: WrittenAnswers, reason: str, detail: str) -> WrittenAnswers:
    """Return what is written with a reject of the file, after which nothing more of it is answered."""
    rejects = describe_rejects(file["path"], [Reject(0, "", reason, None, detail.rstrip(". "))])
    of_file = _write_rejects(home, file, rejects)
    files = {**written.files, names.REJECTS: [*written.files.get(names.REJECTS, []), *of_file]}
    questions, rejected = written.questions + 1, written.rejected + 1
    return replace(written, files=files, questions=questions, rejected=rejected, complete=True)


class _Answerer:
    """Answers parts of a file of questions, about the same segments."""

    def __init__(self, home: Home, settings: Settings, file: QuestionFile, progress: Progress) -> None:
        self._home, self._file, self._progress = home, file, progress
        self._engine = get_engine(settings, home)
        self._segments = list_segments(home, *cache_place(settings), file["objects_to"])

    def answer_part(self, part: ReadQuestions, before: WrittenAnswers, read_seconds: float) -> WrittenAnswers:
        """Return what was written before and for this part; its data files are not committed."""
        began, home, file = time.perf_counter(), self._home, self._file
        written = (names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)
        files = {name: list(before.files.get(name, [])) for name in written}
        asked, rejects = resolve_versions(home, part, file["objects_to"])
        resolved = time.perf_counter()
        build_missing(self._engine, self._segments, self._progress)
        built = answered_at = time.perf_counter()
        rows = before.rows
        if asked:
            number = file["question_file"]
            answered = answer_on_engine(self._engine, self._segments, asked, home.path, number, self._progress)
            answered_at = time.perf_counter()
            files[names.QUESTION_ANSWERS] += answered.files
            writer = FileWriter(home.table(names.QUESTIONS), TABLES[names.QUESTIONS].schema)
            for batch in question_rows(number, asked, answered):
                writer.write(batch)
            files[names.QUESTIONS] += _closed(writer)
            rows += int(answered.counts.sum())
        files[names.REJECTS] += _write_rejects(home, file, rejects)
        spent = {
            "read": read_seconds,
            "segments": built - resolved,
            "answer": answered_at - built,
            "write": time.perf_counter() - answered_at + resolved - began,
        }
        return WrittenAnswers(
            files,
            before.questions + len(part.questions) + len(part.rejects),
            before.rejected + len(rejects),
            rows,
            {step: before.seconds.get(step, 0.0) + value for step, value in spent.items()},
            max([one.row for one in part.questions] + [one["row"] for one in part.rejects]),
            complete=False,
            most=before.most,
        )


def _write_rejects(home: Home, file: QuestionFile, rejects: list[dict[str, Any]]) -> list[DataFile]:
    schema = TABLES[names.REJECTS].schema
    writer = FileWriter(home.table(names.REJECTS), schema)
    common = {"kind": "questions", "ingest_id": file["ingest_id"], "record": None}
    if rejects:
        writer.write(pa.RecordBatch.from_pylist([{**common, **reject} for reject in rejects], schema))
    return _closed(writer)


def _closed(writer: FileWriter) -> list[DataFile]:
    written = writer.close()
    return [written] if written else []


@contextmanager
def _local_copy(home: Home, file: QuestionFile) -> Iterator[str]:
    """Yield the path of the copy of a file on this node. Raises InputFileError if somebody has removed it."""
    name, local = copy_name(file), home.storage.local_path(home.path)
    if not home.files.exists(name):
        raise InputFileError(file["path"], "its copy in the home is gone", "put the file there again, changed")
    if local is not None:
        yield str(local / name)
        return
    with tempfile.TemporaryDirectory(prefix="pststream-questions-") as folder:
        path = Path(folder, Path(name).name)
        home.files.download(name, path)
        yield str(path)


FOLDER = "answers"
"""Subfolder of a landing folder with the answers."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_answers_file(home: Home, landing: str, file: QuestionFile) -> str | None:
    """Write the answers of a file whose rows are committed; return the path of the answers.

    Returns None for a file that is not in this landing folder. Raises RetryableError if the answers cannot be written.
    """
    folder, path = Path(landing, QUESTIONS).absolute(), Path(file["path"])
    if not path.is_relative_to(folder):
        return None
    place = (FOLDER, *path.relative_to(folder).parts[:-1], f"{path.name}.parquet")
    answers = str(Path(landing).absolute().joinpath(*place))
    try:
        with _replacing_below(landing, place) as target:
            writer = TableWriter(target, ".parquet", ASKED)
            for table in read_answers(home, file["question_file"]):
                writer.write(table)
            writer.close()
    except OSError as error:
        reason = f"{answers}: the answers cannot be written: {error.strerror or error}"
        raise RetryableError(reason, "they are in the table question_answers; the next run writes them") from None
    return answers


def read_answers(home: Home, number: int) -> Iterator[pa.Table]:
    """Yield the stored answers of a file of questions (ASKED), by the rows of the questions and rank."""
    column = "question_file"
    mine = KeyRange(column, number - 1, number)
    files = list(mine.files(list_data_files(home, names.QUESTION_ANSWERS)))
    # Compaction keeps the order of the rows, and a file ends with the beginning of later ones.
    files.sort(key=lambda one: (one.low.get(column, 0), one.high.get(column, 0), one.low.get("row", 0)))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.QUESTION_ANSWERS, files)]
    reader = TableReader(home)
    for rows in read_slices(slices, [column, "object_key", *ANSWERS.names], mine):
        if rows.num_rows:
            yield with_attributes(reader, pa.Table.from_batches([rows]))


@contextmanager
def _replacing_below(landing: str, place: Sequence[str]) -> Iterator[BinaryIO]:
    """Yield a new file that gets its name, below the landing folder, when the block ends; folders are created.

    Each folder is opened from the one above and must not be a link, which anybody may put into a landing folder.
    """
    folder = os.open(os.path.realpath(landing), os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in place[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            below = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        temporary = TEMPORARY_PREFIX + uuid.uuid4().hex
        try:
            with os.fdopen(os.open(temporary, _FILE_FLAGS, 0o666, dir_fd=folder), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, place[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def answer_landed_questions(
    home: Home,
    settings: Settings,
    landing: str,
    paths: Sequence[str] | None = None,
    progress: Progress = no_progress,
    wait_seconds: float = RUNNER_WAIT_SECONDS,
) -> dict[str, Any]:
    """Answer the new files of `landing/questions`, and finish what was interrupted.

    paths: only these files of the folder; None: all

    Returns {"files", "questions", "rejected", "rows" (of the answers), "seconds": {step: s}, "answers": [paths],
    "passed_over": [paths of files that could not be read now]}. Raises QuestionsBusy if another process still answers
    files after `wait_seconds`; at the end RetryableError if answers could not be written to the folder.
    """
    home.check()
    log = with_fields(progress, step="questions")
    listed = question_paths(landing) if paths is None else [str(Path(path).absolute()) for path in paths]
    with home.locked():
        offered = new_question_files(home, landing, listed, known_files(home), log)
    summary = {**NOTHING_ANSWERED, "seconds": {}, "answers": [], "passed_over": []}
    with home.locked(names.QUESTIONS, QuestionsBusy, wait_seconds):
        known = known_files(home)  # another process may have answered some while this one waited
        delete_unneeded(home, known.unfinished)
        failures = [_finish(home, settings, landing, file, summary, log) for file in known.unfinished]
        for one in (one for one in offered if (one.path, one.sha256) not in known.offered):
            file = copy_file(home, settings, landing, one)
            if file is None:
                log(describe_left(one))
                summary["passed_over"].append(one.path)
                continue
            crash_point("questions.copied")
            ledger_tables.append(home, names.QUESTION_FILES, [file])
            crash_point("questions.started")
            failures.append(_finish(home, settings, landing, file, summary, log))
            if file["question_file"] % ledger_tables.COMPACT_EVERY == 0:
                ledger_tables.compact(home, names.QUESTION_FILES)
    for failure in filter(None, failures):
        raise failure
    return summary


def _finish(
    home: Home, settings: Settings, landing: str, file: QuestionFile, summary: dict[str, Any], progress: Progress
) -> RetryableError | None:
    """Do every step of a file that is started; each may have been done by an earlier try.

    Returns the error if the answers cannot be written to the landing folder: then the rows are committed, and the next
    run writes them.
    """
    written = load_written(home, file)
    if written is None or not written.complete:
        written = write_answers(home, settings, file, progress)
        crash_point("questions.answered")
        save_written(home, file, written)
        crash_point("questions.listed")
    began = time.perf_counter()
    commit_answers(home, file, written)
    try:
        answers = write_answers_file(home, landing, file)
    except RetryableError as error:
        return error
    crash_point("questions.file_written")
    seconds = {**written.seconds, "commit": time.perf_counter() - began}
    counts = {"questions": written.questions, "rejected": written.rejected, "rows": written.rows}
    finish_file(home, file, counts, seconds)
    crash_point("questions.done")
    delete_needed(home, file)
    summary |= {name: summary[name] + count for name, count in {"files": 1, **counts}.items()}
    summary["seconds"] = {step: summary["seconds"].get(step, 0.0) + value for step, value in seconds.items()}
    summary["answers"] += [answers] if answers else []
    done = f"{counted(written.questions, 'question')}, {written.rejected:,} rejected"
    progress(escape_controls(f"{file['path']}: {done}; {counted(written.rows, 'row')}"))
    return None
