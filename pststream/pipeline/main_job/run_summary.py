"""Read from the ledgers the batches and the counts of ingested files since a given time, for a retried job.

The job of a landing folder calls this after a retry, since each try knows only its own work.
"""

import datetime as dt
from collections import Counter
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import latest_dataset
from pststream.ledgers.ledger_rows import FileRow
from pststream.ledgers.log_end import read_files, read_latest
from pststream.pipeline.batch.micro_batch import batch_summary
from pststream.pipeline.main_job.landing_scanner import KINDS
from pststream.state.home import Home


def summarize_since(home: Home, since: dt.datetime) -> dict[str, Any]:
    """Return the batches that were done, and the counts of the files that were ingested, at `since` or later.

    Returns {"ingest": {kind: {"files", "rows", "accepted", "rejected", "rejects_by_reason"}}, "batches": as `match`
    returns them}; a kind without such files is left out.
    """
    batches = read_latest(home, names.BATCHES, "batch_id", filter=pds.field("finished_at") >= since).to_pylist()
    done = [batch_summary(batch) for batch in batches if batch["status"] == "done"]
    done_since = (pds.field("started_at") >= since) & (pds.field("status") == "done")
    is_file = pds.field("withdrawal_id").is_null() & pds.field("statistics_version").is_null()
    files = read_files(home, done_since & is_file)
    by_kind = {kind: [file for file in files if file["kind"] == kind] for kind in KINDS}
    return {"ingest": {kind: _count(home, of_kind) for kind, of_kind in by_kind.items() if of_kind}, "batches": done}


def _count(home: Home, files: list[FileRow]) -> dict[str, Any]:
    numbers = sorted({file["ingest_id"] for file in files})
    mine = pds.field("ingest_id").isin(numbers) & (pds.field("kind") == files[0]["kind"])
    reasons = Counter[str]()
    for rejects in latest_dataset(home.table(names.REJECTS)).to_batches(columns=["reason"], filter=mine):
        reasons.update(rejects.column(0).to_pylist())
    sums = {name: sum(file[name] for file in files) for name in ("accepted", "rejected")}
    rows = {"rows": sums["accepted"] + sums["rejected"]}
    return {"files": len(files), **rows, **sums, "rejects_by_reason": dict(sorted(reasons.items()))}
