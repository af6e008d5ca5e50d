"""Compute the expected matches slowly, as an oracle that shares no code with the matcher.

The twin reads the input files itself (`twin_rows.py`), splits words with `unicodedata` and evaluates a keyword
expression as a tree (`twin_expressions.py`), compares coordinates plainly (`twin_regions.py`), and tests every object
against every subscription.

Its rules (docs/architecture.md):

- The log is the sequence of ingested files, objects and requests, in the order of the call. A file whose content was
  ingested before for the same kind is skipped.
- A row must first pass the row rules (readable, required fields, numbers finite and in range); else `bad_row`.
- The watermark of an object file is the greatest ts among the rows of the object files of earlier rounds that passed
  the row rules, including rows rejected as late or duplicate. A round is a file that a command names, or all files
  that one run has found to have landed. A row is `late` if its ts < watermark - lateness.
- A row is a `duplicate` if its object_id is in an earlier row of the same file that passed the row rules and was
  not late, or in an accepted row of an earlier file with ts >= watermark - lateness.
- Requests take effect in log order. An incarnation of a subscription is valid from `created_at` until
  `min(expires_at, at of its deletion)`, exclusive.
  insert: `empty_validity` if `expires_at <= created_at`; `already_live` if the end of the id's last incarnation
  is after the new `created_at`.
  delete: `unknown_subscription` if the id was never inserted, or its last incarnation ended at or before `at` (a
  second deletion is such a case); `before_insertion` if `at <= created_at` of the last incarnation.
  replace: a deletion and an insertion with `created_at` = `at`, or the insertion alone if the last incarnation has
  ended; `before_insertion` if `at <= created_at` of the last incarnation.
- An object matches a subscription if and only if its point lies in the region, edges included, the expression is
  true, its attributes satisfy `where` (`twin_rows.meets`), and `created_at <= ts < end`. Neither the order in which the
  two logs were read nor the cuts matter. A deletion retracts matches at or after its `at`.

A point of the antimeridian lies in a region if it does so by one of its two longitudes, 180 and -180, and a pole if it
does so by any longitude. W > E of a box means lon >= W or lon <= E.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracles.twin_expressions import Parts, Tree, holds, parse, words_of
from tests.oracles.twin_regions import bounds_of, distance_m, in_box, in_geometry, read_box, read_circle, read_geometry
from tests.oracles.twin_rows import (
    BadRow,
    LogFile,
    field_of,
    identifier,
    meets,
    number,
    parts_of_text,
    rows_of,
    time_us,
)

DAY_SECONDS = 86_400
MAX_TEXT_BYTES = 1_048_576


@dataclass(frozen=True)
class Withdrawal:
    """The withdrawal of the accepted objects with some ids, and of requests that were set aside: the last insertions
    with some ids; at a position of the log.
    """

    object_ids: frozenset[str] = frozenset()
    subscription_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TermStatistics:
    """A count of the objects that have each word, at a position of the log."""


@dataclass(frozen=True)
class Erasure:
    """The erasure of all rows with some ids; the watermark stays."""

    object_ids: frozenset[str] = frozenset()
    subscription_ids: frozenset[str] = frozenset()


LogEntries = Iterable[LogFile | Withdrawal | TermStatistics | Erasure]


@dataclass(frozen=True)
class PublishedObject:
    """An accepted object."""

    object_id: str
    ts: int
    lon: float
    lat: float
    words: frozenset[str]
    parts: Parts = ()
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)
    """All columns of its row, of which conditions name those that are no field."""


@dataclass
class Incarnation:
    """One validity period of a subscription id; `end`: None while nothing ends it; `row`: its insertion as written."""

    subscription_id: str
    tree: Tree | None
    bbox: tuple[float, float, float, float] | None
    circle: tuple[float, float, float] | None
    geometry: dict[str, Any] | None
    created_at: int
    end: int | None
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.row.get("kind") or "range"


@dataclass
class Outcome:
    """The expected result: the objects that count, the matches, and the counts of accepted and rejected rows.

    objects    in the order of the log
    lives      of subscriptions of all kinds; only those of `range` have matches
    counted    the objects that counted when the last term statistics were made; None: there are none
    """

    objects: list[PublishedObject] = field(default_factory=list)
    lives: list[Incarnation] = field(default_factory=list)
    counted: list[PublishedObject] | None = None
    matches: set[tuple[str, int, str]] = field(default_factory=set)
    rows: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    files_skipped: int = 0

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The matches as (object_id, subscription_id)."""
        return {(object_id, subscription_id) for object_id, _, subscription_id in self.matches}

    def reasons(self, kind: str) -> dict[str, int]:
        """Count the rejected rows of a kind by reason."""
        return {reason: n for (of, reason), n in self.rejected.items() if of == kind}


Split = Callable[[str], list[str]]
MatchAll = Callable[[list[PublishedObject], list[Incarnation]], set[tuple[str, int, str]]]


