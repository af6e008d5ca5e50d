"""Define the contract of a kind of question: its fields, and what a parsed question asks about stored objects.

A question is asked once, about the objects that are stored; a subscription asks about those to come. The fields
`question_id`, `kind`, `as_of` and `version` are the same for all kinds and not part of the contract.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.shapes.region import Region


class Window(NamedTuple):
    """The objects that count before the time of a question: of a duration in microseconds, or the most recent ones."""

    micros: int | None = None
    objects: int | None = None


EVERYTHING = Window()
"""The window of a question without one."""


@dataclass(frozen=True)
class QuestionLimits:
    """Bounds on the values of questions: those of requests, and the greatest k and limit."""

    request: RequestLimits = RequestLimits()
    max_k: int = 10_000


@dataclass(frozen=True)
class ParsedQuestion:
    """What a question asks for, without its time; a kind fills the fields that it has.

    region    the region, if the kind has one
    point     longitude and latitude in degrees, if the kind has one
    clauses   conjunctive normal form of the keywords, as term ids; empty: every object
    k         greatest number of rows of the answer; None: all
    window    see Window
    alpha     weight of the place in the score, 0 to 1; the text weighs 1 - alpha
    distance_scale_m  distance in metres from which on the place scores 0
    """

    region: Region | None = None
    point: tuple[float, float] | None = None
    clauses: tuple[tuple[int, ...], ...] = ()
    k: int | None = None
    window: Window = EVERYTHING
    alpha: float = 0.0
    distance_scale_m: float = 1.0


@dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    name            value of the field `kind`
    fields          fields that it reads, besides those of every question
    title           what it asks for, in words, as a form shows it
    parse_question  parses these fields of a record, within limits; raises FieldError
    """

    name: str
    fields: frozenset[str]
    title: str
    parse_question: Callable[[Mapping[str, Any], QuestionLimits], ParsedQuestion] = field(repr=False)
