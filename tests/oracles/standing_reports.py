"""Slow twin of standing frequent terms: the reports that two logs define, by plain loops over all objects and ticks.

It shares no code with pststream; words and regions are those of tests/oracles/twin.py.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracles.twin import Incarnation, PublishedObject, in_region
from tests.oracles.twin_expressions import reported_words
from tests.oracles.twin_regions import read_box, read_circle, read_geometry
from tests.oracles.twin_rows import meets, time_us

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Report = tuple[int, int, str, int]
"""Number of the insertion, tick in microseconds, term, count; an empty report is one with the term "" and 0 objects."""


@dataclass
class Standing:
    """An insertion, and the end that the requests give it; None: none."""

    number: int
    row: dict[str, Any]
    end: int | None

    @property
    def region(self) -> Incarnation:
        bbox, circle, geometry = (self.row.get(name) for name in ("bbox", "circle", "geometry"))
        shapes = bbox and read_box(bbox), circle and read_circle(circle), geometry and read_geometry(geometry)
        return Incarnation("", None, *shapes, 0, None)


def micros(duration: str) -> int:
    return int(duration[:-1]) * _SECONDS[duration[-1]] * 1_000_000


def standing_of(requests: Iterable[dict[str, Any]]) -> list[Standing]:
    """The insertions of a request log in which every request is valid."""
    found: list[Standing] = []
    for row in requests:
        if row["op"] == "insert":
            expires = row.get("expires_at")
            found.append(Standing(len(found), row, None if expires is None else time_us(expires)))
            continue
        last = [one for one in found if one.row["subscription_id"] == row["subscription_id"]][-1]
        at = time_us(row["at"])
        last.end = at if last.end is None else min(last.end, at)
    return found


def reports_of(objects: Sequence[PublishedObject], requests: Iterable[dict[str, Any]]) -> set[Report]:
    """All rows of all reports."""
    return rows_of(objects, standing_of(requests))


def rows_of(objects: Sequence[PublishedObject], standing: Iterable[Standing]) -> set[Report]:
    """All rows of all reports of insertions whose ends are known."""
    if not objects:
        return set()
    stream_time = max(one.ts for one in objects)
    rows: set[Report] = set()
    for one in standing:
        step, window, region = micros(one.row["step"]), micros(one.row["window"]), one.region
        where = one.row.get("where")
        inside = [thing for thing in objects if in_region(thing, region) and meets(where, thing.attributes)]
        words = {thing: reported_words(thing.parts, one.row.get("stop_words")) for thing in inside}
        tick, had_words = -(-time_us(one.row["created_at"]) // step) * step, False
        while tick <= stream_time and (one.end is None or tick < one.end):
            counts = Counter(w for thing in inside if tick - window < thing.ts <= tick for w in words[thing])
            best = sorted(counts.items(), key=lambda term: (-term[1], term[0].encode()))[: one.row["k"]]
            rows |= {(one.number, tick, term, count) for term, count in best or [("", 0)] * had_words}
            had_words = bool(best)
            tick += step
    return rows
