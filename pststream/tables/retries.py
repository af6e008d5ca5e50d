"""Read which rejects were ingested again: a retry is a row of `files` that says in its options which ones it has."""

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

OPTION = "retry"
"""Key in the options of a file that is a retry: {"reason", "ingests_to"}."""

COLUMNS = ("ingest_id", "options")


@dataclass(frozen=True)
class Retry:
    """An ingest of the rejects with one reason and stored fields, of all ingests since the retry before."""

    ingest_id: int
    reason: str
    ingests_to: int


def is_retry() -> pds.Expression:
    """Return a filter of the rows of `files` that are retries, and perhaps of some others."""
    filter: pds.Expression = pc.match_substring(pds.field("options"), f'"{OPTION}"')
    return filter


def retries_among(files: pa.Table) -> list[Retry]:
    """Return the retries among rows of `files` with the columns COLUMNS, each once, in the order of the log."""
    retries = set()
    for row in files.to_pylist():
        retry = json.loads(row["options"]).get(OPTION)
        if retry:
            retries.add(Retry(row["ingest_id"], retry["reason"], retry["ingests_to"]))
    return sorted(retries, key=lambda retry: retry.ingest_id)