def outcome_of(
    log: LogEntries,
    lateness_seconds: int = DAY_SECONDS,
    now_us: int = 0,
    match_all: MatchAll | None = None,
    split: Split = words_of,
) -> Outcome:
    """Compute the expected result of a log; `now_us` is the time of ingestion for requests without a time.

    `match_all` and `split` let `twin_fast` do the two slow steps its own way.
    """
    outcome = Outcome()
    objects, requests = ObjectLog(outcome, lateness_seconds, split), RequestLog(outcome, now_us)
    seen: set[tuple[str, str]] = set()
    for file in log:
        if isinstance(file, Withdrawal):
            if file.object_ids:
                objects.withdraw(file)
            for name in file.subscription_ids:
                requests.lives[name].pop()
            continue
        if isinstance(file, Erasure):
            objects.accepted = [one for one in objects.accepted if one.object_id not in file.object_ids]
            for name in file.subscription_ids:
                requests.lives.pop(name, None)
            continue
        if isinstance(file, TermStatistics):
            outcome.counted = list(objects.accepted)
            continue
        mark = file.kind, hashlib.sha256(file.path.read_bytes()).hexdigest()
        if mark in seen:
            outcome.files_skipped += 1
            continue
        seen.add(mark)
        (objects if file.kind == "objects" else requests).take(file)
    outcome.lives = [life for of_id in requests.lives.values() for life in of_id]
    outcome.objects = objects.accepted
    ranges = [life for life in outcome.lives if life.kind == "range"]
    outcome.matches = (match_all or all_matches)(objects.accepted, ranges)
    return outcome


class ObjectLog:
    """The object log with the rules on late and duplicate rows."""

    def __init__(self, outcome: Outcome, lateness_seconds: int, split: Split) -> None:
        self.outcome = outcome
        self.split = split
        self.lateness_us = lateness_seconds * 1_000_000
        self.greatest: int | None = None
        self.watermark: int | None = None
        self.accepted: list[PublishedObject] = []

    def take(self, file: LogFile) -> None:
        """Read a file."""
        if not file.same_round:
            self.watermark = self.greatest
        oldest = None if self.watermark is None else self.watermark - self.lateness_us
        earlier = {o.object_id for o in self.accepted if oldest is None or o.ts >= oldest}
        here: set[str] = set()
        for n, row in rows_of(file.path):
            self.outcome.rows["objects"] += 1
            try:
                thing = read_object(file, row, n, self.split)
            except BadRow:
                self.outcome.rejected["objects", "bad_row"] += 1
                continue
            self.greatest = thing.ts if self.greatest is None else max(self.greatest, thing.ts)
            if oldest is not None and thing.ts < oldest:
                self.outcome.rejected["objects", "late"] += 1
            elif thing.object_id in here or thing.object_id in earlier:
                self.outcome.rejected["objects", "duplicate"] += 1
            else:
                self.outcome.accepted["objects"] += 1
                self.accepted.append(thing)
                here.add(thing.object_id)

    def withdraw(self, withdrawal: Withdrawal) -> None:
        """Leave objects out; the watermark is that of the others."""
        self.accepted = [thing for thing in self.accepted if thing.object_id not in withdrawal.object_ids]
        self.greatest = max((thing.ts for thing in self.accepted), default=None)


def read_object(file: LogFile, row: dict[str, Any] | None, n: int, split: Split = words_of) -> PublishedObject:
    """Read an object by the row rules; raise BadRow."""
    if row is None:
        raise BadRow("not readable")
    text = field_of(file, row, n, "text")
    if not isinstance(text, str | None) or len((text or "").encode()) > MAX_TEXT_BYTES:
        raise BadRow("text too long or no text")
    return PublishedObject(
        identifier(field_of(file, row, n, "object_id")),
        time_us(field_of(file, row, n, "ts")),
        number(field_of(file, row, n, "lon"), -180, 180),
        number(field_of(file, row, n, "lat"), -90, 90),
        frozenset(split(text or "")),
        tuple(tuple(split(part)) for part in parts_of_text(file, row) or [text or ""]),
        row,
    )


