"""Whether an object satisfies a subscription, and if not, what fails first: the rule itself, slow and obvious.

It shares no code with the kernels, so that `explain` checks them.
"""

import datetime as dt
from dataclasses import dataclass

from pststream.domain.region import Box, Region, contains, haversine_m
from pststream.reports.reading.table_reader import iso
from pststream.text.expression import ExpressionError, parse_keywords
from pststream.text.words import tokenize

REGION, KEYWORDS, CREATED_AT, END = "region", "keywords", "created_at", "end"
CONDITIONS = (REGION, KEYWORDS, CREATED_AT, END)
"""In the order in which they are checked."""

_SHOWN_WORDS = 30


@dataclass(frozen=True)
class Thing:
    """An accepted object; `terms` as stored."""

    key: int
    object_id: str
    ts: dt.datetime
    lon: float
    lat: float
    text: str
    terms: tuple[int, ...]


@dataclass(frozen=True)
class Life:
    """One insertion of a subscription id and what ended it; deletions are (request_key, at), clauses as stored."""

    key: int
    subscription_id: str
    keywords: str
    clauses: tuple[tuple[int, ...], ...]
    region: Region
    created_at: dt.datetime
    expires_at: dt.datetime | None
    deletions: tuple[tuple[int, dt.datetime], ...] = ()

    def end(self, applied: int | None = None) -> tuple[dt.datetime | None, str]:
        """When it ends (None: never) and by what; with `applied`, only by deletions up to that request key."""
        ends = [(at, "deletion") for key, at in self.deletions if applied is None or key <= applied]
        if self.expires_at is not None:
            ends.append((self.expires_at, "expiry"))
        return min(ends, default=(None, ""))


@dataclass(frozen=True)
class Failure:
    """The first condition that fails, and why in a sentence."""

    condition: str
    reason: str


def first_failure(thing: Thing, life: Life, applied: int | None = None) -> Failure | None:
    """None if the object satisfies the subscription; `applied` as in `Life.end`."""
    if not contains(life.region, thing.lon, thing.lat):
        return Failure(REGION, f"the object lies outside the region: {_how_far(life.region, thing)}")
    missing = missing_clauses(life.keywords, thing.text)
    if missing:
        return Failure(KEYWORDS, _told_keywords(life.keywords, missing, thing.text))
    if thing.ts < life.created_at:
        times = f"{iso(thing.ts)}, before the subscription begins at {iso(life.created_at)}"
        return Failure(CREATED_AT, f"the object is of {times}, {_span(life.created_at - thing.ts)} later")
    end, how = life.end(applied)
    if end is not None and thing.ts >= end:
        ended = {"deletion": "was deleted as of", "expiry": "expired at"}[how]
        when = "exactly then; the end itself is outside" if thing.ts == end else f"{_span(thing.ts - end)} after it"
        return Failure(END, f"the subscription {ended} {iso(end)}, and the object is of {iso(thing.ts)}, {when}")
    return None


def missing_clauses(keywords: str, text: str) -> list[list[str]]:
    """The clauses of which the text has no word."""
    words = set(tokenize(text))
    return [clause for clause in parse_keywords(keywords) if not words.intersection(clause)]


def readable(keywords: str) -> bool:
    """Whether the expression can be read: it could when it was accepted."""
    try:
        parse_keywords(keywords)
    except ExpressionError:
        return False
    return True


def told_clause(clause: list[str]) -> str:
    """A clause in words."""
    shown = [f"'{word}'" for word in clause[:_SHOWN_WORDS]] + (["..."] if len(clause) > _SHOWN_WORDS else [])
    return shown[0] if len(clause) == 1 else f"any of {', '.join(shown)}"


def _told_keywords(keywords: str, missing: list[list[str]], text: str) -> str:
    words = list(dict.fromkeys(tokenize(text)))
    shown = ", ".join(words[:_SHOWN_WORDS]) + (", ..." if len(words) > _SHOWN_WORDS else "")
    wanted = "; nor ".join(told_clause(clause) for clause in missing[:3])
    more = f" (and {len(missing) - 3} clauses more)" if len(missing) > 3 else ""
    has = f"it has: {shown}" if words else "it has no word"
    return f"the text does not have {wanted}{more}, which {keywords[:200]!r} asks for; {has}"


def _how_far(region: Region, thing: Thing) -> str:
    if region.circle is not None:
        lon, lat, radius = region.circle
        away = haversine_m(lon, lat, thing.lon, thing.lat)
        return f"{_metres(away)} from the centre of a circle of {_metres(radius)}, {_metres(away - radius)} too far"
    return min((_beside(box, thing) for box in region.boxes), key=lambda found: found[0])[1]


def _beside(box: Box, thing: Thing) -> tuple[float, str]:
    """About how far the point is from the box, in metres, and on which side."""
    west, south, east, north = box
    sides = []
    lat = min(max(thing.lat, south), north)
    if thing.lat > north:
        sides.append(f"{thing.lat - north:.6g} degrees north of its north edge {north:.9g}")
    if thing.lat < south:
        sides.append(f"{south - thing.lat:.6g} degrees south of its south edge {south:.9g}")
    lon = thing.lon
    if not west <= lon <= east:
        to_west, to_east = (west - lon) % 360.0, (lon - east) % 360.0
        lon = west if to_west < to_east else east
        side = f"west of its west edge {west:.9g}" if to_west < to_east else f"east of its east edge {east:.9g}"
        sides.append(f"{min(to_west, to_east):.6g} degrees {side}")
    away = haversine_m(thing.lon, thing.lat, lon, lat)
    return away, f"{' and '.join(sides)}, about {_metres(away)} away"


def _metres(value: float) -> str:
    return f"{value / 1000:,.4g} km" if value >= 1000 else f"{value:.4g} m"


def _span(span: dt.timedelta) -> str:
    seconds = span.total_seconds()
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.6g} seconds"
