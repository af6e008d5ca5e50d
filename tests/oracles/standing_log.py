"""The answers of subscriptions with memory that the files of two logs define, by the other slow twins.

It shares no code with pststream: the input is an `Outcome` of tests/oracles/twin.py, which reads the files alone.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.oracles.questions import float32
from tests.oracles.scored_subscriptions import Message, Scored, score
from tests.oracles.standing_answers import StandingObject, StandingSubscription, answer
from tests.oracles.standing_reports import Standing, micros, rows_of
from tests.oracles.twin import Incarnation, Outcome, PublishedObject
from tests.oracles.twin_expressions import holds, words_that_count
from tests.oracles.twin_regions import distance_m
from tests.oracles.twin_rows import meets


class AnswerRow(NamedTuple):
    """A row of an answer: an object and its distance or score; of a report a word and its count.

    at   ts of the object, or the tick of the report; microseconds
    """

    subscription_id: str
    at: int
    what: str
    value: float


class ExpectedRows(NamedTuple):
    """The answers of `knn` and `topk`, all reports of `frequent_terms`, and the last report of each of these."""

    answers: set[AnswerRow]
    reports: set[AnswerRow]
    last_reports: set[AnswerRow]


def expected_rows(outcome: Outcome) -> ExpectedRows:
    """Return the rows of answers and reports at the end of the log."""
    return ExpectedRows(answer_rows(outcome), *report_rows(outcome))


def answer_rows(outcome: Outcome) -> set[AnswerRow]:
    """Return the answers of `knn` and `topk` subscriptions at the end of the log."""
    counted = [StandingObject(key, one.ts) for key, one in enumerate(outcome.objects)]
    weights, rows = _weights(outcome.counted), set[AnswerRow]()
    for life in outcome.lives:
        if life.kind in ("knn", "topk"):
            rows |= set(_rows_of_life(life, outcome.objects, counted, weights))
    return rows


def report_rows(outcome: Outcome) -> tuple[set[AnswerRow], set[AnswerRow]]:
    """Return the rows of all reports of `frequent_terms` subscriptions at the end of the log, and the last ones."""
    every, last = set[AnswerRow](), set[AnswerRow]()
    for life in outcome.lives:
        if life.kind == "frequent_terms":
            reports = rows_of(outcome.objects, [Standing(0, life.row, life.end)])
            rows = {AnswerRow(life.subscription_id, tick, term, count) for _, tick, term, count in reports}
            every |= rows
            step, reached = micros(life.row["step"]), max((one.ts for one in outcome.objects), default=0)
            if life.end is not None:
                reached = min(reached, life.end - 1)
            last |= {row for row in rows if row.at == reached // step * step and row.what}
    return every, last


def _rows_of_life(
    life: Incarnation, objects: list[PublishedObject], counted: list[StandingObject], weights: dict[str, float] | None
) -> Iterator[AnswerRow]:
    """Yield the answer of one insertion."""

    def value_of(_: StandingSubscription, one: StandingObject) -> float | None:
        thing = objects[one.key]
        if not meets(life.row.get("where"), thing.attributes):
            return None
        if life.kind == "topk":
            value = _score(life, thing, weights)
            return None if value is None else -value
        if life.tree is not None and not holds(life.tree, thing.parts):
            return None
        away, most = distance_m(*_point(life), thing.lon, thing.lat), life.row.get("max_distance_m")
        return None if most is not None and float32(away) > float32(most) else float32(away)

    for key, ts, value in answer(_subscription(life), counted, value_of):
        yield AnswerRow(life.subscription_id, ts, objects[key].object_id, -value if life.kind == "topk" else value)


def _subscription(life: Incarnation) -> StandingSubscription:
    window: Any = life.row.get("window")
    window_us = micros(window) if isinstance(window, str) else None
    window_objects = window["objects"] if isinstance(window, dict) else None
    counts_from = life.created_at if window is None else None
    return StandingSubscription(0, life.row["k"], window_us, window_objects, counts_from, life.created_at, life.end)


def _score(life: Incarnation, thing: PublishedObject, weights: dict[str, float] | None) -> float | None:
    assert life.tree is not None
    wanted, counting = words_that_count(life.tree, thing.parts)
    words = tuple(sorted(wanted))
    scale = life.row.get("distance_scale_m") or 25_000.0
    subscription = Scored(0, *_point(life), words, life.row["alpha"], scale)
    message = Message(0, thing.lon, thing.lat, tuple(thing.words))
    # A word that no object had when the statistics were made weighs as one that an object had.
    known = {} if weights is None else {word: weights.get(word, weights[""]) for word in (*words, *thing.words)}
    value = score(subscription, message, known, counting)
    return None if value is None else float32(value)


def _point(life: Incarnation) -> tuple[float, float]:
    return life.row["point"]["lon"], life.row["point"]["lat"]


def _weights(counted: list[PublishedObject] | None) -> dict[str, float] | None:
    """Return the weight of each word, under "" that of a word of one object; None without statistics."""
    if counted is None:
        return None
    documents = Counter(word for one in counted for word in one.words)
    counts = documents | Counter({"": 1})
    return {word: round(math.log(1 + len(counted) / count) * 65_536) / 65_536 for word, count in counts.items()}
