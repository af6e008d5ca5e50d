"""Explain why a subscription matches an object or has it in its answer, or why not; report where the tables disagree.

`pststream explain` and the Airflow page of an object call it. It evaluates the rule of the kind again for every pair of
rows with these ids, without the kernels, and compares the result with the stored matches and answers.
"""

from typing import Any, Protocol

from pststream import names
from pststream.delta_tables import AnyHome, TableReader
from pststream.kinds.answer_contract import RankedAnswers, TermReports
from pststream.kinds.contract import QueryKind, StoredObject, StoredSubscription
from pststream.reports.commands.explain.explain_context import WITHDRAWN, ExplainContext, Pair
from pststream.reports.commands.explain.explain_matches import MATCHED, NOT_MATCHED, PENDING, MatchExplainer
from pststream.reports.commands.explain.explain_ranked import IN_ANSWER, NOT_IN_ANSWER, RankedExplainer
from pststream.reports.commands.explain.explain_reports import COUNTED, NOT_COUNTED, ReportExplainer
from pststream.reports.commands.explain.explain_rows import (
    MAX_PER_ID,
    read_insertions,
    read_objects,
    read_rejects_of_id,
    read_written_pairs,
)
from pststream.reports.commands.explain.explain_text import describe_reject
from pststream.utc_times import iso

OBJECT_UNKNOWN, SUBSCRIPTION_UNKNOWN = "object_unknown", "subscription_unknown"

MAX_PAIRS = 20
_MAX_TEXT = 300

_ORDER = {MATCHED: 1, IN_ANSWER: 1, COUNTED: 1, PENDING: 2, NOT_MATCHED: 3, NOT_IN_ANSWER: 3, NOT_COUNTED: 3}
"""The order in which pairs are listed, by their state."""


class PairExplainer(Protocol):
    """Explains pairs of the subscriptions of some kinds."""

    def explain(self, stored: StoredObject, subscription: StoredSubscription) -> Pair:
        """Return state, first failed condition, reason and problem of a pair."""

    def add_details(self, pair: Pair) -> Pair:
        """Add what takes longer, for the pairs that are shown."""


def explain(
    home: AnyHome,
    object_id: str,
    subscription_id: str,
    max_objects: int = MAX_PER_ID,
    max_insertions: int = MAX_PER_ID,
) -> dict[str, Any]:
    """Explain every pair of the latest objects and insertions with these ids, the best pair first.

    A pair that matches has its posting, one that is in an answer its rank or its words, any other the first condition
    that fails.

    Keys of the result: object_id, subscription_id; state, condition (None, object_unknown, subscription_unknown,
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
    insertions = read_insertions(reader, subscription_id)[:max_insertions]
    explainers = _Explainers(context, MatchExplainer(context, read_written_pairs(reader, objects, insertions)))
    explained = [
        explainers.of_kind(subscription.kind).explain(stored, subscription)
        for stored in objects
        for subscription in insertions
    ]
    pairs = sorted(explained, key=_rank)[:MAX_PAIRS]
    rejects = {
        "objects": read_rejects_of_id(reader, "objects", object_id),
        "requests": read_rejects_of_id(reader, "requests", subscription_id),
    }
    best = pairs[0] if pairs else _explain_unknown(object_id, subscription_id, bool(objects), rejects)
    documents = [_pair_document(explainers.of_kind(pair["subscription"].kind).add_details(pair)) for pair in pairs]
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


class _Explainers:
    """The explainers of a home, by what the kinds have: matches, ranked answers, or reports."""

    def __init__(self, context: ExplainContext, matches: MatchExplainer) -> None:
        self._matches: PairExplainer = matches
        self._ranked: PairExplainer = RankedExplainer(context)
        self._reports: PairExplainer = ReportExplainer(context)

    def of_kind(self, kind: QueryKind) -> PairExplainer:
        """Return the explainer of the pairs of a kind."""
        match kind.answers:
            case RankedAnswers():
                return self._ranked
            case TermReports():
                return self._reports
            case None:
                return self._matches


def _rank(pair: Pair) -> tuple[int, int, int, int]:
    """Sort key: problems, by state, then by the number of conditions passed; the latest first."""
    order = 0 if pair["problem"] else _ORDER[pair["state"]]
    conditions = pair["subscription"].kind.conditions
    places = {WITHDRAWN: -1, None: len(conditions), **{name: place for place, name in enumerate(conditions)}}
    passed = places[pair["condition"]]
    return order, -passed, -pair["subscription"].key, -pair["object"].key


def _explain_unknown(
    object_id: str, subscription_id: str, object_known: bool, rejects: dict[str, Any]
) -> dict[str, Any]:
    if not object_known:
        noun, name, kind, condition = "object", object_id, "objects", OBJECT_UNKNOWN
    else:
        noun, name, kind, condition = "subscription", subscription_id, "requests", SUBSCRIPTION_UNKNOWN
    if rejects[kind]:
        why = f"a row with this id was rejected: {describe_reject(rejects[kind][0])}"
    else:
        why = "if a file contains it, its row was rejected: see pststream rejects"
    return {"state": NOT_MATCHED, "condition": condition, "reason": f"no {noun} {name!r} was accepted; {why}"}


def _pair_document(pair: Pair) -> dict[str, Any]:
    """The pair as JSON values."""
    written, retracted = pair["written"], pair["retracted"]
    return {
        **{name: pair[name] for name in ("state", "condition", "reason", "problem", "posting", "answer")},
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
