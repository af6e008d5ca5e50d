"""Prepare the answer of a subscription with memory for a page: a map, its rows, its changes, its words over time."""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pststream.base.texts import counted, moment
from pststream.queries.kinds.contract import Answers, RankedAnswers, StoredSubscription
from pststream.reports.pages.answer_section import (
    AnsweredQuestion,
    AnswerRow,
    AnswerSection,
    prepare_answer,
)
from pststream.reports.plots.bar_chart import BarChart, BarValue, draw_bar_chart, segment_style
from pststream.reports.reading.answer_view import AnswerView, ViewedChange, ViewedRow
from pststream.tables.owners import show_id

_BARS, _CHANGES, _WORDS = 60, 30, 15


class ShownChange(NamedTuple):
    """A change as a table shows it. object_id: that of its page, None: it has none"""

    batch_id: int
    change: str
    rank: int
    what: str
    object_id: str | None
    ts: dt.datetime
    value: str


class HeatCell(NamedTuple):
    """A count of a word at a tick, None without; share: the count over the greatest one."""

    objects: int | None
    share: float


class HeatTable(NamedTuple):
    """The words of the latest reports: `rows` have a cell for each tick, the most frequent word comes first."""

    ticks: list[dt.datetime]
    rows: list[tuple[str, list[HeatCell]]]
    left_out: int


class StandingSection(NamedTuple):
    """What a page shows of an answer.

    note     how many rows it has, and as of when
    history  changes by batch, None without
    changes  the latest first
    heat     of reports, None without
    """

    answer: AnswerSection
    note: str
    history: BarChart | None
    changes: list[ShownChange]
    heat: HeatTable | None


def prepare_standing(subscription: StoredSubscription, view: AnswerView, most: int | None = None) -> StandingSection:
    """Prepare the section of a subscription; `most`: how many rows its table lists, None for all."""
    described, kind = subscription.query.describe(), subscription.kind
    point = described.get("point")
    place = (point["lon"], point["lat"]) if point else None
    rows = [_answer_row(row, kind.answers) for row in view.rows]
    region = subscription.query.region
    if region is None and isinstance(kind.answers, RankedAnswers) and len(view.rows) >= described["k"]:
        region = kind.answers.reach(described, view.rows[-1].value)  # in which an object enters the answer
    answered = AnsweredQuestion(
        kind=kind.name,
        facts=[("Kind", kind.name), *kind.facts(described).items()],
        keywords=str(described.get("keywords") or ""),
        region=region,
        point=place,
        rows=rows,
        more=False,
        seconds=0.0,
        title=show_id(subscription.owner, subscription.subscription_id),
    )
    return StandingSection(
        prepare_answer(answered, most), _note(view, kind.answers, most), _draw_history(view.changes),
        [_shown_change(change, kind.answers) for change in view.changes[:_CHANGES]], _heat(view),
    )  # fmt: skip


def _answer_row(row: ViewedRow, answers: Answers | None) -> AnswerRow:
    if not isinstance(answers, RankedAnswers):
        return AnswerRow(row.rank, term=row.term, count=row.count)
    shown = {answers.value_column: answers.sign * row.value}
    distance, score = shown.get("distance_m"), shown.get("score")
    return AnswerRow(row.rank, row.object_id, row.ts, distance, score, lon=row.lon, lat=row.lat, text=row.text)


def _note(view: AnswerView, answers: Answers | None, most: int | None) -> str:
    of_objects = isinstance(answers, RankedAnswers)
    if view.as_of is None:
        return "No batch is done yet." if of_objects else "No report is made yet."
    rows = len(view.rows)
    number = counted(rows, "object" if of_objects else "term")
    listed = f", the first {most} are listed" if most is not None and rows > most else ""
    time = "as of stream time" if of_objects else "report of"
    lacking = "" if view.complete else " Rows of older batches may lack; pststream answers shows all."
    return f"{number}{listed}, {time} {moment(view.as_of)} UTC.{lacking}"


def _draw_history(changes: Sequence[ViewedChange]) -> BarChart | None:
    """Draw the rows that entered and left in each of the latest batches that are read."""
    if not changes:
        return None
    counts = Counter((change.batch_id, change.entered) for change in changes)
    batches = sorted({batch_id for batch_id, _ in counts})[-_BARS:]
    pairs = [(batch, counts[batch, True], counts[batch, False]) for batch in batches]
    bars = [BarValue(batch, [come, gone], f"Batch {batch}: {come} entered, {gone} left") for batch, come, gone in pairs]
    return draw_bar_chart("Rows that entered and left", bars, list(map(segment_style, (2, 1))), "{:g}".format)


def _shown_change(change: ViewedChange, answers: Answers | None) -> ShownChange:
    if isinstance(answers, RankedAnswers):
        what, value = change.object_id or "(erased)", answers.value_text(answers.sign * change.value)
    else:
        what, value = change.term or "(no word)", counted(change.count or 0, "object")
    entered = "entered" if change.entered else "left"
    return ShownChange(change.batch_id, entered, change.rank, what, change.object_id, change.ts, value)


def _heat(view: AnswerView) -> HeatTable | None:
    """Return the words of the latest reports with their counts; the _WORDS most frequent ones."""
    if not view.ticks:
        return None
    totals = Counter[str]()
    for counts in view.ticks.values():
        totals.update(counts)
    greatest = max((count for counts in view.ticks.values() for count in counts.values()), default=1)
    words = sorted(totals, key=lambda word: (-totals[word], word))
    rows = [
        (word, [HeatCell(counts.get(word), counts.get(word, 0) / greatest) for counts in view.ticks.values()])
        for word in words[:_WORDS]
    ]
    return HeatTable(list(view.ticks), rows, len(words) - len(rows))
