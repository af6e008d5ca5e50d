"""Prepare a question and its answer for a page: the facts of the question, a map, a table of the answer."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pststream.base.texts import counted, moment, short, whole
from pststream.queries.shapes.contract import Region
from pststream.queries.text.expression import OPERATORS
from pststream.queries.text.words import tokenize
from pststream.reports.plots.plan_map import BaseMap, Projection, draw_base_map, fit_view, point_path, region_path
from pststream.reports.reading.samples import MatchView
from pststream.workloads.places import nearest_cities

Place = tuple[float, float]
"""Longitude and latitude in degrees."""


@dataclass(frozen=True)
class AnswerMap:
    """A map of a question; `region`, `spot` and `dots` are path data, and there is one of `dots` for each object."""

    projection: Projection
    base: BaseMap
    region: str
    spot: str
    dots: list[str]


def draw_answer(region: Region | None, point: Place | None, objects: Sequence[Place]) -> AnswerMap:
    """Lay out the map; it shows the region with a margin, or else the point and the objects."""
    if region is not None:
        sides = np.array(region.boxes)
        corners = [sides[:, [axis, axis + 2]].ravel() for axis in (0, 1)]
    else:
        corners = list(np.array([*objects, *([point] if point else [])]).reshape(-1, 2).T)
    if len(corners[0]):
        # A fifth more on each side, and 0.02 degrees at least.
        more = [max(0.2 * np.ptp(values), 0.02) for values in corners]
        corners = [np.array([values.min() - one, values.max() + one]) for values, one in zip(corners, more)]
    projection = fit_view(*corners)
    return AnswerMap(
        projection,
        draw_base_map(projection),
        region_path(region, projection) if region is not None else "",
        _dot(point, projection) if point else "",
        [_dot(axis, projection) for axis in objects],
    )


def draw_places(places: np.ndarray) -> tuple[AnswerMap, str]:
    """Lay out a map to draw a question on, and its dots as path data; places float64[n,2] of longitude and latitude."""
    projection = fit_view(places[:, 0], places[:, 1])
    empty = AnswerMap(projection, draw_base_map(projection), "", "", [])
    return empty, point_path(projection, places[:, 0], places[:, 1])


def _dot(place: Place, projection: Projection) -> str:
    return point_path(projection, np.array([place[0]]), np.array([place[1]]))


_SPACES = re.compile(r"(\s+)")
_NEAR_KM = 25
_MAX_PAYLOAD_FIELDS = 4
_MAX_PAYLOAD_TEXT = 120


class MatchRow(NamedTuple):
    """A sampled match as the table shows it.

    words    the object's text in parts: (text, whether a word of the subscription is in it)
    title    the payload's title, or None
    payload  other fields of the payload, each as "name: value"
    region   number of the region among `MatchTable.regions`; x, y: place of the object on the map
    """

    match: MatchView
    words: list[tuple[str, bool]]
    title: str | None
    payload: list[str]
    place: str
    region: int
    x: float
    y: float


class MatchTable(NamedTuple):
    """The rows of the table, and the regions of their subscriptions as path data, each once."""

    rows: list[MatchRow]
    regions: list[str]


def prepare_matches(matches: list[MatchView], projection: Projection) -> MatchTable:
    """Prepare a row for each match."""
    if not matches:
        return MatchTable([], [])
    cities = nearest_cities(np.array([m.lon for m in matches]), np.array([m.lat for m in matches]))
    regions: dict[str, int] = {}
    rows = []
    for match, (city, km) in zip(matches, cities):
        payload = dict(match.payload)
        title = payload.pop("title", None)
        others = list(payload.items())[:_MAX_PAYLOAD_FIELDS]
        row = MatchRow(
            match=match,
            words=mark_words(match.text, match.keywords),
            title=title if isinstance(title, str) and title.strip() else None,
            payload=[f"{name}: {value}"[:_MAX_PAYLOAD_TEXT] for name, value in others],
            place=city if km < _NEAR_KM else f"{km:,.0f} km from {city}",
            region=regions.setdefault(region_path(match.region, projection), len(regions)),
            x=round(float(projection.x(match.lon)), 2),
            y=round(float(projection.y(match.lat)), 2),
        )
        rows.append(row)
    return MatchTable(rows, list(regions))


def mark_words(text: str, keywords: str) -> list[tuple[str, bool]]:
    """Split a text at its spaces; True for parts with a word that the expression names."""
    bare = keywords.replace("(", " ").replace(")", " ").split()
    wanted = {word for part in bare if part not in OPERATORS for word in tokenize(part)}
    return [(part, not wanted.isdisjoint(tokenize(part))) for part in _SPACES.split(text)]


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
    titles = ["Distance"] if any(row.distance_m is not None for row in rows) else []
    titles += ["Score"] if any(row.score is not None for row in rows) else []
    greatest = max((row.count or 0 for row in rows), default=0) or 1
    return AnswerSection(
        answered, drawn, titles, [_shown(row, answered.keywords, drawn, greatest) for row in rows[:most]],
        _note(answered, most),
    )  # fmt: skip


def _shown(row: AnswerRow, keywords: str, drawn: AnswerMap, greatest: int) -> ShownRow:
    x, y = (round(float(value), 2) for value in (drawn.projection.x(row.lon), drawn.projection.y(row.lat)))
    row = replace(row, text=cut(row.text), term=row.term and cut(row.term))
    words = mark_words(row.text, keywords)
    metres = row.distance_m
    cells = [] if metres is None else [f"{metres:,.0f} m" if metres < 10_000 else f"{short(metres / 1000)} km"]
    cells += [f"{row.score:.6f}"] if row.score is not None else []
    return ShownRow(row, words, cells, x, y, (row.count or 0) / greatest)


def cut(text: str, most: int = 500) -> str:
    """Return a text of an object, or a word, as a page shows it: at most so many characters."""
    return text[:most] + (" …" if len(text) > most else "")


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