class RequestLog:
    """The request log with the incarnations that requests start and end."""

    def __init__(self, outcome: Outcome, now_us: int) -> None:
        self.outcome = outcome
        self.now_us = now_us
        self.lives: dict[str, list[Incarnation]] = {}

    def take(self, file: LogFile) -> None:
        """Read a file."""
        for _, row in rows_of(file.path):
            self.outcome.rows["requests"] += 1
            try:
                reason = self._apply(row)
            except BadRow:
                reason = "bad_row"
            if reason:
                self.outcome.rejected["requests", reason] += 1
            else:
                self.outcome.accepted["requests"] += 1

    def _apply(self, row: dict[str, Any] | None) -> str:
        if row is None:
            raise BadRow("not readable")
        known = FIELDS.get(row.get("op"), ()) + (MEMORY_FIELDS if row.get("kind") else ())
        if any(value is not None and name not in known for name, value in row.items()):
            raise BadRow("a field is unknown")
        if row.get("op") in ("insert", "replace"):
            row = row if row["op"] == "insert" else {**row, "created_at": row.get("at")}
            if has_empty_validity(row, self.now_us):
                return "empty_validity"
            new = read_insertion(row, self.now_us)
            ended = self._delete(new.subscription_id, new.created_at) if row["op"] == "replace" else ""
            return ended if ended == "before_insertion" else self._insert(new)
        if row.get("op") == "delete":
            at = row.get("at")
            return self._delete(identifier(row.get("subscription_id")), self.now_us if at is None else time_us(at))
        raise BadRow("unknown op")

    def _insert(self, new: Incarnation) -> str:
        lives = self.lives.setdefault(new.subscription_id, [])
        if lives and (lives[-1].end is None or lives[-1].end > new.created_at):
            return "already_live"
        lives.append(new)
        return ""

    def _delete(self, subscription_id: str, at: int) -> str:
        lives = self.lives.get(subscription_id)
        if not lives:
            return "unknown_subscription"
        last = lives[-1]
        if at <= last.created_at:
            return "before_insertion"
        if last.end is not None and last.end <= at:
            return "unknown_subscription"
        last.end = at
        return ""


FIELDS = {
    "insert": ("op", "owner", "subscription_id", "kind", "keywords", "bbox", "circle", "geometry", "payload")
    + ("where", "created_at", "expires_at"),
    "delete": ("op", "owner", "subscription_id", "at", "payload"),
    "replace": ("op", "owner", "subscription_id", "kind", "keywords", "bbox", "circle", "geometry", "payload")
    + ("where", "at", "expires_at"),
}
MEMORY_FIELDS = ("point", "k", "window", "step", "alpha", "distance_scale_m", "max_distance_m")
MEMORY_FIELDS += ("stop_words",)


def has_empty_validity(row: dict[str, Any], now_us: int) -> bool:
    """Whether an insertion ends before it begins; its times are judged before its keywords and its region."""
    identifier(row.get("subscription_id"))
    created, expires = row.get("created_at"), row.get("expires_at")
    start = now_us if created is None else time_us(created)
    return expires is not None and time_us(expires) <= start


def read_insertion(row: dict[str, Any], now_us: int) -> Incarnation:
    """Read an insertion by the row rules; raise BadRow. The fields of other kinds than `range` are not judged."""
    keywords = row.get("keywords")
    if not isinstance(keywords, str) and row.get("kind") != "frequent_terms":
        raise BadRow("keywords are a text")
    bbox, circle, geometry = row.get("bbox"), row.get("circle"), row.get("geometry")
    if [bbox, circle, geometry].count(None) != (3 if "point" in row else 2):
        raise BadRow("exactly one of bbox, circle, geometry and point is needed")
    created, expires = row.get("created_at"), row.get("expires_at")
    return Incarnation(
        identifier(row.get("subscription_id")),
        None if keywords in (None, "*") else parse(keywords),
        None if bbox is None else read_box(bbox),
        None if circle is None else read_circle(circle),
        None if geometry is None else read_geometry(geometry),
        now_us if created is None else time_us(created),
        None if expires is None else time_us(expires),
        row,
    )


def matches(thing: PublishedObject, subscription: Incarnation) -> bool:
    """Whether an object matches a subscription (docs/architecture.md)."""
    if thing.ts < subscription.created_at or (subscription.end is not None and thing.ts >= subscription.end):
        return False
    if not meets(subscription.row.get("where"), thing.attributes):
        return False
    return (subscription.tree is None or holds(subscription.tree, thing.parts)) and in_region(thing, subscription)


def in_region(thing: PublishedObject, subscription: Incarnation) -> bool:
    """Whether the object's point lies in the subscription's region."""
    if subscription.bbox is not None:
        return in_box(thing.lon, thing.lat, *subscription.bbox)
    if subscription.geometry is not None:
        near = in_box(thing.lon, thing.lat, *bounds_of(subscription.geometry))
        return near and in_geometry(thing.lon, thing.lat, subscription.geometry)
    assert subscription.circle is not None
    lon, lat, radius = subscription.circle
    return distance_m(lon, lat, thing.lon, thing.lat) <= radius


def all_matches(objects: list[PublishedObject], lives: list[Incarnation]) -> set[tuple[str, int, str]]:
    """Return every matching (object_id, ts, subscription_id), testing each object against each subscription."""
    return {(o.object_id, o.ts, s.subscription_id) for o in objects for s in lives if matches(o, s)}


def matches_of(object_files: Iterable[Path], request_files: Iterable[Path], **options: int) -> set[tuple[str, str]]:
    """Return the pairs (object_id, subscription_id) of two logs of files."""
    log = [LogFile("objects", p) for p in object_files] + [LogFile("requests", p) for p in request_files]
    return outcome_of(log, **options).pairs
