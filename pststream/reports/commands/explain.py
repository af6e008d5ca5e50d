"""Explain why an object matches a subscription or not, and report where the stored tables contradict the match rule.

`pststream explain` and the Airflow page of an object call it. It evaluates the match rule again for every pair of rows
with these ids, without the kernels, and compares the result with the rows of `matches`.
"""

from typing import Any

import numpy as np

from pststream import names
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.kinds.contract import FailedCondition, StoredObject, StoredSubscription
from pststream.kinds.registry import stored_kind
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.withdrawals import WithdrawnObjects, withdrawn_objects
from pststream.reports.commands.explain_route import PostingFinder, find_stored_fault
from pststream.reports.commands.explain_rows import (
    MAX_PER_ID,
    read_insertions,
    read_objects,
    read_rejects_of_id,
    read_written_pairs,
)
from pststream.reports.reading.table_reader import AnyHome, TableReader
from pststream.utc_times import iso

MATCHED, PENDING, NOT_MATCHED = "matched", "pending", "not matched"
OBJECT_UNKNOWN, SUBSCRIPTION_UNKNOWN = "object_unknown", "subscription_unknown"
WITHDRAWN = "withdrawn"
"""The condition that the object of a pair is not withdrawn, before those of the kind of query."""

MAX_PAIRS = 20
_MAX_TEXT = 300
_UNREADABLE = "unreadable keywords were accepted"
_INTERNAL = "This is an internal error: keep the home as it is, and report it with this explanation."


def explain(
    home: AnyHome,
    object_id: str,
    subscription_id: str,
    max_objects: int = MAX_PER_ID,
    max_insertions: int = MAX_PER_ID,
) -> dict[str, Any]:
    """Explain every pair of the latest objects and insertions with these ids, the best pair first.

    A pair that matches has its posting, a pair that does not match has the first condition that fails.

    Keys of the result: object_id, subscription_id; state (matched, pending, not matched), condition (None,
    object_unknown, subscription_unknown, withdrawn, or a condition of the kind of query) and reason of the best pair;
    objects, subscriptions: number of each id; pairs: at most MAX_PAIRS, each with its posting; problem: how the tables
    disagree with the match rule, in a sentence; rejects: rejected rows with one of the ids.

    Words, regions and times are compared without the kernels, so the explanation also checks the kernels.
    """
    reader = TableReader(home)
    ledgers = LedgerHistory(reader)
    for name in (names.MATCHES, names.OBJECTS, names.REQUESTS):
        reader.dataset(name)
    objects = read_objects(reader, object_id)[:max_objects]
    insertions = read_insertions(reader, subscription_id)[:max_insertions]
    written = read_written_pairs(reader, objects, insertions)
    withdrawn = (withdrawn_objects(home), withdrawn_objects(home, up_to=ledgers.objects_matched))
    explainer = _PairExplainer(reader, ledgers, *withdrawn)
    explained = [
        explainer.explain(stored, subscription, written.get((stored.key, subscription.key), []))
        for stored in objects
        for subscription in insertions
    ]
    pairs = sorted(explained, key=_rank)[:MAX_PAIRS]
    rejects = {
        "objects": read_rejects_of_id(reader, "objects", object_id),
        "requests": read_rejects_of_id(reader, "requests", subscription_id),
    }
    best = pairs[0] if pairs else _explain_unknown(object_id, subscription_id, bool(objects), rejects)
    documents = [_pair_document(explainer.add_posting(pair)) for pair in pairs]
    return {
        "object_id": object_id,
        "subscription_id": subscription_id,
        **{name: best[name] for name in ("state", "condition", "reason")},
        "problem": next((pair["problem"] for pair in documents if pair["problem"]), None),
        "objects": len(objects),
        "subscriptions": len(insertions),
        "pairs": documents,
        "rejects": rejects,
    }


