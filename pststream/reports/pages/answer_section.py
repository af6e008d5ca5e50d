"""Prepare a question and its answer for a page: the facts of the question, a map, a table of the answer."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pststream.base.texts import counted, moment, short, whole
from pststream.queries.shapes.contract import Region
from pststream.reports.pages.matches_section import mark_words
from pststream.reports.plots.answer_map import AnswerMap, Place, draw_answer

_MAX_TEXT = 500
"""Characters of a text or a word that a page has: of a text of an object, in a row and at its dot."""


@dataclass(frozen=True)
class AnswerRow:
    """A row of an answer: an object with its place and text, or a term with its count."""

    rank: int
    object_id: str | None = None
    ts: dt.datetime | None = None
    distance_m: float | None = None
    score: float | None = None
    term: str | None = None
    count: int | None = None
    lon: float = 0.0
    lat: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with its answer.

    title     of its section in a report
    facts     what it asks for, in words: name, text
    keywords  its keywords; empty: none
    rows      of the answer, by rank; more: whether the answer has further rows
    seconds   that answering took
    """

    kind: str
    facts: Sequence[tuple[str, str]]
    keywords: str
    region: Region | None
    point: Place | None
    rows: Sequence[AnswerRow]
    more: bool
    seconds: float
    title: str = ""


class ShownRow(NamedTuple):
    """A row as the table shows it; long texts of `row` are cut.

    words  the text in parts: (text, whether a word of the keywords is in it)
    cells  what is shown of distance and score
    x, y   place on the map
    share  of a term: its count over the greatest one
    """

    row: AnswerRow
    words: list[tuple[str, bool]]
    cells: list[str]
    x: float
    y: float
    share: float


class AnswerSection(NamedTuple):
    """What a page shows of an answer; `titles` are those of the columns of `cells`."""

    question: AnsweredQuestion
    map: AnswerMap
    titles: list[str]
    rows: list[ShownRow]
    note: str


def prepare_answer(answered: AnsweredQuestion, most: int | None = None) -> AnswerSection:
    """Prepare a section; `most`: how many rows it lists, None for all. The map shows all rows."""
    rows = answered.rows
    objects = [row for row in rows if row.object_id is not None]
    drawn = draw_answer(answered.region, answered.point, [(row.lon, row.lat) for row in objects])
    titles = [
        title
        for title, has in (
            ("Distance", any(row.distance_m is not None for row in rows)),
            ("Score", any(row.score is not None for row in rows)),
        )
        if has
    ]
    greatest = max((row.count or 0 for row in rows), default=0) or 1
    return AnswerSection(
        answered, drawn, titles, [_shown(row, answered.keywords, drawn, greatest) for row in rows[:most]],
        _note(answered, most),
    )  # fmt: skip


def _shown(row: AnswerRow, keywords: str, drawn: AnswerMap, greatest: int) -> ShownRow:
    x, y = (round(float(value), 2) for value in (drawn.projection.x(row.lon), drawn.projection.y(row.lat)))
    row = replace(row, text=_cut(row.text), term=row.term and _cut(row.term))
    words = mark_words(row.text, keywords)
    cells = [describe_distance(row.distance_m)] if row.distance_m is not None else []
    cells += [f"{row.score:.6f}"] if row.score is not None else []
    return ShownRow(row, words, cells, x, y, (row.count or 0) / greatest)


def _cut(text: str) -> str:
    return text[:_MAX_TEXT] + (" …" if len(text) > _MAX_TEXT else "")


def describe_distance(metres: float) -> str:
    """Return a distance as pages show it."""
    return f"{metres:,.0f} m" if metres < 10_000 else f"{short(metres / 1000)} km"


def _note(answered: AnsweredQuestion, most: int | None) -> str:
    rows = len(answered.rows)
    if not rows:
        return "Nothing answers the question."
    noun = "object" if answered.rows[0].term is None else "term"
    number = f"More than {whole(rows)} {noun}s" if answered.more else counted(rows, noun)
    listed = f", the first {most} are listed" if most is not None and rows > most else ""
    end = "; the first ones are shown, and pststream ask --out writes all" if answered.more else ""
    return f"{number}{listed}{end}."


def describe_time(value: dt.datetime) -> str:
    """Return a time as pages show it."""
    return f"{moment(value)} UTC"
