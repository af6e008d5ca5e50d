"""Ingest rejected objects again from the fields that `rejects` has (`pststream ingest objects --retry-rejects REASON`).

The fields are written to a file of the home, which is ingested like a released file: without the landing gate, by the
row rules and the rules of the log as they are now. Its row in the ledger has the number of the last ingest whose
rejects are in the file, so each reject is retried once. If a retry is killed before this row is written, it begins
again; if it is killed later, the next command finishes it.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.progress import Progress, no_progress
from pststream.input.input_files import sha256_of
from pststream.input.row_chunks import RETRIABLE
from pststream.pipeline.ingest.fetch_objects import is_fetched
from pststream.pipeline.ingest.ingest import ReaderOptions, summary_of
from pststream.pipeline.ingest.ingest_transaction import append_file_of_home, finish_interrupted_ingest
from pststream.pipeline.ingest.stage_file import STORED_SETTINGS
from pststream.settings import Settings
from pststream.state import fetched_files
from pststream.state.crash_points import crash_point
from pststream.state.data_files import FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import RECORD
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import COLUMNS, OPTION, is_retry, retries_among

FOLDER = "retries"
"""Folder of a home with the file of a retry, until its ingest is done."""


def retry_rejects(home: Home, settings: Settings, reason: str, progress: Progress = no_progress) -> dict[str, Any]:
    """Ingest the objects that were rejected for this reason and have not been retried, as one file.

    Returns what `ingest` returns, and "retried" (rows). Raises UsageError for a reason whose rejects have no stored
    fields.
    """
    if reason not in RETRIABLE:
        raise UsageError(f"rows rejected as {reason} cannot be retried", "one of: " + ", ".join(RETRIABLE))
    home.check()
    with home.locked():
        finish_interrupted_ingest(home, settings, progress)
        remove_unneeded_files(home)
        ledger = Ledger(home)
        retries = retries_among(read_table(home.table(names.FILES), list(COLUMNS), is_retry()))
        retried_to = max((one.ingests_to for one in retries if one.reason == reason), default=0)
        rejects = KeyRange("ingest_id", retried_to, ledger.next_ingest_id - 1)
        local, retried = _write_records(home, reason, rejects)
        done = []
        if local is not None:
            file = _store_file(home, settings, local, reason, rejects.up_to)
            done = append_file_of_home(home, settings, file, ledger, progress)
            remove_unneeded_files(home)
            fetched_files.remove_unneeded_copies(home)
    return {**summary_of(done), "retried": retried}


def remove_unneeded_files(home: Home) -> None:
    """Remove the files of retries that no unfinished ingest needs; the home is locked."""
    needed = {file["path"].rpartition("/")[2] for file in Ledger(home).unfinished_ingest()}
    home.files.delete(name for name in home.files.names(FOLDER) if name.rpartition("/")[2] not in needed)
    if is_fetched(home.path):  # a retry that was killed before its file was in the bucket
        shutil.rmtree(home.work_folder / FOLDER, ignore_errors=True)


def _write_records(home: Home, reason: str, rejects: KeyRange) -> tuple[Path | None, int]:
    """Write the stored fields of the rejects with this reason to a Parquet file.

    Return its path (None: there are none) and the number of its rows.
    """
    writer = FileWriter(f"{home.work_folder}/{FOLDER}", pa.schema(list(RECORD)))
    files = sorted(rejects.files(list_data_files(home, names.REJECTS)), key=lambda file: file.low.get("ingest_id", 0))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.REJECTS, files)]
    count = 0
    for rows in read_slices(slices, ["kind", "reason", "ingest_id", "record"], rejects):
        wanted = pc.and_(pc.equal(rows.column("kind"), names.OBJECTS), pc.equal(rows.column("reason"), reason))
        records = rows.column("record").filter(wanted)
        count += len(records)
        writer.write(pa.RecordBatch.from_arrays(records.flatten(), names=[field.name for field in RECORD]))
    return (Path(writer.address) if writer.close() else None), count


def _store_file(home: Home, settings: Settings, local: Path, reason: str, ingests_to: int) -> dict[str, Any]:
    """Move the file of a retry into the home; return its row of `files` without numbers."""
    name = f"{FOLDER}/{local.name}"
    sha256, size = sha256_of(str(local)), local.stat().st_size
    home.files.upload(name, local)
    if is_fetched(home.path):
        local.unlink(missing_ok=True)
    crash_point("retry.written")
    options = asdict(ReaderOptions("parquet", max_text_bytes=settings.max_text_bytes))
    options |= {one: getattr(settings, one) for one in STORED_SETTINGS}
    options |= {OPTION: {"reason": reason, "ingests_to": ingests_to}}
    return {
        "kind": names.OBJECTS,
        "path": f"{home.path}/{name}",
        "sha256": sha256,
        "bytes": size,
        "options": json.dumps(options, sort_keys=True),
    }
