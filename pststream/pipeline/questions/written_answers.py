"""Keep the data files of an unfinished file of questions in a folder of the home, and commit them once.

The folder has a copy of the file, so that somebody may change or remove the file meanwhile, the list of the data files
that the answers were written to, before any of them is committed, and a note of the tries that died.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pststream.base import names
from pststream.base.errors import QuestionsBusy
from pststream.pipeline.questions.question_ledger import QuestionFile, unfinished_files
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.storage.parquet_files import delete_files
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import MAX_ROW

FOLDER = "questions"
"""Folder of a home with the copies, lists and notes of unfinished files."""


@dataclass(frozen=True)
class WrittenAnswers:
    """The data files that the answering of a file has written, by table, and its counts.

    last_row  row of the file up to which its questions are answered
    complete  whether that are all
    most      questions that are answered together at most, because processes died of more
    """

    files: dict[str, list[DataFile]] = field(default_factory=dict)
    questions: int = 0
    rejected: int = 0
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    last_row: int = 0
    complete: bool = True
    most: int = MAX_ROW


def copy_name(file: QuestionFile) -> str:
    """Return the name of the copy of a file in the home; its ending gives the format."""
    endings = Path(file["path"]).suffixes
    compressed = endings[-1].lower() in (".gz", ".zst")
    return f"{FOLDER}/{file['question_file']}{''.join(endings[-2 if compressed else -1 :])}"


def note_name(file: QuestionFile) -> str:
    """Return the name of the note of the tries that died (pipeline/ingest/isolated_reader.py)."""
    return f"{FOLDER}/{file['question_file']}.reading.json"


def save_written(home: Home, file: QuestionFile, written: WrittenAnswers) -> None:
    """Write the list of the data files of a file."""
    content = asdict(written) | {"of": file["sha256"]}
    home.files.write(_list_name(file), json.dumps(content).encode())


def load_written(home: Home, file: QuestionFile) -> WrittenAnswers | None:
    """Return the list of the data files of a file; None if none of its questions is answered."""
    try:
        content = json.loads(home.files.read(_list_name(file)))
    except (FileNotFoundError, ValueError):
        return None
    if content.pop("of") != file["sha256"]:
        return None
    files = {name: [DataFile(**one) for one in listed] for name, listed in content["files"].items()}
    return WrittenAnswers(**content | {"files": files})


def drop_written(home: Home, file: QuestionFile, written: WrittenAnswers) -> None:
    """Delete the list of a file and its data files, of which none is committed."""
    home.files.delete([_list_name(file)])
    delete_files([f"{home.table(name)}/{one.path}" for name, files in written.files.items() for one in files])


def delete_needed(home: Home, file: QuestionFile) -> None:
    """Delete the copy, the list and the note of a file that is done."""
    home.files.delete(name for name in home.files.names(FOLDER) if _number_of(name) == str(file["question_file"]))


def delete_unneeded(home: Home, unfinished: Iterable[QuestionFile]) -> None:
    """Delete the copies, lists and notes of all files but these, which killed processes have left."""
    kept = {str(file["question_file"]) for file in unfinished}
    home.files.delete(name for name in home.files.names(FOLDER) if _number_of(name) not in kept)


def _number_of(name: str) -> str:
    return Path(name).name.partition(".")[0]


def _list_name(file: QuestionFile) -> str:
    return f"{FOLDER}/{file['question_file']}.written.json"


APPLICATION = "questions"
"""The application of the transaction ids of files of questions, in the tables' Delta logs."""


def commit_answers(home: Home, file: QuestionFile, written: WrittenAnswers) -> None:
    """Commit the data files of a file of questions, each table once.

    Files are committed in the order of their numbers: none is answered before the one before is committed.
    """
    number = file["question_file"]
    for name, files in written.files.items():
        # Files of a commit that is there already may be compacted since, and belong to older versions of the table.
        if files and last_transaction(home.table(name), APPLICATION) < number:
            commit_files(home, name, files, application=APPLICATION, transaction=number, is_blind=True)
        crash_point(f"questions.{name}_committed")


def commit_unfinished_answers(home: Home) -> None:
    """Commit the rows of unfinished files that are all written already, and drop those of files that are answered in
    part; the scope QUESTIONS is locked.

    After it no list in the home names objects, as the bounds of data files do.
    """
    for file in unfinished_files(home):
        written = load_written(home, file)
        if written is not None and written.complete:
            commit_answers(home, file, written)
            save_written(home, file, replace(written, files={}))
        elif written is not None:
            drop_written(home, file, written)


def commit_waiting_answers(home: Home) -> None:
    """Commit the same rows, unless another process answers files now, which commits its own."""
    with suppress(QuestionsBusy), home.locked(names.QUESTIONS, QuestionsBusy):
        commit_unfinished_answers(home)
