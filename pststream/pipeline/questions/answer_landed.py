"""Answer the new files of questions of a landing folder, each exactly once, and write the answers next to them.

A file is known by its path and its content. It starts with a row of the ledger `question_files`, which says up to which
position of the log objects count. Its answers are written to data files, listed in the home, committed under the number
of the file, and read again for `answers/<file>.parquet`. A run that was killed at any point is finished by the next
one, with the same rows. Matching and ingestion go on meanwhile: only the scope QUESTIONS of the home is locked.
"""

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from pststream.base import names
from pststream.base.atomic_files import TEMPORARY_PREFIX
from pststream.base.errors import QuestionsBusy, RetryableError
from pststream.base.progress import Progress, no_progress, with_fields
from pststream.base.texts import counted, escape_controls
from pststream.pipeline.questions.find_question_files import FOLDER as QUESTIONS
from pststream.pipeline.questions.find_question_files import (
    copy_file,
    describe_left,
    new_question_files,
    question_paths,
)
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED, QuestionFile, finish_file, known_files
from pststream.pipeline.questions.write_answers import write_answers
from pststream.pipeline.questions.written_answers import (
    commit_answers,
    delete_needed,
    delete_unneeded,
    load_written,
    save_written,
)
from pststream.search.answer_rows import ANSWERS
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import RUNNER_WAIT_SECONDS, Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.tables.table_files import TableWriter

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
            writer = TableWriter(target, ".parquet", ANSWERS)
            for rows in read_answers(home, file["question_file"]):
                writer.write(pa.Table.from_batches([rows]))
            writer.close()
    except OSError as error:
        reason = f"{answers}: the answers cannot be written: {error.strerror or error}"
        raise RetryableError(reason, "they are in the table question_answers; the next run writes them") from None
    return answers


def read_answers(home: Home, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the stored answers of a file of questions (ANSWERS), by the rows of the questions and rank."""
    column = "question_file"
    mine = KeyRange(column, number - 1, number)
    files = mine.files(list_data_files(home, names.QUESTION_ANSWERS))
    # Compaction keeps the order of the rows, and a file ends with the beginning of later ones.
    files.sort(key=lambda one: (one.low.get(column, 0), one.high.get(column, 0), one.low.get("row", 0)))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.QUESTION_ANSWERS, files)]
    for rows in read_slices(slices, [column, *ANSWERS.names], mine):
        if rows.num_rows:
            yield rows.drop_columns([column]).cast(ANSWERS)


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
