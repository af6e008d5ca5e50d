"""Explain the rank of an object in an answer of k objects, or why reports of terms count it or do not.

The rule of the kind is evaluated over all stored objects, and the words of a report are counted again, without the
kernels; the results are compared with the stored answer or report.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base.arrow_columns import TIME
from pststream.base.texts import counted
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.queries.kinds.answer_query import CREATED_AT, END, RANK, WINDOW, show_window
from pststream.queries.kinds.contract import (
    FailedCondition,
    ObjectRows,
    RankedAnswers,
    StoredObject,
    StoredSubscription,
    TermReports,
    Validity,
)
from pststream.queries.kinds.fields import parse_duration, parse_window_field
from pststream.queries.kinds.frequent_terms import RegionQuery
from pststream.queries.kinds.keywords import term_of
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import contains
from pststream.queries.text.words import reported_words, tokenize
from pststream.reports.commands.explain_matches import PENDING, find_stored_fault
from pststream.reports.commands.explain_rows import (
    UNREADABLE,
    ExplainContext,
    Pair,
    describe_waiting,
    find_failure,
    find_withdrawal,
    new_pair,
)
from pststream.reports.reading.answer_view import (
    Row,
    StoredAnswer,
    answer_order,
    asked_answer,
    read_stored_answers,
)
from pststream.reports.reading.object_ranking import (
    CLOSE,
    MAX_SEARCHED,
    AnswerEnd,
    ObjectRanking,
    Place,
    StoredWordWeights,
    rank_objects,
    read_objects,
    that_meet,
    word_weights,
)
from pststream.tables.delta_tables import TableReader

IN_ANSWER, NOT_IN_ANSWER = "in answer", "not in answer"


@dataclass(frozen=True)
class AnswerState:
    """An answer after the last batch, as it is stored.

    rows   the best first, as in `answer_log`
    """

    subscription: StoredSubscription
    reader: TableReader
    end: AnswerEnd
    weights: StoredWordWeights
    stored: StoredAnswer
    rows: list[Row]

    @property
    def answers(self) -> RankedAnswers:
        """The rule of the kind."""
        return cast(RankedAnswers, self.subscription.kind.answers)

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The fields of the request."""
        return self.subscription.query.describe()

    @cached_property
    def ranking(self) -> ObjectRanking:
        """The ranking of the objects by the rule: not needed for subscriptions that have ended."""
        window, start = parse_window_field(self.asked, counts_objects=True), to_micros(self.subscription.created_at)
        return rank_objects(
            self.reader, self.answers, self.asked, start, window, self.end, self.weights, self.subscription.where
        )

    def rank_of(self, key: int) -> int | None:
        """Return the rank of an object in the stored answer."""
        return next((rank for rank, row in enumerate(self.rows, 1) if row["object_key"] == key), None)

    def value_of(self, stored: StoredObject) -> float:
        """Return the value of an object that satisfies the words, by the rule."""
        return float(self.answers.values(self.asked, _row_of(stored), self.weights)[0])

    def shown(self, value: float) -> float:
        """Return a value as the answers show it."""
        return self.answers.sign * value

    @property
    def last(self) -> float | None:
        """The value of the last row of a full answer, behind which no object enters."""
        return self.rows[-1]["value"] if self.rows and len(self.rows) >= self.asked["k"] else None


