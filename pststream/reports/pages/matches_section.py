"""Prepare the report's table of sampled matches: marked words, nearest city, paths of the regions on the map."""

import re
from typing import NamedTuple

import numpy as np

from pststream.queries.text.expression import OPERATORS
from pststream.queries.text.words import tokenize
from pststream.reports.plots.base_map import Projection
from pststream.reports.plots.plan_map import region_path
from pststream.reports.reading.samples import MatchView
from pststream.workloads.places import nearest_cities

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
        region = regions.setdefault(region_path(match.region, projection), len(regions))
        rows.append(_row(match, city, km, region, projection))
    return MatchTable(rows, list(regions))


def _row(match: MatchView, city: str, km: float, region: int, projection: Projection) -> MatchRow:
    payload = dict(match.payload)
    title = payload.pop("title", None)
    return MatchRow(
        match=match,
        words=mark_words(match.text, match.keywords),
        title=title if isinstance(title, str) and title.strip() else None,
        payload=[f"{name}: {value}"[:_MAX_PAYLOAD_TEXT] for name, value in list(payload.items())[:_MAX_PAYLOAD_FIELDS]],
        place=city if km < _NEAR_KM else f"{km:,.0f} km from {city}",
        region=region,
        x=round(float(projection.x(match.lon)), 2),
        y=round(float(projection.y(match.lat)), 2),
    )


def mark_words(text: str, keywords: str) -> list[tuple[str, bool]]:
    """Split a text at its spaces; True for parts with a word that the expression names."""
    bare = keywords.replace("(", " ").replace(")", " ").split()
    wanted = {word for part in bare if part not in OPERATORS for word in tokenize(part)}
    return [(part, not wanted.isdisjoint(tokenize(part))) for part in _SPACES.split(text)]
