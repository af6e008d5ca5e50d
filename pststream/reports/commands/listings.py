"""List answers of subscriptions with memory (`pststream answers`), and the latest rejected rows of a home."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.base.texts import counted, escape_controls, table_lines
from pststream.base.utc_times import iso
from pststream.reports.reading.pairs import PAIR_SCHEMA, PairStream, encoded_pairs
from pststream.reports.reading.standing_answers import StandingAnswers, in_parts
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.log_events import COLUMNS as RETRY_COLUMNS
from pststream.tables.log_events import is_retry, retries_among
from pststream.tables.owners import resolve_owner, show_id
from pststream.tables.table_files import export_tables, read_attributes


def list_answers(home: AnyHome, subscription_id: str | None, limit: int, *, owner: str | None = None) -> dict[str, Any]:
    """Return at most `limit` rows of answers: {"answers": [rows as in `export answers`], "complete": bool}.

    owner: answers of this owner; None: of all, or of the only one who has the id, see `resolve_owner`
    The subscriptions come in the order of their insertion; parts of them are read. Raises UsageError for an id that no
    subscription with memory has had.
    """
    reader = TableReader(home)
    answers = StandingAnswers(reader)
    if subscription_id is not None:
        owner = resolve_owner(reader, subscription_id, owner)
    rows, is_known = list[dict[str, Any]](), False
    for some in in_parts(answers.subscriptions(subscription_id, owner), limit):
        rows += answers.answers_of(some).slice(0, limit + 1 - len(rows)).to_pylist()
        if len(rows) > limit:
            return {"answers": _with_attributes(rows[:limit]), "complete": False}
        is_known = True
    if subscription_id is not None and not is_known:
        problem = f"{show_id(owner or '', subscription_id)}: no subscription with memory has this id"
        raise UsageError(problem, "docs/subscriptions.md lists the kinds")
    return {"answers": _with_attributes(rows), "complete": True}


def _with_attributes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"attributes": read_attributes(row["attributes"])} for row in rows]


def render_answers(document: Mapping[str, Any]) -> str:
    """Return the answers as a table of text."""
    rows = document["answers"]
    if not rows:
        return "no answers (docs/subscriptions.md says when a subscription has none)"
    head = ["subscription", "rank", "object or word", "time", "distance, score or count"]
    lines = table_lines([head, *map(_texts, rows)])
    if not document["complete"]:
        lines.append(f"the first {counted(len(rows), 'row')}; all: pststream export answers")
    return "\n".join(lines)


def _texts(row: Mapping[str, Any]) -> list[str]:
    if row["distance_m"] is not None:
        value = f"{row['distance_m']:,.0f} m"
    else:
        value = str(row["count"]) if row["score"] is None else f"{row['score']:.4f}"
    return [
        escape_controls(show_id(row["owner"], row["subscription_id"])),
        str(row["rank"]),
        escape_controls(row["term"] or row["object_id"] or "(erased)"),
        iso(row["ts"] or row["as_of"]) or "",
        value,
    ]


COLUMNS = ("kind", "file", "row", "field", "reason", "detail", "raw")
ORDER = [("ingest_id", "descending"), ("file", "ascending"), ("row", "ascending")]


def list_rejects(home: AnyHome, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """List at most `limit` rejected rows, the latest ingest first, within an ingest by file and row.

    Returns dicts with kind, file, row, field (empty: the whole row), reason, detail, raw, ingest_id, is_stored (whether
    all fields are stored, so that the row can be retried), retried_by (the ingest that retried it, or None). Keeps
    `limit` rows in memory (all rows if it is None), and skips data files of the table that cannot contain one of them.
    """
    reader = TableReader(home)
    wanted = pds.field("reason") == reason if reason is not None else None
    columns = (*COLUMNS, "ingest_id")
    rejects = reader.dataset(names.REJECTS).schema.empty_table().select(columns)
    rejects = rejects.append_column("is_stored", pa.array([], pa.bool_()))
    for latest, file in reader.files(names.REJECTS, "ingest_id", wanted, greatest=True):
        if limit is not None and rejects.num_rows >= limit and rejects.column("ingest_id")[-1].as_py() > latest:
            break
        for batch in reader.batches_of(names.REJECTS, file, (*columns, "record"), wanted):
            rows = batch.drop_columns(["record"]).append_column("is_stored", pc.is_valid(batch.column("record")))
            rejects = pa.concat_tables([rejects, pa.Table.from_batches([rows])])
            if limit is not None:
                rejects = rejects.sort_by(ORDER).slice(0, limit).combine_chunks()
    retries = retries_among(reader.read(names.FILES, RETRY_COLUMNS, is_retry() & (pds.field("status") == "done")))
    listed: list[dict[str, Any]] = rejects.sort_by(ORDER).to_pylist()
    for row in listed:  # the first retry of its reason that goes up to its ingest
        after = (one for one in retries if one.reason == row["reason"] and one.ingests_to >= row["ingest_id"])
        row["retried_by"] = next((one.ingest_id for one in after if row["is_stored"]), None)
    return listed


def export_matches(
    home: AnyHome, out: str, since: dt.datetime | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Write every pair of finished batches to `out`, without the retracted ones.

    out    .csv, .jsonl or .parquet; formats: see table_files.py. Written under another name, then renamed.
    since  only objects with ts >= this
    Payload and attributes are JSON: a text in CSV and Parquet, a value in JSON Lines; null if there are none.
    Pairs are ordered by batch, within a batch as they are stored (a compacted file is ordered by its first batch).
    Memory holds key, id and payload of each subscription and the keys of the retracted pairs; it does not grow with
    the matches. Returns {"out", "rows"}. Raises UsageError for a file name or folder that cannot be used.
    """

    def tables() -> Iterator[pa.Table]:
        stream = PairStream(home, since)
        counter = StepCounter(progress, "exporting", "match", stream.count_all() if since is None else None)
        for pairs in stream:
            yield encoded_pairs(pairs, stream.inserted)
            counter.add(len(pairs.row))

    return {"out": out, "rows": export_tables(tables(), out, PAIR_SCHEMA, json_columns=("payload", "attributes"))}