class RankedExplainer:
    """Explains pairs of one home with answers of the k best objects."""

    def __init__(self, context: ExplainContext) -> None:
        self._context = context
        self._end = context.last_end()
        self._states: dict[int, AnswerState] = {}

    def explain(self, stored: StoredObject, subscription: StoredSubscription) -> Pair:
        """Return state, first failed condition and reason of a pair, and what the answer has of the object."""
        pair, context, query = new_pair(NOT_IN_ANSWER, stored, subscription), self._context, subscription.query
        if not query.is_readable():
            return {**pair, "reason": "the stored keywords cannot be read", "problem": UNREADABLE}
        waiting, end = context.waiting(stored, subscription), self._end
        if waiting or end is None:
            failure = find_failure(context.withdrawn, stored, subscription, subscription.validity())
            if failure:
                return {**pair, "condition": failure.condition, "reason": failure.reason}
            wait = describe_waiting(waiting) if waiting else "no batch has had an object"
            return {**pair, "state": PENDING, "reason": f"the object satisfies the subscription's words, but {wait}"}
        return self._explain_state(pair, self._state(subscription, end))

    def add_details(self, pair: Pair) -> Pair:
        """Add the first fault of the stored rows of a pair."""
        if pair["problem"] or not pair["answer"]:
            return pair
        return {**pair, "problem": find_stored_fault(pair["object"], pair["subscription"])}

    def _state(self, subscription: StoredSubscription, end: AnswerEnd) -> AnswerState:
        if subscription.key not in self._states:
            reader, time = self._context.reader, from_micros(end.stream_time)
            asked = asked_answer(subscription, self._context.ledgers.requests_applied)
            (stored,) = read_stored_answers(reader, [asked], end.batch_id, time)
            rows = sorted(stored.present, key=answer_order)
            weights = word_weights(reader, end.requests_to)
            self._states[subscription.key] = AnswerState(subscription, reader, end, weights, stored, rows)
        return self._states[subscription.key]

    def _explain_state(self, pair: Pair, state: AnswerState) -> Pair:
        stored, subscription, context = pair["object"], pair["subscription"], self._context
        applied = subscription.validity(context.ledgers.requests_applied)
        rank, value = state.rank_of(stored.key), state.value_of(stored)
        failure = find_failure(context.applied, stored, subscription, applied)
        failure = failure or _find_time_failure(state, stored, applied)
        compares = failure is None and state.ranking.complete
        place = state.ranking.place(stored.key, to_micros(stored.ts), value) if compares else None
        answer = _document(state, stored, rank, value, place, failure is not None)
        pair = {**pair, "answer": answer, "state": NOT_IN_ANSWER if rank is None else IN_ANSWER}
        problem = _find_problem(state, rank, value, failure, place, stored) if state.stored.complete else None
        if problem and context.erased_since(state.end.batch_id):
            reason = "rows were erased since the last batch, and the next one evaluates the answer (pststream match)"
            return {**pair, "state": PENDING, "reason": reason}
        if rank is not None:
            # What no batch has applied yet: a withdrawal, a deletion.
            later = (
                failure
                or find_withdrawal(context.withdrawn, stored)
                or _find_time_failure(state, stored, subscription.validity())
            )
            what = f"the object is in the answer at rank {rank} of {len(state.rows)}{_describe_value(state, value)}"
            since = f"; it entered in batch {answer['entered_in_batch']}" if answer["entered_in_batch"] else ""
            gone = f"; {later.reason}, and the next batch removes it (pststream match)" if later else ""
            condition = failure.condition if failure else None
            return {**pair, "condition": condition, "reason": what + since + gone, "problem": problem}
        failure = failure or FailedCondition(RANK, _describe_miss(state, value, place))
        left = answer["left_in_batch"]
        after = f"; it left the answer in batch {left}" if left else ""
        return {**pair, "condition": failure.condition, "reason": failure.reason + after, "problem": problem}


def _row_of(stored: StoredObject) -> ObjectRows:
    key, ts, lon, lat = (np.array([number]) for number in (stored.key, to_micros(stored.ts), stored.lon, stored.lat))
    owner, terms = np.zeros(len(stored.terms), np.int64), np.array(stored.terms, np.int64)
    return ObjectRows(key, ts, lon, lat, owner, terms, [stored.parts])


def _find_time_failure(state: AnswerState, stored: StoredObject, validity: Validity) -> FailedCondition | None:
    """Return the first condition that fails as of stream time: the life of the subscription, the window."""
    now, ts = from_micros(state.end.stream_time), to_micros(stored.ts)
    if now < validity.created_at:
        begins = f"the subscription begins at {iso(validity.created_at)}"
        return FailedCondition(CREATED_AT, f"{begins}, and stream time is {iso(now)}, so it has no answer yet")
    if validity.end_at is not None and now >= validity.end_at:
        gone = f"and stream time is {iso(now)}, so it has no answer any more"
        return FailedCondition(END, f"{_describe_end(validity)}, {gone}")
    window = state.asked.get("window")
    after = None if window is None else state.ranking.after
    if window is None or after is None or (ts, stored.key) > after:
        return None
    if isinstance(window, str):
        begins = f"the window of {window} begins after {iso(from_micros(after[0]))}, as stream time is {iso(now)}"
    elif not state.ranking.complete:
        return None
    else:
        begins = f"{show_window(window)} are more recent, and the window has no more"
    return FailedCondition(WINDOW, f"the object is of {iso(stored.ts)}, but {begins}")


