"""Read and write the ledger of files of questions: which are started, and which are done."""

import datetime as dt
import json
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value
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
