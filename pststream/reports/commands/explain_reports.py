"""Explain which reports of the terms of a region count an object, and what the current report has of its words.

The counts of the words are made again, without the kernels, and compared with the stored report.
"""

from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base.arrow_columns import TIME
from pststream.base.format_values import counted
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.queries.kinds.answer_contract import TermReports
from pststream.queries.kinds.contract import FailedCondition, StoredObject, StoredSubscription
from pststream.queries.kinds.frequent_terms_explain import CREATED_AT, END, WINDOW
from pststream.queries.kinds.keywords import term_of
from pststream.queries.kinds.question_fields import parse_duration
from pststream.queries.shapes.region import Region
from pststream.queries.shapes.registry import contains
from pststream.queries.text.words import tokenize
from pststream.reports.commands.explain_context import ExplainContext, Pair, describe_waiting, find_withdrawal, new_pair
from pststream.reports.commands.explain_matches import PENDING
from pststream.reports.commands.explain_route import find_stored_fault
from pststream.reports.reading.answer_view import TICKS, Row, answer_order, asked_answer, read_stored_answers
from pststream.reports.reading.object_ranking import MAX_SEARCHED, AnswerEnd, read_objects

COUNTED, NOT_COUNTED = "counted", "not counted"

MAX_TESTED = 200_000
"""Greatest number of objects with one of the words that are tested for the region."""

_EVER = -(2**62)
"""Before any time."""


class Report(NamedTuple):
    """The current report of a subscription: that of the last tick that has a word. Times are microseconds.

    tick    None: none of the latest ticks has a report
    rows    the best first, as in `answer_log`
    since   time after which reports were looked for
    """

    tick: int | None
    rows: list[Row]
    since: int


class ReportExplainer:
    """Explains pairs of one home with reports of terms."""

    def __init__(self, context: ExplainContext) -> None:
        self._context = context
        self._end = context.last_end()

    def explain(self, stored: StoredObject, subscription: StoredSubscription) -> Pair:
        """Return state, first failed condition and reason of a pair, and the ticks whose reports count the object."""
        pair, context, end = new_pair(NOT_COUNTED, stored, subscription), self._context, self._end
        failure = find_withdrawal(context.withdrawn, stored) or subscription.query.first_failure(
            stored, subscription.validity()
        )
        ticks = _ticks(stored, subscription)
        failure = failure or (None if ticks else _find_time_failure(stored, subscription))
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
        answer = {
            "batch_id": end.batch_id,
            "as_of": iso(from_micros(end.stream_time)),
            "ticks": len(reached),
            "first_tick": iso(from_micros(reached[0])),
            "last_tick": iso(from_micros(reached[-1])),
            "later_ticks": len(ticks) - len(reached),
        }
        return {**pair, "state": COUNTED, "answer": answer, "reason": _describe_ticks(answer)}

    def add_details(self, pair: Pair) -> Pair:
        """Add what the current report has of the object's words, and how the report contradicts the objects."""
        stored, subscription, end = pair["object"], pair["subscription"], self._end
        if pair["state"] != COUNTED or end is None:
            return pair
        fault = find_stored_fault(stored, subscription)
        report = _read_report(self._context, subscription, end)
        ticks = _ticks(stored, subscription)
        last = ticks[pair["answer"]["ticks"] - 1]
        if report.tick is None or report.tick < last:
            lacks = "a report lacks, though the object belongs to it: that of " + str(iso(from_micros(last)))
            return {**pair, "problem": fault or (lacks if last > report.since else None)}
        answer = pair["answer"] | {"current_tick": iso(from_micros(report.tick))}
        if report.tick not in ticks:
            reason = f"{pair['reason']}; the current report, of {answer['current_tick']}, does not"
            return {**pair, "answer": answer, "reason": reason, "problem": fault}
        k = subscription.query.describe()["k"]
        counts = _count_words(self._context, stored, subscription, report.tick, end)
        answer |= {"k": k, "rows": len(report.rows), "words": _list_words(report, counts, k)}
        reason = f"{pair['reason']}; {_describe_words(answer)}"
        if counts and not self._context.erased_since(min(row["batch_id"] for row in report.rows)):
            fault = fault or _find_problem(report, counts, k)
        return {**pair, "answer": answer, "reason": reason, "problem": fault}


def _ticks(stored: StoredObject, subscription: StoredSubscription) -> range:
    """Return the ticks whose reports count an object of the region, whatever stream time is."""
    rule, validity = cast(TermReports, subscription.kind.answers), subscription.validity()
    end = None if validity.end_at is None else to_micros(validity.end_at)
    return rule.ticks(subscription.query.describe(), to_micros(stored.ts), to_micros(validity.created_at), end)