def _find_problem(
    state: AnswerState,
    rank: int | None,
    value: float,
    failure: FailedCondition | None,
    place: Place | None,
    stored: StoredObject,
) -> str | None:
    """Return how the stored answer contradicts the rule, in a sentence; None if it does not."""
    if rank is None:
        if failure is None and place is not None and place.most < state.asked["k"]:
            return "the answer lacks the object, though it is among the best that count"
        if failure is None and place is None and (state.last is None or value < state.last - _margin(value)):
            return "the answer lacks the object, though it is better than the last one"
        number, rows = len(state.ranking.key), len(state.rows)
        if failure is None and place is not None and rows < min(number, state.asked["k"]):
            return f"the answer has {counted(rows, 'row')}, though {counted(number, 'object')} may be in it"
        return None
    if failure is not None or rank > state.asked["k"]:
        return f"the answer has the object at rank {rank}, though it does not belong to it"
    row = state.rows[rank - 1]
    if to_micros(row["ts"]) != to_micros(stored.ts) or abs(row["value"] - value) > _margin(value):
        kept = f"{iso(row['ts'])} and {state.answers.value_text(state.shown(row['value']))}"
        return f"the answer has the object with {kept}, which are not its time and its value"
    if place is not None and not place.least < rank <= place.most + 1:
        return f"the answer has the object at rank {rank}, though {place.before} objects come before it"
    return None


def _margin(value: float) -> float:
    return CLOSE * max(1.0, abs(value))


def _describe_value(state: AnswerState, value: float) -> str:
    column = state.answers.value_column
    return f": its {column.removesuffix('_m')} is {state.answers.value_text(state.shown(value))}" if column else ""


def _describe_miss(state: AnswerState, value: float, place: Place | None) -> str:
    """Say by how much an object missed the answer."""
    k, answers, last = state.asked["k"], state.answers, state.last
    rank = f"; it would have rank {place.before + 1}" if place else ""
    what = f"the object satisfies all conditions, but is not among the {k} best{_describe_value(state, value)}"
    if last is None or not answers.value_column:
        return what + rank
    missed, text = abs(value - last), answers.value_text(state.shown(last))
    if missed == 0.0:
        return f"{what}, the same as of the last one, and newer objects come first{rank}"
    more = "more" if answers.sign > 0 else "less"
    return f"{what}, {answers.value_text(missed)} {more} than that of the last one, {text}{rank}"


def _document(
    state: AnswerState, stored: StoredObject, rank: int | None, value: float, place: Place | None, failed: bool
) -> dict[str, Any]:
    """Return what the answer has of an object, as JSON values."""
    changes = [row for row in state.stored.changes if row["object_key"] == stored.key]
    last_change = changes[-1] if changes else None
    entered, column, last = rank is not None, state.answers.value_column, state.last
    document: dict[str, Any] = {
        "batch_id": state.end.batch_id,
        "as_of": iso(from_micros(state.end.stream_time)),
        "k": state.asked["k"],
        "rows": len(state.rows),
        "rank": rank if rank is not None else place.before + 1 if place else None,
        "entered_in_batch": last_change["batch_id"] if last_change and entered else None,
        "left_in_batch": last_change["batch_id"] if last_change and not entered else None,
        "all_objects_compared": None if failed else place is not None,
    }
    if np.isnan(value):
        return document
    if column:
        document[column] = state.shown(value)
        document[f"last_{column}"] = None if last is None else state.shown(last)
        document["missed_by"] = abs(value - last) if last is not None and not entered else None
    return document | state.answers.parts(state.asked, _row_of(stored), state.weights)


COUNTED, NOT_COUNTED = "counted", "not counted"

MAX_TESTED = 200_000
"""Greatest number of objects with one of the words that are tested for the region."""


class Report(NamedTuple):
    """The current report of a subscription: that of the last tick that it reached. Times are microseconds.

    tick    None: there is none
    rows    the best first, as in `answer_log`
    """

    tick: int | None
    rows: list[Row]


