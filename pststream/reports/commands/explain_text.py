"""Render explanations of pairs as text."""

from typing import Any

from pststream.base.escape_text import escape_controls
from pststream.queries.kinds.registry import stored_kind
from pststream.reports.commands.explain_answer_facts import answer_facts
from pststream.reports.commands.explain_rows import MAX_PER_ID

_INTERNAL = "This is an internal error: keep the home as it is, and report it with this explanation."


def render_explain(document: dict[str, Any]) -> str:
    """Render an explanation as text."""
    ids = f"object {document['object_id']!r} and subscription {document['subscription_id']!r}"
    lines = [f"{document['state'].upper()}: {ids}"]
    if not document["pairs"]:
        lines.append(f"  {escape_controls(document['reason'])}")
    for place, pair in enumerate(document["pairs"]):
        if place == 1:
            total = document["objects"] * document["subscriptions"]
            lines.append(f"\n{total} pairs have these ids; the others:")
        lines += _render_pair(pair, place > 0)
    if MAX_PER_ID in (document["objects"], document["subscriptions"]):
        lines.append(f"Only the latest {MAX_PER_ID} objects and insertions of an id are explained.")
    rejects = [row for rows in document["rejects"].values() for row in rows]
    if rejects and document["pairs"]:
        lines += [
            "\nrejected rows with one of the ids:",
            *(f"  {escape_controls(describe_reject(row))}" for row in rejects),
        ]
    return "\n".join(lines)


def _render_pair(pair: dict[str, Any], with_state: bool) -> list[str]:
    stored, subscription, posting = pair["object"], pair["subscription"], pair["posting"]
    lines = [f"  {pair['state'] + ': ' if with_state else ''}{pair['reason']}"]
    if pair["problem"]:
        lines.append(f"  THE TABLES DISAGREE: {pair['problem']}. {_INTERNAL}")
    if posting:
        lines.append(
            f"  posting       word {posting['word']!r} of the clause [{' OR '.join(posting['clause'])}] in index cell"
            f" {posting['cell']} (level {posting['level']}, column {posting['column']}, row {posting['row']})"
        )
        unit = f"unit {posting['unit']} of plan {posting['plan_version']}"
        lines.append(f"  served by     worker {posting['worker']}, {unit}")
    lines += [f"  {name.lower():<12}  {escape_controls(text)}" for name, text in answer_facts(pair["answer"])]
    text = escape_controls(stored["text"])
    lines.append(f"  object        {stored['ts']} at {stored['lon']:.9g}, {stored['lat']:.9g}: {text}")
    end = subscription["end_at"]
    until = f"until {end} ({subscription['ended_by']})" if end else "without end"
    query = "; ".join(map(escape_controls, stored_kind(subscription["kind"]).facts(subscription).values()))
    lines.append(f"  subscription  {query}; from {subscription['created_at']} {until}")
    return lines


def describe_reject(row: dict[str, Any]) -> str:
    """Describe a rejected row in one line."""
    return f"{row['file']}, row {row['row']}: {row['reason']}: {row['detail']}"
