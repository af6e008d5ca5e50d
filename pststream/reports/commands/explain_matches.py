"""Explain why an object matches a subscription or not: of the kinds that have matches.

The match rule is evaluated again, without the kernels, and compared with the rows of `matches`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.kernels.matching import index_cells
from pststream.plans.pieces import NO_UNIT
from pststream.plans.plan import SubscriptionPlan
from pststream.queries.kinds.contract import FailedCondition, MatchQuery, StoredObject, StoredSubscription
from pststream.queries.shapes.contract import Box, matched_lon
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.reports.commands.explain_rows import (
    UNREADABLE,
    ExplainContext,
    Pair,
    describe_waiting,
    find_failure,
    new_pair,
)
from pststream.reports.commands.plans import read_plan
from pststream.tables.delta_tables import TableReader


class IndexCell(NamedTuple):
    """A cell of the index by its id; columns count from the west, rows from the south."""

    cell: int
    level: int
    column: int
    row: int


def find_index_cell(box: Box, lon: float, lat: float) -> IndexCell:
    """Find the index cell of a point, on the level of a box that contains it."""
    level = index_cells.level_of_box(*box)
    shift = index_cells.MAX_LEVEL - level
    column, row = index_cells.column_of(lon) >> shift, index_cells.row_of(lat) >> shift
    return IndexCell((1 << (2 * level)) | index_cells.interleave(column, row), level, column, row)


class PostingFinder:
    """Finds the posting, the unit and the worker that match pairs under one plan.

    The rows of the plan decide: only the numbering of index cells is shared with the kernels that route and match.
    """

    def __init__(self, reader: TableReader, version: int) -> None:
        self.version = version
        row, self.plan, _ = read_plan(reader, version)
        self._vocabulary = row["index_version"]
        self._reader = reader

    def find(self, stored: StoredObject, subscription: StoredSubscription) -> dict[str, Any] | None:
        """Find the posting that matches an object with a subscription that it satisfies; None if no box contains it.

        A subscription is posted under the terms of its rarest clause, in every index cell of each box. The pair is
        emitted by the posting of the first of these terms that the object has.
        """
        posted = cast(MatchQuery, subscription.query).as_posted()
        lon, lat = matched_lon(stored.lon, stored.lat).item(), stored.lat
        boxes = [box for box in posted.boxes if box[0] <= lon <= box[2] and box[1] <= lat <= box[3]]
        if not boxes:
            return None
        words = posted.words
        clause = find_rarest_clause(posted.clauses, self._frequencies(posted.clauses))
        terms = {names.EVERY_OBJECT, *(term_id(word) for word in tokenize(stored.text))}
        term = next(term for term in clause if term in terms)
        cell = find_index_cell(boxes[0], lon, lat)
        if isinstance(self.plan, SubscriptionPlan):
            # The unit that the index records for the subscription, if any.
            wanted = pds.field("index_version") == self._vocabulary
            wanted &= (pds.field("subscription_key") == subscription.key) & pds.field("unit").is_valid()
            rows = self._reader.rows(names.WORKER_INDEX, ("unit",), wanted)
            recorded = np.array([rows[0]["unit"] if rows else NO_UNIT], np.int32)
            unit = int(self.plan.owner_units(np.array([subscription.key]), recorded)[0])
        else:
            unit = self.plan.find_unit(lon, lat, terms, term)
        return {
            "clause": [words[term] for term in clause],
            "word": words[term],
            "term": term,
            **cell._asdict(),
            "box": list(boxes[0]),
            "unit": unit,
            "worker": int(self.plan.unit_worker[unit]),
            "plan_version": self.version,
        }

    def _frequencies(self, clauses: tuple[tuple[int, ...], ...]) -> dict[int, int]:
        terms = pa.array(sorted({term for clause in clauses for term in clause}), pa.int64())
        wanted = (pds.field("plan_version") == self._vocabulary) & pds.field("term_id").isin(terms)
        rows = self._reader.rows(names.VOCABULARY, ("term_id", "objects"), wanted)
        return {row["term_id"]: row["objects"] for row in rows}


def find_rarest_clause(clauses: tuple[tuple[int, ...], ...], frequencies: dict[int, int]) -> tuple[int, ...]:
    """Return the clause whose terms have the fewest sampled objects in sum; of equal ones the shortest or first."""
    return min(clauses, key=lambda clause: (sum(frequencies.get(term, 0) for term in clause), len(clause)))


def find_stored_fault(stored: StoredObject, subscription: StoredSubscription) -> str | None:
    """Compare stored term ids with the object's text, and stored clauses with the keywords; None if they agree."""
    if sorted(stored.terms) != sorted({term_id(word) for word in tokenize(stored.text)}):
        return "the object's stored terms are not those of its text"
    return subscription.query.find_fault()


MATCHED, PENDING, NOT_MATCHED = "matched", "pending", "not matched"


class MatchExplainer:
    """Explains pairs of one home with matches.

    written  the rows of `matches` that contain a pair, by object and subscription key
    """

    def __init__(self, context: ExplainContext, written: Mapping[tuple[int, int], Sequence[dict[str, Any]]]) -> None:
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
        failure = find_failure(context.withdrawn, stored, subscription, subscription.validity())
        until = subscription.validity(context.ledgers.requests_applied)
        applied = find_failure(context.applied, stored, subscription, until)
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
            disagreement = f"worker {written[0]['worker']} wrote the pair, but worker {posting['worker']} serves it"
            problem = problem or disagreement
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