class ReportExplainer:
    """Explains pairs of one home with reports of terms."""

    def __init__(self, context: ExplainContext) -> None:
        self._context = context
        self._end = context.last_end()

    def explain(self, stored: StoredObject, subscription: StoredSubscription) -> Pair:
        """Return state, first failed condition and reason of a pair, and the ticks whose reports count the object."""
        pair, context, end = new_pair(NOT_COUNTED, stored, subscription), self._context, self._end
        failure = find_failure(context.withdrawn, stored, subscription, subscription.validity())
        ticks = _ticks(stored, subscription)
        failure = failure or (None if ticks else _find_tick_failure(stored, subscription))
        if failure:
            return {**pair, "condition": failure.condition, "reason": failure.reason}
        waiting = context.waiting(stored, subscription)
        if waiting or end is None:
            wait = describe_waiting(waiting) if waiting else "no batch has had an object"
            return {**pair, "state": PENDING, "reason": f"the object belongs to reports, but {wait}"}
        reached = range(ticks.start, min(ticks.stop, end.stream_time + 1), ticks.step)
        if not reached:
            now, first = iso(from_micros(end.stream_time)), iso(from_micros(ticks[0]))
            reason = f"the first report that counts the object is that of {first}, and stream time is {now}"
            return {**pair, "state": PENDING, "reason": reason}
        first, last, left = iso(from_micros(reached[0])), iso(from_micros(reached[-1])), len(ticks) - len(reached)
        answer = {
            "batch_id": end.batch_id,
            "as_of": iso(from_micros(end.stream_time)),
            "ticks": len(reached),
            "first_tick": first,
            "last_tick": last,
            "later_ticks": left,
        }
        later = f", and {counted(left, 'later one')} will" if left else ""
        reports = f"{len(reached):,} reports count the object, from that of {first} to that of {last}"
        if len(reached) == 1:
            reports = f"1 report counts the object, that of {first}"
        return {**pair, "state": COUNTED, "answer": answer, "reason": reports + later}

    def add_details(self, pair: Pair) -> Pair:
        """Add what the current report has of the object's words, and how the report contradicts the objects."""
        stored, subscription, end = pair["object"], pair["subscription"], self._end
        if pair["state"] != COUNTED or end is None:
            return pair
        fault = find_stored_fault(stored, subscription)
        report = _read_report(self._context, subscription, end)
        ticks = _ticks(stored, subscription)
        if report.tick is None:
            return {**pair, "problem": fault}
        answer = pair["answer"] | {"current_tick": iso(from_micros(report.tick))}
        if report.tick not in ticks:
            reason = f"{pair['reason']}; the current report, of {answer['current_tick']}, does not"
            return {**pair, "answer": answer, "reason": reason, "problem": fault}
        k = subscription.query.describe()["k"]
        counts = _count_words(self._context, stored, subscription, report.tick, end)
        words = _list_words(report, counts, k)
        answer |= {"k": k, "rows": len(report.rows), "words": words}
        inside = sum(word["rank"] is not None for word in words)
        current = f"the current one, of {answer['current_tick']}, has {inside} of its {counted(len(words), 'word')}"
        if not words:
            current = f"the words of the current one, of {answer['current_tick']}, are too many to be counted here"
        reason = f"{pair['reason']}; {current}"
        if counts and not self._context.erased_since(
            min((row["batch_id"] for row in report.rows), default=end.batch_id)
        ):
            fault = fault or _find_report_problem(report, counts, k)
        return {**pair, "answer": answer, "reason": reason, "problem": fault}


def _ticks(stored: StoredObject, subscription: StoredSubscription) -> range:
    """Return the ticks whose reports count an object of the region, whatever stream time is."""
    rule, validity = cast(TermReports, subscription.kind.answers), subscription.validity()
    end = None if validity.end_at is None else to_micros(validity.end_at)
    return rule.ticks(subscription.query.describe(), to_micros(stored.ts), to_micros(validity.created_at), end)


def _find_tick_failure(stored: StoredObject, subscription: StoredSubscription) -> FailedCondition:
    """Return why no tick counts an object, by the life of the subscription or by the window."""
    rule, asked = cast(TermReports, subscription.kind.answers), subscription.query.describe()
    ts, start = to_micros(stored.ts), to_micros(subscription.created_at)
    if not rule.ticks(asked, ts, -(2**62), None):
        ticks = f"no multiple of {asked['step']} is within {asked['window']} after it"
        why = f"the object is of {iso(stored.ts)}, and {ticks}, so no report counts it"
        return FailedCondition(WINDOW, why)
    if not rule.ticks(asked, ts, start, None):
        begins = f"the subscription begins at {iso(subscription.created_at)}"
        why = f"{begins}, when the object of {iso(stored.ts)} has left the window"
        return FailedCondition(CREATED_AT, why)
    why = f"{_describe_end(subscription.validity())}, before the first report that would count the object"
    return FailedCondition(END, why)


