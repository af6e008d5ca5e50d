"""Explain whether an object matches a stored range query, without the kernels: region, keywords, validity."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pststream.domain.region import Box, Region, contains, haversine_m
from pststream.kinds.contract import FailedCondition, PostedQuery, StoredObject, Validity
from pststream.kinds.keywords import explain_missing_words, is_expression, stored_clauses_agree, words_by_term
from pststream.utc_times import iso

REGION, KEYWORDS, CREATED_AT, END = "region", "keywords", "created_at", "end"
CONDITIONS = (REGION, KEYWORDS, CREATED_AT, END)
"""In the order in which they are checked."""


@dataclass(frozen=True)
class RangeQuery:
    """A stored range query; `clauses` are term ids as stored."""

    keywords: str
    clauses: tuple[tuple[int, ...], ...]
    region: Region

    def is_readable(self) -> bool:
        """Whether the expression can be parsed: it could when it was accepted."""
        return is_expression(self.keywords)

    def find_fault(self) -> str | None:
        """Compare the stored clauses with the expression."""
        if stored_clauses_agree(self.keywords, self.clauses):
            return None
        return "the subscription's stored clauses are not those of its keywords"

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point, the words and the time of an object, in the order of CONDITIONS."""
        if not contains(self.region, stored.lon, stored.lat):
            away = _distance_text(self.region, stored)
            return FailedCondition(REGION, f"the object lies outside the region: {away}")
        missing = explain_missing_words(self.keywords, stored.text)
        if missing:
            return FailedCondition(KEYWORDS, missing)
        if stored.ts < validity.created_at:
            times = f"{iso(stored.ts)}, before the subscription begins at {iso(validity.created_at)}"
            span = _span_text(validity.created_at - stored.ts)
            return FailedCondition(CREATED_AT, f"the object is of {times}, {span} later")
        end = validity.end_at
        if end is not None and stored.ts >= end:
            ended = {"deletion": "was deleted as of", "expiry": "expired at"}[validity.ended_by]
            after = f"{_span_text(stored.ts - end)} after it"
            when = "exactly then; the end itself is outside" if stored.ts == end else after
            return FailedCondition(
                END, f"the subscription {ended} {iso(end)}, and the object is of {iso(stored.ts)}, {when}"
            )
        return None

    def as_posted(self) -> PostedQuery:
        """The boxes of the region, and the clauses with their words."""
        return PostedQuery(self.region.boxes, self.clauses, words_by_term(self.keywords))

    def describe(self) -> dict[str, Any]:
        """The fields `keywords` and, below `region`, `bbox` or `circle`."""
        return {"keywords": self.keywords, "region": _region_fields(self.region)}


def read_query(row: Mapping[str, Any]) -> RangeQuery:
    """The query that the columns of a stored row hold."""
    boxes = tuple(zip(row["west"], row["south"], row["east"], row["north"]))
    region = Region(boxes, tuple(row["circle"]) if row["circle"] else None)
    return RangeQuery(row["keywords"], tuple(tuple(clause) for clause in row["clauses"]), region)


def facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Keywords and region of a description, as text by label."""
    region = description["region"]
    if "bbox" in region:
        text = f"bbox {region['bbox']}"
    else:
        circle = region["circle"]
        text = f"circle of {circle['radius_m']:.9g} m around {circle['lon']:.9g}, {circle['lat']:.9g}"
    return {"Keywords": description["keywords"], "Region": text}


def _region_fields(region: Region) -> dict[str, Any]:
    if region.circle is not None:
        return {"circle": dict(zip(("lon", "lat", "radius_m"), region.circle))}
    west, south, _, north = region.boxes[0]
    return {"bbox": [west, south, region.boxes[-1][2], north]}


def _distance_text(region: Region, stored: StoredObject) -> str:
    if region.circle is not None:
        lon, lat, radius = region.circle
        away = haversine_m(lon, lat, stored.lon, stored.lat)
        too_far = f"{_metres(away - radius)} too far"
        return f"{_metres(away)} from the centre of a circle of {_metres(radius)}, {too_far}"
    return min((_distance_to_box(box, stored) for box in region.boxes), key=lambda found: found[0])[1]


def _distance_to_box(box: Box, stored: StoredObject) -> tuple[float, str]:
    """About how far the point is from the box, in metres, and on which side."""
    west, south, east, north = box
    sides = []
    lat = min(max(stored.lat, south), north)
    if stored.lat > north:
        sides.append(f"{stored.lat - north:.6g} degrees north of its north edge {north:.9g}")
    if stored.lat < south:
        sides.append(f"{south - stored.lat:.6g} degrees south of its south edge {south:.9g}")
    lon = stored.lon
    if not west <= lon <= east:
        to_west, to_east = (west - lon) % 360.0, (lon - east) % 360.0
        lon = west if to_west < to_east else east
        side = f"west of its west edge {west:.9g}" if to_west < to_east else f"east of its east edge {east:.9g}"
        sides.append(f"{min(to_west, to_east):.6g} degrees {side}")
    away = haversine_m(stored.lon, stored.lat, lon, lat)
    return away, f"{' and '.join(sides)}, about {_metres(away)} away"


def _metres(value: float) -> str:
    return f"{value / 1000:,.4g} km" if value >= 1000 else f"{value:.4g} m"


def _span_text(span: dt.timedelta) -> str:
    seconds = span.total_seconds()
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.6g} seconds"
