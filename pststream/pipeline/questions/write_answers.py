"""Answer the questions of one file, and write rows of the tables of answers, questions and rejects as data files."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pststream import names
from pststream.errors import InputFileError
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import cache_place
from pststream.pipeline.questions.answer_on_engine import answer_on_engine, build_missing
from pststream.pipeline.questions.log_questions import question_rows
from pststream.pipeline.questions.question_ledger import QuestionFile, WrittenAnswers, copy_name
from pststream.progress import Progress
from pststream.quality.reject_reasons import Reject
from pststream.questions.asked_questions import resolve_versions
from pststream.questions.open_snapshot import list_segments
from pststream.questions.read_questions import describe_rejects, read_question_parts
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.tables import TABLES

WRITTEN = (names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)


def write_answers(home: Home, settings: Settings, file: QuestionFile, progress: Progress) -> WrittenAnswers:
    """Answer the questions of a file from its copy; return the data files, which are not committed.

    A file that cannot be read is one reject, with row 0, and none of its questions is answered. Raises PassingError.
    """
    began = time.perf_counter()
    try:
        written = _write(home, settings, file, progress)
    except InputFileError as error:
        reject = Reject(0, "", "unreadable_file", None, f"{error.reason}. {error.hint}".rstrip(". "))
        rejects = _write_rejects(home, file, describe_rejects(file["path"], [reject]))
        written = WrittenAnswers({names.REJECTS: rejects}, 1, 1, 0, {})
    return WrittenAnswers(
        written.files, written.questions, written.rejected, written.rows,
        {**written.seconds, "write": time.perf_counter() - began - sum(written.seconds.values())},
    )  # fmt: skip


def _write(home: Home, settings: Settings, file: QuestionFile, progress: Progress) -> WrittenAnswers:
    seconds = dict.fromkeys(("segments", "answer"), 0.0)
    files: dict[str, list[DataFile]] = {name: [] for name in WRITTEN}
    questions = rejected = rows = 0
    engine, segments = get_engine(settings), list_segments(home, *cache_place(settings), file["objects_to"])
    with _local_copy(home, file) as path:
        for part in read_question_parts(path, settings, file["path"]):
            asked, rejects = resolve_versions(home, part, file["objects_to"])
            began = time.perf_counter()
            build_missing(engine, segments, progress)
            built = time.perf_counter()
            if asked:
                number = file["question_file"]
                answered = answer_on_engine(engine, segments, asked, home.path, number, progress)
                files[names.QUESTION_ANSWERS] += answered.files
                files[names.QUESTIONS] += _write_log(home, question_rows(number, asked, answered))
                rows += int(answered.counts.sum())
            files[names.REJECTS] += _write_rejects(home, file, rejects)
            questions += len(part.questions) + len(part.rejects)
            rejected += len(rejects)
            seconds["segments"] += built - began
            seconds["answer"] += time.perf_counter() - built
    return WrittenAnswers(files, questions, rejected, rows, seconds)


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
