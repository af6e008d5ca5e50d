"""Read and write the ledger of files of questions, and keep what an unfinished file needs in a folder of the home.

The folder has a copy of the file, so that somebody may change or remove the file meanwhile, and the list of the data
files that the answers were written to, before any of them is committed.
"""

import datetime as dt
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import read_table
from pststream.ledgers.ledger_rows import MAX_ROW, log_key
from pststream.ledgers.log_end import Ledger, read_latest
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile
from pststream.state.home import Home
from pststream.utc_times import utc_now

FOLDER = "questions"
"""Folder of a home with the copies and the lists of unfinished files."""

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


@dataclass(frozen=True)
class WrittenAnswers:
    """The data files that the answering of a file has written, by table, and its counts."""

    files: dict[str, list[DataFile]]
    questions: int
    rejected: int
    rows: int
    seconds: dict[str, float]


def offered_before(home: Home) -> set[tuple[str, str]]:
    """Return (path, hash) of all files of the ledger, started or done."""
    rows = read_table(home.table(names.QUESTION_FILES), ["path", "sha256"])
    return set(zip(rows.column("path").to_pylist(), rows.column("sha256").to_pylist()))


def unfinished_files(home: Home) -> list[QuestionFile]:
    """Return the files that are started and not done, in their order."""
    rows = read_latest(home, names.QUESTION_FILES, "question_file").to_pylist()
    return [row for row in rows if row["status"] == "started"]


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
        "question_file": ledger_tables.greatest(home, names.QUESTION_FILES, "question_file") + 1,
        "path": path,
        "sha256": sha256,
        "bytes": size,
        "options": json.dumps(options, sort_keys=True),
        "status": "started",
        "ingest_id": next_ingest - 1,
        "objects_to": log_key(next_seq - 1, MAX_ROW),
        "started_at": utc_now(),
    }


def finish_file(home: Home, file: QuestionFile, written: WrittenAnswers, seconds: dict[str, float]) -> None:
    """Record that a file is done; delete what it needed."""
    counts = {"questions": written.questions, "rejected": written.rejected, "rows": written.rows}
    done = {**file, **counts, "status": "done", "seconds_by_step": list(seconds.items()), "finished_at": utc_now()}
    ledger_tables.append(home, names.QUESTION_FILES, [done])
    delete_copies(home)


def delete_copies(home: Home) -> None:
    """Delete the copies and lists of files that are not unfinished."""
    kept = {str(file["question_file"]) for file in unfinished_files(home)}
    stored = home.files.names(FOLDER)
    home.files.delete(name for name in stored if Path(name).name.partition(".")[0] not in kept)


def copy_name(file: QuestionFile) -> str:
    """Return the name of the copy of a file in the home; its ending gives the format."""
    endings = Path(file["path"]).suffixes
    compressed = endings[-1].lower() in (".gz", ".zst")
    return f"{FOLDER}/{file['question_file']}{''.join(endings[-2 if compressed else -1 :])}"


def save_written(home: Home, file: QuestionFile, written: WrittenAnswers) -> None:
    """Write the list of the data files of a file."""
    content = asdict(written) | {"of": file["sha256"]}
    home.files.write(_list_name(file), json.dumps(content).encode())


def load_written(home: Home, file: QuestionFile) -> WrittenAnswers | None:
    """Return the list of the data files of a file; None if they are not all written."""
    try:
        content = json.loads(home.files.read(_list_name(file)))
    except (FileNotFoundError, ValueError):
        return None
    if content.pop("of") != file["sha256"]:
        return None
    files = {name: [DataFile(**one) for one in listed] for name, listed in content["files"].items()}
    return WrittenAnswers(**content | {"files": files})


def _list_name(file: QuestionFile) -> str:
    return f"{FOLDER}/{file['question_file']}.written.json"
