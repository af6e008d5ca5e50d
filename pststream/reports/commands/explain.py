"""Explain why a subscription matches an object or has it in its answer, or why not; report where the tables disagree.

`pststream explain` and the Airflow page of an object call it. It evaluates the rule of the kind again for every pair of
rows with these ids, without the kernels, and compares the result with the stored matches and answers.
"""

import json
from typing import Any

from pststream.base import names
from pststream.base.texts import counted, escape_controls
from pststream.base.utc_times import iso
from pststream.queries.kinds.contract import RankedAnswers, StoredSubscription, TermReports
from pststream.queries.kinds.registry import stored_kind
from pststream.reports.commands.explain_answers import (
    COUNTED,
    IN_ANSWER,
    NOT_COUNTED,
    NOT_IN_ANSWER,
    RankedExplainer,
    ReportExplainer,
)
from pststream.reports.commands.explain_matches import MATCHED, NOT_MATCHED, PENDING, MatchExplainer
from pststream.reports.commands.explain_rows import (
    MAX_PER_ID,
    WHERE,
    WITHDRAWN,
    ExplainContext,
    Pair,
    read_insertions,
    read_objects,
    read_rejects_of_id,
    read_written_pairs,
)
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.owners import resolve_owner

Facts = list[tuple[str, str]]
"""Labels and texts, in order."""

_WORDS = 30


def answer_facts(answer: dict[str, Any] | None) -> Facts:
    """Return the facts of an explained pair with an answer; None: there is none."""
    if not answer:
        return []
    if "ticks" in answer:
        return _report_facts(answer)
    rows = f"{answer['rows']} of at most {counted(answer['k'], 'object')}"
    facts = [("Answer", f"{rows}, after batch {answer['batch_id']}, as of stream time {answer['as_of']}")]
    if answer["all_objects_compared"] is False:
        facts.append(("Rank", "unknown: too many objects would have to be compared"))
    if "score" in answer:
        place = f"{answer['distance_part']:.6f} for the distance of {answer['distance_m']:,.1f} m"
        text = f"{answer['text_part']:.6f} for the text"
        facts.append(("Score", f"{answer['score']:.6f}: {place} (alpha {answer['alpha']:g}) and {text}"))
        words = ", ".join(f"{word} {weight:.4g}" for word, weight in answer["words"].items())
        facts.append(("Weights", f"{words}; by term statistics {answer['term_statistics_version']}"))
    return facts


def _report_facts(answer: dict[str, Any]) -> Facts:
    later = f"; {answer['later_ticks']:,} more to come" if answer["later_ticks"] else ""
    ticks = f"{answer['ticks']:,}, {answer['first_tick']} to {answer['last_tick']}"
    facts = [("Ticks", f"{ticks}, as of stream time {answer['as_of']}{later}")]
    words = answer.get("words", [])
    if words:
        more = f", and {len(words) - _WORDS} more" if len(words) > _WORDS else ""
        facts.append(("Words", ", ".join(map(_describe_word, words[:_WORDS])) + more))
    return facts


def _describe_word(word: dict[str, Any]) -> str:
    objects = counted(word["count"], "object")
    if word["rank"] is not None:
        return f"{word['word']} (rank {word['rank']}, {objects})"
    if word["missed_by"] == 0:
        return f"{word['word']} ({objects}, as the last word of the report, whose bytes come first)"
    return f"{word['word']} ({objects}, {word['missed_by']} fewer than the last word of the report)"


def render_explain(document: dict[str, Any]) -> str:
    """Render an explanation as text."""
    ids = f"object {document['object_id']!r} and subscription {document['subscription_id']!r}"
    ids += f" of {document['owner']!r}" if document["owner"] else ""
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
        lines.append("\nrejected rows with one of the ids:")
        lines += [f"  {escape_controls(_describe_reject(row))}" for row in rejects]
    return "\n".join(lines)


def _render_pair(pair: dict[str, Any], with_state: bool) -> list[str]:
    stored, subscription, posting = pair["object"], pair["subscription"], pair["posting"]
    lines = [f"  {pair['state'] + ': ' if with_state else ''}{pair['reason']}"]
    if pair["problem"]:
        remedy = "This is an internal error: keep the home as it is, and report it with this explanation."
        lines.append(f"  THE TABLES DISAGREE: {pair['problem']}. {remedy}")
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
    if WHERE in subscription:
        query += f"; where {escape_controls(json.dumps(subscription[WHERE], ensure_ascii=False))}"
    lines.append(f"  subscription  {query}; from {subscription['created_at']} {until}")
    return lines


def _describe_reject(row: dict[str, Any]) -> str:
    return f"{row['file']}, row {row['row']}: {row['reason']}: {row['detail']}"


MAX_PAIRS = 20
_MAX_TEXT = 300

_ORDER = {MATCHED: 1, IN_ANSWER: 1, COUNTED: 1, PENDING: 2, NOT_MATCHED: 3, NOT_IN_ANSWER: 3, NOT_COUNTED: 3}
"""The order in which pairs are listed, by their state."""


