"""List the answers of subscriptions with memory, of one or of all, for a terminal (`pststream answers`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from pststream.delta_tables import AnyHome, TableReader
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.format_values import counted
from pststream.reports.commands.text_tables import table_lines
from pststream.reports.reading.standing_answers import StandingAnswers, in_parts
from pststream.utc_times import iso


def list_answers(home: AnyHome, subscription_id: str | None, limit: int) -> dict[str, Any]:
    """Return at most `limit` rows of answers: {"answers": [rows as in `export answers`], "complete": bool}.

    The subscriptions come in the order of their insertion; parts of them are read. Raises UsageError for an id that no
    subscription with memory has had.
    """
    answers = StandingAnswers(TableReader(home))
    rows, is_known = list[dict[str, Any]](), False
    for some in in_parts(answers.subscriptions(subscription_id), limit):
        rows += answers.answers_of(some).slice(0, limit + 1 - len(rows)).to_pylist()
        if len(rows) > limit:
            return {"answers": rows[:limit], "complete": False}
        is_known = True
    if subscription_id is not None and not is_known:
        raise UsageError(
            f"{subscription_id}: no subscription with memory has this id", "docs/answers.md lists the kinds"
        )
    return {"answers": rows, "complete": True}


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
