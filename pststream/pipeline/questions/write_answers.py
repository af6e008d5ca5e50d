"""Answer the questions of one file, and write rows of the tables of answers, questions and rejects as data files."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pststream.base import names
from pststream.base.errors import InputFileError, PstError, RetryableError
from pststream.base.escape_text import escape_controls
from pststream.base.progress import Progress
from pststream.engine.running_engine import engine_is_alive, get_engine
from pststream.engine.task_context import cache_place
from pststream.input.reject_reasons import Reject
from pststream.pipeline.ingest.reading_note import DEAD_TRIES, noted_reading
from pststream.pipeline.questions.answer_on_engine import answer_on_engine, build_missing
from pststream.pipeline.questions.log_questions import question_rows
from pststream.pipeline.questions.question_ledger import QuestionFile, settings_of
from pststream.pipeline.questions.read_parts import PartReader
from pststream.pipeline.questions.written_answers import (
    WrittenAnswers,
    copy_name,
    drop_written,
    load_written,
    note_name,
    save_written,
)
from pststream.search.asked_questions import resolve_versions
from pststream.search.open_snapshot import list_segments
from pststream.search.read_questions import ReadQuestions, describe_rejects
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.tables import TABLES

WRITTEN = (names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)


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
            if not engine_is_alive():  # the questions may have killed it
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
        self._engine = get_engine(settings)
        self._segments = list_segments(home, *cache_place(settings), file["objects_to"])

    def answer_part(self, part: ReadQuestions, before: WrittenAnswers, read_seconds: float) -> WrittenAnswers:
        """Return what was written before and for this part; its data files are not committed."""
        began, home, file = time.perf_counter(), self._home, self._file
        files = {name: list(before.files.get(name, [])) for name in WRITTEN}
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
            files[names.QUESTIONS] += _write_log(home, question_rows(number, asked, answered))
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


def _write_log(home: Home, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
    writer = FileWriter(home.table(names.QUESTIONS), TABLES[names.QUESTIONS].schema)
    for batch in rows:
        writer.write(batch)
    return _closed(writer)


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