def explain(
    home: AnyHome,
    object_id: str,
    subscription_id: str,
    max_objects: int = MAX_PER_ID,
    max_insertions: int = MAX_PER_ID,
    *,
    owner: str | None = None,
) -> dict[str, Any]:
    """Explain every pair of the latest objects and insertions with these ids, the best pair first.

    A pair that matches has its posting, one that is in an answer its rank or its words, any other the first condition
    that fails.

    owner: of the subscription; None: the only one who has the id, see `resolve_owner`

    Keys of the result: object_id, owner, subscription_id; state, condition (None, object_unknown, subscription_unknown,
    withdrawn, or a condition of the kind of query) and reason of the best pair; objects, subscriptions: number of each
    id; pairs: at most MAX_PAIRS, each with its posting or what its answer has of the object; problem: how the tables
    disagree with the rule, in a sentence; rejects: rejected rows with one of the ids.

    Words, regions, times, distances and scores are compared without the kernels, so the explanation also checks them.
    """
    reader = TableReader(home)
    context = ExplainContext(reader)
    for name in (names.MATCHES, names.ANSWER_LOG, names.ANSWERS, names.OBJECTS, names.REQUESTS):
        reader.dataset(name)
    objects = read_objects(reader, object_id)[:max_objects]
    owner = resolve_owner(reader, subscription_id, owner)
    insertions = read_insertions(reader, owner, subscription_id)[:max_insertions]
    matches = MatchExplainer(context, read_written_pairs(reader, objects, insertions))
    ranked, reports = RankedExplainer(context), ReportExplainer(context)

    def explainer_of(subscription: StoredSubscription) -> MatchExplainer | RankedExplainer | ReportExplainer:
        match subscription.kind.answers:
            case RankedAnswers():
                return ranked
            case TermReports():
                return reports
            case None:
                return matches

    explained = [explainer_of(one).explain(stored, one) for stored in objects for one in insertions]
    pairs = sorted(explained, key=_rank)[:MAX_PAIRS]
    rejects = {
        "objects": read_rejects_of_id(reader, "objects", object_id),
        "requests": read_rejects_of_id(reader, "requests", subscription_id),
    }
    best = pairs[0] if pairs else _explain_unknown(object_id, subscription_id, bool(objects), rejects)
    documents = [_pair_document(explainer_of(pair["subscription"]).add_details(pair)) for pair in pairs]
    return {
        "object_id": object_id,
        "owner": owner,
        "subscription_id": subscription_id,
        **{name: best[name] for name in ("state", "condition", "reason")},
        "problem": next((pair["problem"] for pair in documents if pair["problem"]), None),
        "objects": len(objects),
        "subscriptions": len(insertions),
        "pairs": documents,
        "rejects": rejects,
    }


def _rank(pair: Pair) -> tuple[int, int, int, int]:
    """Sort key: problems, by state, then by the number of conditions passed; the latest first."""
    order = 0 if pair["problem"] else _ORDER[pair["state"]]
    conditions = pair["subscription"].kind.conditions
    places = {
        WITHDRAWN: -1,
        None: len(conditions),
        WHERE: len(conditions),
        **{name: place for place, name in enumerate(conditions)},
    }
    passed = places[pair["condition"]]
    return order, -passed, -pair["subscription"].key, -pair["object"].key


def _explain_unknown(
    object_id: str, subscription_id: str, object_known: bool, rejects: dict[str, Any]
) -> dict[str, Any]:
    noun, name, kind, condition = "object", object_id, "objects", "object_unknown"
    if object_known:
        noun, name, kind, condition = "subscription", subscription_id, "requests", "subscription_unknown"
    why = "if a file contains it, its row was rejected: see pststream rejects"
    if rejects[kind]:
        why = f"a row with this id was rejected: {_describe_reject(rejects[kind][0])}"
    return {"state": NOT_MATCHED, "condition": condition, "reason": f"no {noun} {name!r} was accepted; {why}"}


def _pair_document(pair: Pair) -> dict[str, Any]:
    """The pair as JSON values."""
    written, retracted, stored = pair["written"], pair["retracted"], pair["object"]
    subscription, validity = pair["subscription"], pair["subscription"].validity()
    text = stored.text if len(stored.text) <= _MAX_TEXT else stored.text[: _MAX_TEXT - 1] + "…"
    return {
        **{name: pair[name] for name in ("state", "condition", "reason", "problem", "posting", "answer")},
        "object": {"object_key": stored.key, "ts": iso(stored.ts), "lon": stored.lon, "lat": stored.lat, "text": text},
        "subscription": {
            "subscription_key": subscription.key,
            "kind": subscription.kind.name,
            **subscription.query.describe(),
            **({WHERE: json.loads(subscription.where)} if subscription.where else {}),
            "created_at": iso(validity.created_at),
            "end_at": iso(validity.end_at),
            "ended_by": validity.ended_by or None,
        },
        "written_by": {k: written[0][k] for k in ("batch_id", "plan_version", "worker")} if written else None,
        "taken_back_by": retracted[0]["batch_id"] if retracted else None,
    }