def _find_time_failure(stored: StoredObject, subscription: StoredSubscription) -> FailedCondition:
    """Return why no tick counts an object, by the life of the subscription or by the window."""
    rule, asked = cast(TermReports, subscription.kind.answers), subscription.query.describe()
    ts, start = to_micros(stored.ts), to_micros(subscription.created_at)
    if not rule.ticks(asked, ts, _EVER, None):
        ticks = f"no multiple of {asked['step']} is within {asked['window']} after it"
        return FailedCondition(WINDOW, f"the object is of {iso(stored.ts)}, and {ticks}, so no report counts it")
    if not rule.ticks(asked, ts, start, None):
        begins = f"the subscription begins at {iso(subscription.created_at)}"
        return FailedCondition(CREATED_AT, f"{begins}, when the object of {iso(stored.ts)} has left the window")
    ends = subscription.validity()
    ended = {"deletion": "was deleted as of", "expiry": "expired at"}[ends.ended_by]
    return FailedCondition(
        END, f"the subscription {ended} {iso(ends.end_at)}, before the first report that would count the object"
    )


def _describe_ticks(answer: dict[str, Any]) -> str:
    number, first, last = answer["ticks"], answer["first_tick"], answer["last_tick"]
    later = f", and {counted(answer['later_ticks'], 'later one')} will" if answer["later_ticks"] else ""
    if number == 1:
        return f"1 report counts the object, that of {first}{later}"
    return f"{number:,} reports count the object, from that of {first} to that of {last}{later}"


def _read_report(context: ExplainContext, subscription: StoredSubscription, end: AnswerEnd) -> Report:
    asked = asked_answer(subscription)
    (stored,) = read_stored_answers(context.reader, [asked], end.batch_id, from_micros(end.stream_time))
    until = end.stream_time if asked.until is None else min(end.stream_time, to_micros(asked.until))
    since = until - TICKS * asked.step
    ticks = [to_micros(row["ts"]) for row in stored.present]
    if not ticks:
        return Report(None, [], since)
    rows = [row for row, tick in zip(stored.present, ticks, strict=True) if tick == max(ticks)]
    return Report(max(ticks), sorted(rows, key=answer_order), since)


def _count_words(
    context: ExplainContext, stored: StoredObject, subscription: StoredSubscription, tick: int, end: AnswerEnd
) -> dict[str, int]:
    """Count the objects of a report that have each word of an object; no word if too many objects would be read."""
    words = {term_of(word): word for word in tokenize(stored.text)}
    ids = np.array(sorted(words), np.int64)
    first = tick - parse_duration("window", subscription.query.describe()["window"]) + 1
    low, high = (pa.scalar(time, pa.int64()).cast(TIME) for time in (first, tick))
    ts, region = pds.field("ts"), cast(Region, subscription.query.region)
    wanted = (pds.field("object_key") <= end.objects_to) & (ts >= low) & (ts <= high)
    counts, searched, tested = np.zeros(len(ids), np.int64), 0, 0
    for rows in read_objects(context.reader, wanted):
        may_count = rows.have_any(ids.tolist()) & ~end.withdrawn.contain(rows.key)
        searched, tested = searched + len(rows.key), tested + int(may_count.sum())
        if searched > MAX_SEARCHED or tested > MAX_TESTED:
            return {}
        inside = may_count.copy()
        inside[may_count] = [
            contains(region, lon, lat) for lon, lat in zip(rows.lon[may_count].tolist(), rows.lat[may_count].tolist())
        ]
        terms = rows.terms[inside[rows.owner]]
        counts += np.bincount(np.searchsorted(ids, terms[np.isin(terms, ids)]), minlength=len(ids))
    return {words[term]: count for term, count in zip(ids.tolist(), counts.tolist(), strict=True)}


def _list_words(report: Report, counts: dict[str, int], k: int) -> list[dict[str, Any]]:
    """Return the counted words, the most frequent first, with their ranks or by how much they missed the report."""
    rank = {row["term"]: place for place, row in enumerate(report.rows, 1)}
    least = report.rows[-1]["count"] if len(report.rows) >= k else 0
    return [
        {"word": word, "count": count, "rank": rank.get(word), "missed_by": None if word in rank else least - count}
        for word, count in sorted(counts.items(), key=_by_frequency)
    ]


def _by_frequency(word: tuple[str, int]) -> tuple[int, bytes]:
    return -word[1], word[0].encode()


def _describe_words(answer: dict[str, Any]) -> str:
    words, tick = answer["words"], answer["current_tick"]
    if not words:
        return f"the words of the current one, of {tick}, are too many to be counted here"
    inside = sum(word["rank"] is not None for word in words)
    return f"the current one, of {tick}, has {inside} of its {counted(len(words), 'word')}"


def _find_problem(report: Report, counts: dict[str, int], k: int) -> str | None:
    """Return how a report contradicts the counts of some words, in a sentence; None if it does not."""
    stored = {row["term"]: row["count"] for row in report.rows}
    last = _by_frequency((report.rows[-1]["term"], report.rows[-1]["count"]))
    for word, count in counts.items():
        if word in stored and stored[word] != count:
            return f"the current report has {word!r} {stored[word]} times, though {_objects_have(count)} it"
        if word not in stored and (len(report.rows) < k or _by_frequency((word, count)) < last):
            return f"the current report lacks {word!r}, though {_objects_have(count)} it"
    return None


def _objects_have(count: int) -> str:
    return "1 object has" if count == 1 else f"{count:,} objects have"
