"""What was done in a home from a moment on, as its tables tell.

For a run of several tries, of which each tells only what it did itself.
"""

import datetime as dt
from collections import Counter
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.pipeline.batch.micro_batch import batch_summary
from pststream.pipeline.main_job.arrivals import KINDS
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.state.ledger import files_where, settled


def done_since(home: Home, since: dt.datetime) -> dict[str, Any]:
    """The batches that were done at `since` or later, and the files that were taken in, in the words of `run`.

    Returns {"ingest": {kind: {"files", "rows", "accepted", "rejected", "rejects_by_reason"}},
    "batches": as `match` has them}; a kind without such files is left out.
    """
    batches = settled(home, names.BATCHES, "batch_id", filter=pds.field("finished_at") >= since).to_pylist()
    done = [batch_summary(batch) for batch in batches if batch["status"] == "done"]
    files = [file for file in files_where(home, pds.field("at") >= since) if file["status"] == "done"]
    ingest = {kind: _ingested(home, mine) for kind in KINDS if (mine := [f for f in files if f["kind"] == kind])}
    return {"ingest": ingest, "batches": done}


def _ingested(home: Home, files: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = sorted({file["ingest_id"] for file in files})
    found = ledger_tables.read(home, names.REJECTS, ["reason"], pds.field("ingest_id").isin(numbers))
    reasons = Counter(found.column("reason").to_pylist())
    sums = {name: sum(file[name] for file in files) for name in ("accepted", "rejected")}
    rows = {"rows": sums["accepted"] + sums["rejected"]}
    return {"files": len(files), **rows, **sums, "rejects_by_reason": dict(sorted(reasons.items()))}