def _describe_end(validity: Validity) -> str:
    ended = {"deletion": "was deleted as of", "expiry": "expired at"}[validity.ended_by]
    return f"the subscription {ended} {iso(validity.end_at)}"


def _read_report(context: ExplainContext, subscription: StoredSubscription, end: AnswerEnd) -> Report:
    asked = asked_answer(subscription, context.ledgers.requests_applied)
    (stored,) = read_stored_answers(context.reader, [asked], end.batch_id, from_micros(end.stream_time))
    tick = asked.tick(from_micros(end.stream_time))
    rows = sorted((row for row in stored.present if row["ts"] == tick and row["count"]), key=answer_order)
    return Report(None if tick is None else to_micros(tick), rows)


def _count_words(
    context: ExplainContext, stored: StoredObject, subscription: StoredSubscription, tick: int, end: AnswerEnd
) -> dict[str, int]:
    """Count the objects of a report that have each word of an object; no word if too many objects would be read."""
    words = cast(RegionQuery, subscription.query).counted_words(stored)
    pairs = {word for word in words if len(tokenize(word)) > 1}
    characters = {one for pair in pairs for one in tokenize(pair)}
    wanted_terms = [term_of(word) for word in characters | words - pairs]
    of_terms = {term_of(word): word for word in words - pairs}
    ids = np.array(sorted(of_terms), np.int64)
    first = tick - parse_duration("window", subscription.query.describe()["window"]) + 1
    low, high = (pa.scalar(time, pa.int64()).cast(TIME) for time in (first, tick))
    ts, region = pds.field("ts"), cast(Region, subscription.query.region)
    wanted = (pds.field("object_key") <= end.objects_to) & (ts >= low) & (ts <= high)
    counts, of_pairs, searched, tested = np.zeros(len(ids), np.int64), Counter(dict.fromkeys(pairs, 0)), 0, 0
    for rows, attributes in read_objects(context.reader, wanted, subscription.where, with_texts=bool(pairs)):
        may_count = rows.have_any(wanted_terms) & ~end.withdrawn.contain(rows.key)
        searched, tested = searched + len(rows.key), tested + int(may_count.sum())
        if searched > MAX_SEARCHED or tested > MAX_TESTED:
            return {}
        may_count = that_meet(subscription.where, attributes, may_count)
        inside = may_count.copy()
        inside[may_count] = [
            contains(region, lon, lat) for lon, lat in zip(rows.lon[may_count].tolist(), rows.lat[may_count].tolist())
        ]
        terms = rows.terms[inside[rows.owner]]
        counts += np.bincount(np.searchsorted(ids, terms[np.isin(terms, ids)]), minlength=len(ids))
        for row in np.flatnonzero(inside).tolist() if pairs else []:
            of_pairs.update(pairs & reported_words(rows.parts[row]))
    return {of_terms[term]: count for term, count in zip(ids.tolist(), counts.tolist(), strict=True)} | of_pairs


def _list_words(report: Report, counts: dict[str, int], k: int) -> list[dict[str, Any]]:
    """Return the counted words, the most frequent first, with their ranks or by how much they missed the report."""
    rank = {row["term"]: rank_of_row for rank_of_row, row in enumerate(report.rows, 1)}
    least = report.rows[-1]["count"] if len(report.rows) >= k else 0
    return [
        {"word": word, "count": count, "rank": rank.get(word), "missed_by": None if word in rank else least - count}
        for word, count in sorted(counts.items(), key=_by_frequency)
    ]


def _by_frequency(word: tuple[str, int]) -> tuple[int, bytes]:
    return -word[1], word[0].encode()


def _find_report_problem(report: Report, counts: dict[str, int], k: int) -> str | None:
    """Return how a report contradicts the counts of some words, in a sentence; None if it does not."""
    stored = {row["term"]: row["count"] for row in report.rows}
    last = [_by_frequency((row["term"], row["count"])) for row in report.rows[k - 1 :]]
    for word, count in counts.items():
        if word in stored and stored[word] != count:
            return f"the current report has {word!r} {stored[word]} times, though {_objects_have(count)} it"
        if word not in stored and (not last or _by_frequency((word, count)) < last[-1]):
            return f"the current report lacks {word!r}, though {_objects_have(count)} it"
    return None


def _objects_have(count: int) -> str:
    return "1 object has" if count == 1 else f"{count:,} objects have"
