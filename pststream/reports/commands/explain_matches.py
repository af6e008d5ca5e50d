"""Explain why an object matches a subscription or not: of the kinds that have matches.

The match rule is evaluated again, without the kernels, and compared with the rows of `matches`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.queries.kinds.contract import FailedCondition, StoredObject, StoredSubscription
from pststream.reports.commands.explain_context import (
    UNREADABLE,
    ExplainContext,
    Pair,
    describe_waiting,
    find_withdrawal,
    new_pair,
)
from pststream.reports.commands.explain_route import PostingFinder, find_stored_fault

MATCHED, PENDING, NOT_MATCHED = "matched", "pending", "not matched"

WrittenPairs = Mapping[tuple[int, int], Sequence[dict[str, Any]]]
"""The rows of `matches` that contain a pair, by object and subscription key."""


class MatchExplainer:
    """Explains pairs of one home with matches."""

    def __init__(self, context: ExplainContext, written: WrittenPairs) -> None:
        self._context, self._written = context, written
        self._finders: dict[int, PostingFinder | None] = {}
        plans = context.reader.rows(names.PLANS, ("plan_version", "retiring_version", "retiring_to"))
        self._plans = {row["plan_version"]: row for row in plans}

    def explain(self, stored: StoredObject, subscription: StoredSubscription) -> Pair:
        """Return state, first failed condition and reason of a pair."""
        rows = self._written.get((stored.key, subscription.key), [])
        written = [row for row in rows if not row["retracted"]]
        retracted = [row for row in rows if row["retracted"]]
        pair = new_pair(MATCHED if written and not retracted else NOT_MATCHED, stored, subscription)
        pair |= {"written": written, "retracted": retracted}
        query, context = subscription.query, self._context
        if not query.is_readable():
            return {**pair, "reason": "the stored keywords cannot be read", "problem": UNREADABLE}
        failure = find_withdrawal(context.withdrawn, stored) or query.first_failure(stored, subscription.validity())
        applied = find_withdrawal(context.applied, stored) or query.first_failure(
            stored, subscription.validity(context.ledgers.requests_applied)
        )
        waiting = context.waiting(stored, subscription)
        expected = applied is None and not waiting
        if expected != (pair["state"] == MATCHED):
            pair["problem"] = _describe_disagreement(expected, written, retracted)
        elif failure is None and pair["state"] == NOT_MATCHED:
            pair["state"] = PENDING
        pair["condition"] = failure.condition if failure else None
        return {**pair, "reason": _reason(pair, failure, waiting)}

    def add_details(self, pair: Pair) -> Pair:
        """Add the posting of a pair that satisfies the match rule, and the first fault of its stored rows."""
        if pair["condition"] is not None or pair["problem"] == UNREADABLE:
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
                self._finders[version] = PostingFinder(self._context.reader, version)
            except UsageError:
                self._finders[version] = None
        return self._finders[version]


def _reason(pair: Pair, failure: FailedCondition | None, waiting: Sequence[str]) -> str:
    satisfied = "the object satisfies the subscription"
    if pair["problem"]:
        return failure.reason if failure else satisfied
    if pair["state"] == PENDING:
        return f"{satisfied}, but is not matched yet: {describe_waiting(waiting)}"
    written = f"batch {pair['written'][0]['batch_id']} wrote the pair" if pair["written"] else ""
    if failure is None:
        return f"{satisfied}; {written}"
    if pair["state"] == MATCHED:
        return f"{failure.reason}; {written}, and the next batch retracts it (pststream match)"
    if pair["retracted"]:
        return f"{failure.reason}; {written}, batch {pair['retracted'][0]['batch_id']} retracted it"
    return failure.reason


def _describe_disagreement(expected: bool, written: list[dict[str, Any]], retracted: list[dict[str, Any]]) -> str:
    if expected and retracted:
        return f"batch {retracted[0]['batch_id']} retracted the pair, though nothing ended the subscription before it"
    if expected:
        return "no batch wrote the pair, though batches have processed both"
    return f"batch {written[0]['batch_id']} wrote the pair, though the object does not satisfy the subscription"
