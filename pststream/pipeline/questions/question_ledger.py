"""Find, copy and note the files of questions: which are new, started or done, and what their answers are written to.

A folder of the home has a copy of an unfinished file, so that somebody may change or remove the file meanwhile, the
list of the data files that the answers were written to, before any of them is committed, and a note of the tries that
died.
"""

import datetime as dt
import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import InputFileError, PassingError, QuestionsBusy
from pststream.base.progress import Progress, no_progress
from pststream.base.texts import escape_controls
from pststream.base.utc_times import utc_now
from pststream.input.confined_files import content_below
from pststream.input.input_files import files_below, sha256_of
from pststream.pipeline.ingest.fetch_objects import OfferedFile
from pststream.pipeline.ingest.local_files import hash_files, read_stamps, select_readable
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, commit_files
from pststream.state.home import Home
from pststream.storage.parquet_files import delete_files
from pststream.tables.delta_tables import greatest_value, last_transaction
from pststream.tables.ledgers import MAX_ROW, Ledger, log_key, read_latest

STORED_SETTINGS = (
    *("timezone", "max_id_bytes", "max_payload_bytes", "max_expression_words", "max_polygon_vertices", "max_k"),
)
"""Settings by which questions are read; a process that finishes a file later uses the same values."""

NOTHING_ANSWERED: dict[str, Any] = {
    "files": 0, "questions": 0, "rejected": 0, "rows": 0, "seconds": {}, "answers": [], "passed_over": [],
}  # fmt: skip
"""The summary of a run without new files."""

QuestionFile = dict[str, Any]
"""A row of the ledger."""


class KnownFiles(NamedTuple):
    """The files of the ledger: (path, hash) of all, started or done, and the rows of those that are not done."""

    offered: set[tuple[str, str]]
    unfinished: list[QuestionFile]


def known_files(home: Home) -> KnownFiles:
    """Return the files of the ledger, in their order."""
    rows = read_latest(home, names.QUESTION_FILES, "question_file")
    offered = zip(rows.column("path").to_pylist(), rows.column("sha256").to_pylist())
    return KnownFiles(set(offered), _started(rows))


def unfinished_files(home: Home) -> list[QuestionFile]:
    """Return the files that are started and not done, in their order."""
    return _started(read_latest(home, names.QUESTION_FILES, "question_file"))


def _started(rows: pa.Table) -> list[QuestionFile]:
    started: list[QuestionFile] = rows.filter(pc.equal(rows.column("status"), "started")).to_pylist()
    return started


def add_answered_since(home: Home, since: dt.datetime | None, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a retried run with the counts of all files that were done at `since` or later.

    Each try knows only its own files, and the last one decides about the event of the answers.
    """
    if since is None:
        return summary
    counts = ("questions", "rejected", "rows")
    done = read_latest(
        home, names.QUESTION_FILES, "question_file", [*counts, "finished_at"], pds.field("finished_at") >= since
    ).to_pylist()
    if len(done) <= summary["files"]:
        return summary
    return summary | {"files": len(done), **{name: sum(row[name] for row in done) for name in counts}}


def number_file(home: Home, settings: Settings, path: str, sha256: str, size: int) -> QuestionFile:
    """Return the row with which a file starts, with the next number; objects of finished ingests count."""
    ledger = Ledger(home)
    running = ledger.unfinished_ingest()
    next_seq = min((file["file_seq"] for file in running), default=ledger.next_file_seq)
    next_ingest = min((file["ingest_id"] for file in running), default=ledger.next_ingest_id)
    options = {name: getattr(settings, name) for name in STORED_SETTINGS}
    return {
        "question_file": greatest_value(home.table(names.QUESTION_FILES), "question_file") + 1,
        "path": path,
        "sha256": sha256,
        "bytes": size,
        "options": json.dumps(options, sort_keys=True),
        "status": "started",
        "ingest_id": next_ingest - 1,
        "objects_to": log_key(next_seq - 1, MAX_ROW),
        "started_at": utc_now(),
    }


def settings_of(settings: Settings, file: QuestionFile) -> Settings:
    """Return the settings by which a file is read and answered: STORED_SETTINGS are those with which it started."""
    return replace(settings, **json.loads(file["options"]))


def finish_file(home: Home, file: QuestionFile, counts: dict[str, int], seconds: dict[str, float]) -> None:
    """Record that a file is done, with the numbers of its questions, rejects and rows."""
    done = {**file, **counts, "status": "done", "seconds_by_step": list(seconds.items()), "finished_at": utc_now()}
    ledger_tables.append(home, names.QUESTION_FILES, [done])


FOLDER = "questions"
"""Folder of a home with the copies, lists and notes of unfinished files; subfolder of a landing folder."""


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
