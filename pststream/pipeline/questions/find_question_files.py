"""Find the files of questions in a landing folder that are not answered yet, and copy them into the home."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pststream.base.errors import InputFileError, PassingError
from pststream.base.progress import Progress, no_progress
from pststream.base.texts import escape_controls
from pststream.input.confined_files import content_below
from pststream.input.input_files import files_below, sha256_of
from pststream.pipeline.ingest.fetch_objects import OfferedFile
from pststream.pipeline.ingest.local_files import hash_files, read_stamps, select_readable
from pststream.pipeline.questions.question_ledger import KnownFiles, QuestionFile, known_files, number_file
from pststream.pipeline.questions.written_answers import copy_name
from pststream.settings import Settings
from pststream.state.home import Home

FOLDER = "questions"
"""Subfolder of a landing folder with the files of questions."""


def question_paths(landing: str) -> list[str]:
    """Return the absolute paths of the files of questions in a landing folder, sorted."""
    return files_below(Path(landing, FOLDER).absolute())


def new_question_files(
    home: Home, landing: str, paths: Sequence[str], known: KnownFiles, progress: Progress
) -> list[OfferedFile]:
    """Return the files with a path and a content that the ledger does not have together; the home is locked.

    Files that cannot be read now are left out.
    """
    folders = dict.fromkeys(paths, str(Path(landing, FOLDER).absolute()))
    readable = select_readable(list(paths), progress, folders)
    try:
        offered = hash_files(home, read_stamps(readable), tolerant=True, folders=folders)
    except PassingError:
        return []
    return [one for one in offered if (one.path, one.sha256) not in known.offered]


def questions_wait(home: Home, landing: str) -> bool:
    """Whether a landing folder has a new file of questions, or a file was interrupted; the home is locked."""
    known = known_files(home)
    return bool(known.unfinished or new_question_files(home, landing, question_paths(landing), known, no_progress))


def copy_file(home: Home, settings: Settings, landing: str, offered: OfferedFile) -> QuestionFile | None:
    """Copy a file into the home; return the row with which it starts, None if it cannot be read or has changed."""
    folder = str(Path(landing, FOLDER).absolute())
    home.work_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".questions-", dir=home.work_folder) as private:
        copy = Path(private, "copy")
        try:
            with content_below(offered.path, folder) as content:
                shutil.copyfile(content, copy)
        except (OSError, InputFileError, PassingError):
            return None
        if sha256_of(str(copy)) != offered.sha256:
            return None
        file = number_file(home, settings, offered.path, offered.sha256, offered.bytes)
        home.files.upload(copy_name(file), copy)
    return file


def describe_left(offered: OfferedFile) -> str:
    """Return the message about a file that could not be copied."""
    return escape_controls(f"{offered.path}: left for the next run: it cannot be read, or changed while it was read")
