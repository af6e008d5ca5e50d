"""Answer questions about objects slowly, in plain Python: every object is compared with every question.

Shares no code with the kernels and the parsers: words, expressions, regions and distances are those of tests/oracles.
Distances and scores are compared as float32, as docs/questions.md says; ties go to the newest, then to the last in the
log.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.twin_expressions import (
    Parts,
    holds,
    parse,
    parts_of,
    reported_words,
    words_of,
    words_that_count,
)
from tests.oracles.twin_regions import distance_m, in_box, in_geometry
from tests.oracles.twin_rows import meets, time_us

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class LoggedObject:
    """An accepted object with its position in the log."""

    key: int
    object_id: str
    ts: int
    lon: float
    lat: float
    words: frozenset[str]
    parts: Parts
    attributes: dict[str, Any] = field(default_factory=dict, compare=False)


def logged(
    key: int, object_id: str, ts: int, lon: float, lat: float, text: str, attributes: dict[str, Any] | None = None
) -> LoggedObject:
    """Make an object of its text."""
    return LoggedObject(key, object_id, ts, lon, lat, frozenset(words_of(text)), parts_of(text), attributes or {})


Statistics = tuple[int, dict[str, int]]
"""The number of objects that statistics count, and the objects that have each word."""


def answer(
    objects: Iterable[LoggedObject],
    question: dict[str, Any],
    up_to_key: int = 2**63,
    statistics: Statistics | None = None,
) -> list[tuple]:
    """Return the rows of an answer in their order; without statistics every word weighs 1.

    range: (object_id, ts); knn: (object_id, ts, distance_m); topk: (object_id, ts, distance_m, score); frequent_terms:
    (term, count).
    """
    kinds = {"range": _range, "knn": _nearest, "frequent_terms": _terms}
    kinds["topk"] = lambda objects, question: _scored(objects, question, statistics)
    counted = _in_window([one for one in objects if one.key <= up_to_key], question)
    counted = [one for one in counted if meets(question.get("where"), one.attributes)]
    return kinds[question.get("kind", "range")](counted, question)


def _in_window(objects: list[LoggedObject], question: dict[str, Any]) -> list[LoggedObject]:
    """Return the objects that count, newest first."""
    newest_first = sorted(objects, key=lambda one: (one.ts, one.key), reverse=True)
    if not newest_first:
        return []
    as_of = newest_first[0].ts if question.get("as_of") is None else time_us(question["as_of"])
    past = [one for one in newest_first if one.ts <= as_of]
    window = question.get("window")
    if window is None:
        return past
    if isinstance(window, dict):
        return past[: window["objects"]]
    length = int(window[:-1]) * UNITS[window[-1]] * 1_000_000
    return [one for one in past if one.ts > as_of - length]


def _satisfies(one: LoggedObject, question: dict[str, Any]) -> bool:
    keywords = question.get("keywords")
    return keywords in (None, "", "*") or holds(parse(keywords), one.parts)


def in_region(one: LoggedObject, question: dict[str, Any]) -> bool:
    """Return whether an object lies in the region of a question."""
    if question.get("bbox") is not None:
        return in_box(one.lon, one.lat, *question["bbox"])
    if question.get("circle") is not None:
        circle = question["circle"]
        return distance_m(circle["lon"], circle["lat"], one.lon, one.lat) <= circle["radius_m"]
    return in_geometry(one.lon, one.lat, question["geometry"])


def _range(objects: list[LoggedObject], question: dict[str, Any]) -> list[tuple]:
    chosen = [one for one in objects if in_region(one, question) and _satisfies(one, question)]
    return [(one.object_id, one.ts) for one in chosen[: question.get("limit")]]


def _nearest(objects: list[LoggedObject], question: dict[str, Any]) -> list[tuple]:
    lon, lat = question["point"]["lon"], question["point"]["lat"]
    away = [(distance_m(lon, lat, one.lon, one.lat), one) for one in objects if _satisfies(one, question)]
    most = question.get("max_distance_m")
    away = [pair for pair in away if most is None or float32(pair[0]) <= float32(most)]
    # The sort is stable, and the newest come first.
    away.sort(key=lambda pair: float32(pair[0]))
    return [(one.object_id, one.ts, metres) for metres, one in away[: question["k"]]]


def _weight(word: str, statistics: Statistics | None) -> float:
    if statistics is None:
        return 1.0
    total, counts = statistics
    return round(math.log(1 + total / max(counts.get(word, 0), 1)) * 65_536) / 65_536


def _scored(objects: list[LoggedObject], question: dict[str, Any], statistics: Statistics | None) -> list[tuple]:
    tree, alpha = parse(question["keywords"]), question["alpha"]
    scale = question.get("distance_scale_m") or 25_000.0
    scored = []

    def squared(some: set[str] | frozenset[str]) -> float:
        return math.fsum(_weight(word, statistics) ** 2 for word in some)

    for one in objects:
        words, shared = words_that_count(tree, one.parts)
        if shared:
            metres = distance_m(question["point"]["lon"], question["point"]["lat"], one.lon, one.lat)
            cosine = squared(shared) / math.sqrt(float32(squared(words))) / math.sqrt(float32(squared(one.words)))
            score = alpha * max(0.0, 1.0 - metres / scale) + (1.0 - alpha) * cosine
            scored.append((one.object_id, one.ts, metres, score))
    scored.sort(key=lambda row: -float32(row[3]))
    return scored[: question["k"]]


def _terms(objects: list[LoggedObject], question: dict[str, Any]) -> list[tuple]:
    words = [reported_words(one.parts, question.get("stop_words")) for one in objects if in_region(one, question)]
    counts = Counter(word for some in words for word in some)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))[: question["k"]]


def float32(value: float) -> float:
    """Round a number to float32."""
    return struct.unpack("f", struct.pack("f", value))[0]
