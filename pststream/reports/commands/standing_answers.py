"""List the answers of subscriptions with memory, of one or of all, for a terminal (`pststream answers`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.format_values import counted
from pststream.reports.commands.text_tables import table_lines
from pststream.reports.reading.standing_answers import StandingAnswers
from pststream.reports.reading.table_reader import AnyHome, TableReader
from pststream.utc_times import iso


def list_answers(home: AnyHome, subscription_id: str | None, limit: int) -> dict[str, Any]:
    """Return at most `limit` rows of answers: {"answers": [rows as in `export answers`], "complete": bool}.

    Raises UsageError for an id that no subscription with memory has had.
    """
    reader = TableReader(home)
    answers = StandingAnswers(reader)
    keys = None if subscription_id is None else _keys_of(reader, subscription_id)
    rows, complete = list[dict[str, Any]](), True
    for table in answers.answers(keys):
        complete = complete and len(rows) + table.num_rows <= limit
        rows += table.slice(0, limit - len(rows)).to_pylist()
        if not complete:
            break
    return {"answers": rows, "complete": complete}


def _keys_of(reader: TableReader, subscription_id: str) -> list[int]:
    wanted = (pds.field("subscription_id") == subscription_id) & pds.field("k").is_valid()
    keys: list[int] = reader.read(names.REQUESTS, ["request_key"], wanted).column(0).to_pylist()
    if not keys:
        raise UsageError(
            f"{subscription_id}: no subscription with memory has this id", "docs/answers.md lists the kinds"
        )
    return keys


def render_answers(document: Mapping[str, Any]) -> str:
    """Return the answers as a table of text."""
    rows: Sequence[Mapping[str, Any]] = document["answers"]
    if not rows:
        return "no answers (docs/answers.md says when a subscription has none)"
    head = ["subscription", "rank", "object or word", "time", "distance, score or count"]
    lines = table_lines([head, *([*_texts(row)] for row in rows)])
    if not document["complete"]:
        lines.append(f"the first {counted(len(rows), 'row')}; all: pststream export answers")
    return "\n".join(lines)


def _texts(row: Mapping[str, Any]) -> list[str]:
    if row["distance_m"] is not None:
        value = f"{row['distance_m']:,.0f} m"
    else:
        value = str(row["count"]) if row["score"] is None else f"{row['score']:.4f}"
    return [
        escape_controls(row["subscription_id"]),
        str(row["rank"]),
        escape_controls(row["term"] or row["object_id"] or "(erased)"),
        iso(row["ts"] or row["as_of"]) or "",
        value,
    ]