class _PairExplainer:
    """Explains pairs of one home from its tables as they are now.

    withdrawn, retracted: the withdrawn objects, and those of them whose matches batches have retracted
    """

    def __init__(
        self, reader: TableReader, ledgers: LedgerHistory, withdrawn: WithdrawnObjects, retracted: WithdrawnObjects
    ) -> None:
        self._reader = reader
        self._ledgers = ledgers
        self._withdrawn, self._retracted = withdrawn, retracted
        self._finders: dict[int, PostingFinder | None] = {}
        plans = reader.rows(names.PLANS, ("plan_version", "retiring_version", "retiring_to"))
        self._plans = {row["plan_version"]: row for row in plans}

    def explain(
        self, stored: StoredObject, subscription: StoredSubscription, rows: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Return state, first failed condition and reason of a pair; `rows`: the rows of `matches` that contain it."""
        written = [row for row in rows if not row["retracted"]]
        retracted = [row for row in rows if row["retracted"]]
        pair: dict[str, Any] = {
            "state": MATCHED if written and not retracted else NOT_MATCHED, "condition": None, "problem": None,
            "object": stored, "subscription": subscription, "posting": None,
            "written": written, "retracted": retracted,
        }  # fmt: skip
        query = subscription.query
        if not query.is_readable():
            return {**pair, "reason": "the stored keywords cannot be read", "problem": _UNREADABLE}
        failure = _find_withdrawal(self._withdrawn, stored) or query.first_failure(stored, subscription.validity())
        applied = _find_withdrawal(self._retracted, stored) or query.first_failure(
            stored, subscription.validity(self._ledgers.requests_applied)
        )
        expected = applied is None and not self._waiting(stored, subscription)
        if expected != (pair["state"] == MATCHED):
            pair["problem"] = _describe_disagreement(expected, written, retracted)
        elif failure is None and pair["state"] == NOT_MATCHED:
            pair["state"] = PENDING
        pair["condition"] = failure.condition if failure else None
        return {**pair, "reason": self._reason(pair, failure)}

    def _waiting(self, stored: StoredObject, subscription: StoredSubscription) -> list[str]:
        """Name which of the object and the subscription no finished batch has processed yet."""
        waiting = ["the object"] if stored.key > self._ledgers.objects_matched else []
        return waiting + (["the subscription"] if subscription.key > self._ledgers.requests_applied else [])

    def _reason(self, pair: dict[str, Any], failure: FailedCondition | None) -> str:
        satisfied = "the object satisfies the subscription"
        if pair["problem"]:
            return failure.reason if failure else satisfied
        if pair["state"] == PENDING:
            waiting = self._waiting(pair["object"], pair["subscription"])
            wait = f"{' and '.join(waiting)} {'wait' if len(waiting) > 1 else 'waits'} for the next batch"
            return f"{satisfied}, but is not matched yet: {wait} (pststream match)"
        written = f"batch {pair['written'][0]['batch_id']} wrote the pair" if pair["written"] else ""
        if failure is None:
            return f"{satisfied}; {written}"
        if pair["state"] == MATCHED:
            return f"{failure.reason}; {written}, and the next batch retracts it (pststream match)"
        if pair["retracted"]:
            return f"{failure.reason}; {written}, batch {pair['retracted'][0]['batch_id']} retracted it"
        return failure.reason

    def add_posting(self, pair: dict[str, Any]) -> dict[str, Any]:
        """Add the posting of a pair that satisfies the match rule, and the first fault of its stored rows."""
        if pair["condition"] is not None or pair["problem"] == _UNREADABLE:
            return pair
        stored, subscription, written = pair["object"], pair["subscription"], pair["written"]
        fault = find_stored_fault(stored, subscription)
        problem = pair["problem"] or fault
        if problem is None and len(written) > 1:
            problem = f"the pair was written {len(written)} times: by batches {[row['batch_id'] for row in written]}"
        version = written[0]["plan_version"] if written else max(self._plans, default=0)
        finder = self._finder(self._serving_plan(version, subscription.key))
        if finder is None:
            return {**pair, "problem": problem}
        posting = None if fault else finder.find(stored, subscription)
        if posting is None:
            problem = problem or "no piece of the subscription contains the object, though its region does"
        elif written and written[0]["worker"] != posting["worker"]:
            problem = problem or (
                f"worker {written[0]['worker']} wrote the pair, but worker {posting['worker']} serves it"
            )
        return {**pair, "posting": posting, "problem": problem}

    def _serving_plan(self, version: int, key: int) -> int:
        """Return the plan that serves a subscription under plan `version`: itself or the plan that it retires."""
        plan = self._plans.get(version)
        if plan is None or plan["retiring_version"] is None or key > plan["retiring_to"]:
            return version
        return int(plan["retiring_version"])

    def _finder(self, version: int) -> PostingFinder | None:
        """Return the posting finder of a plan; None if there is no such plan."""
        if version not in self._finders:
            try:
                self._finders[version] = PostingFinder(self._reader, version)
            except UsageError:
                self._finders[version] = None
        return self._finders[version]


def _describe_disagreement(expected: bool, written: list[dict[str, Any]], retracted: list[dict[str, Any]]) -> str:
    if expected and retracted:
        return f"batch {retracted[0]['batch_id']} retracted the pair, though nothing ended the subscription before it"
    if expected:
        return "no batch wrote the pair, though batches have processed both"
    return f"batch {written[0]['batch_id']} wrote the pair, though the object does not satisfy the subscription"


def _rank(pair: dict[str, Any]) -> tuple[int, int, int, int]:
    """Sort key: problems, matches, pending pairs, then pairs by the number of conditions passed; the latest first."""
    order = 0 if pair["problem"] else 1 + (MATCHED, PENDING, NOT_MATCHED).index(pair["state"])
    conditions = pair["subscription"].kind.conditions
    places = {WITHDRAWN: -1, None: len(conditions), **{name: place for place, name in enumerate(conditions)}}
    passed = places[pair["condition"]]
    return order, -passed, -pair["subscription"].key, -pair["object"].key


def _find_withdrawal(withdrawn: WithdrawnObjects, stored: StoredObject) -> FailedCondition | None:
    """Return the failed condition of a withdrawn object; None for any other."""
    if not withdrawn.contain(np.array([stored.key]))[0]:
        return None
    return FailedCondition(WITHDRAWN, "the object was withdrawn (pststream withdraw)")


def _explain_unknown(
    object_id: str, subscription_id: str, object_known: bool, rejects: dict[str, Any]
) -> dict[str, Any]:
    if not object_known:
        noun, name, kind, condition = "object", object_id, "objects", OBJECT_UNKNOWN
    else:
        noun, name, kind, condition = "subscription", subscription_id, "requests", SUBSCRIPTION_UNKNOWN
    if rejects[kind]:
        why = f"a row with this id was rejected: {_describe_reject(rejects[kind][0])}"
    else:
        why = "if a file contains it, its row was rejected for another field: see pststream rejects"
    return {"state": NOT_MATCHED, "condition": condition, "reason": f"no {noun} {name!r} was accepted; {why}"}


def _describe_reject(row: dict[str, Any]) -> str:
    return f"{row['file']}, row {row['row']}: {row['reason']}: {row['detail']}"


def _pair_document(pair: dict[str, Any]) -> dict[str, Any]:
    """The pair as JSON values."""
    written, retracted = pair["written"], pair["retracted"]
    return {
        **{name: pair[name] for name in ("state", "condition", "reason", "problem", "posting")},
        "object": _object_document(pair["object"]),
        "subscription": _subscription_document(pair["subscription"]),
        "written_by": {k: written[0][k] for k in ("batch_id", "plan_version", "worker")} if written else None,
        "taken_back_by": retracted[0]["batch_id"] if retracted else None,
    }


def _object_document(stored: StoredObject) -> dict[str, Any]:
    text = stored.text if len(stored.text) <= _MAX_TEXT else stored.text[: _MAX_TEXT - 1] + "…"
    return {"object_key": stored.key, "ts": iso(stored.ts), "lon": stored.lon, "lat": stored.lat, "text": text}


def _subscription_document(subscription: StoredSubscription) -> dict[str, Any]:
    validity = subscription.validity()
    return {
        "subscription_key": subscription.key,
        "kind": subscription.kind.name,
        **subscription.query.describe(),
        "created_at": iso(validity.created_at),
        "end_at": iso(validity.end_at),
        "ended_by": validity.ended_by or None,
    }


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
            *(f"  {escape_controls(_describe_reject(row))}" for row in rejects),
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
    text = escape_controls(stored["text"])
    lines.append(f"  object        {stored['ts']} at {stored['lon']:.9g}, {stored['lat']:.9g}: {text}")
    end = subscription["end_at"]
    until = f"until {end} ({subscription['ended_by']})" if end else "without end"
    query = "; ".join(map(escape_controls, stored_kind(subscription["kind"]).facts(subscription).values()))
    lines.append(f"  subscription  {query}; from {subscription['created_at']} {until}")
    return lines
