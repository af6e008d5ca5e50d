"""Write the answers of a file of questions to `answers/<file>.parquet` of the landing folder, from the tables.

Whoever may write to a landing folder may put a link there. So the file is written folder by folder from the landing
folder on, and no folder of its path may be a link.
"""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from pststream import names
from pststream.atomic_files import TEMPORARY_PREFIX
from pststream.errors import RetryableError
from pststream.pipeline.questions.find_question_files import FOLDER as QUESTIONS
from pststream.pipeline.questions.question_ledger import QuestionFile
from pststream.questions.answer_table import ANSWERS
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.table_files import TableWriter

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
    """Yield a new file that gets its name, below the landing folder, when the block ends; folders are created."""
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
