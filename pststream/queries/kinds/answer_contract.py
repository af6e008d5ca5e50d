"""Define what a kind of subscription with memory has beside the contract of a kind: its answers, and their rule.

The rule is evaluated here without the kernels, for `explain`, which compares the result with the stored answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from pststream.queries.shapes.region import Region

Description = Mapping[str, Any]
"""What `StoredQuery.describe` returns."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row of an answer as `answer_log` stores it: `rank` is from 1; what its kind does not have is None."""

    rank: int
    value: float | None = None
    term: str | None = None
    count: int | None = None


class WordWeights(Protocol):
    """The weights of words by one version of the term statistics."""

    @property
    def version(self) -> int:
        """The version; 0: none, every word weighs 1."""

    def of_terms(self, ids: np.ndarray) -> np.ndarray:
        """Return the weight of each term: float64[n]; `ids` int64[n]."""


class ObjectRows(NamedTuple):
    """Stored objects, n rows, in any order.

    key         int64[n]
    ts          int64[n]       microseconds
    lon, lat    float64[n]     degrees
    owner       int64[words]   row of each word
    terms       int64[words]   its term id, each once in a row
    """

    key: np.ndarray
    ts: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    owner: np.ndarray
    terms: np.ndarray

    def have_any(self, terms: list[int]) -> np.ndarray:
        """Return which objects have one of these terms: bool[n]."""
        has = np.zeros(len(self.key), bool)
        has[self.owner[np.isin(self.terms, terms)]] = True
        return has


@dataclass(frozen=True)
class RankedAnswers:
    """Answers of the k objects with the least values; of equal values the greatest (`ts`, key) comes first.

    value_column  column of answers and changes that shows the value: `distance_m` or `score`; empty: none does
    sign          of the shown value: 1, or -1 if the greatest is the best, as of scores, which are stored below 0
    value_text    shows a value, or the difference of two, to people
    values        the values of objects, float32[n]; not a number: the object does not satisfy the words or the region
    parts         what the value of one object (the only row) is made of: texts and numbers by name
    numbers       columns of `requests` (float64) that the values depend on; an insertion of the kind has them all
    mark          one of the columns that it stores, which `range` lacks: data files of `requests` with bounds of it may
                  have such insertions (state/table_types.has_bounds says which columns have bounds)
    is_weighed    whether values depend on the term statistics, so that a new version changes all answers
    reach         the region that an object must lie in to enter a full answer whose last row has this value; None: any
    """

    value_column: str
    sign: int
    value_text: Callable[[float], str] = field(repr=False)
    values: Callable[[Description, ObjectRows, WordWeights], np.ndarray] = field(repr=False)
    parts: Callable[[Description, ObjectRows, WordWeights], dict[str, Any]] = field(repr=False)
    numbers: tuple[str, ...]
    mark: str
    is_weighed: bool
    reach: Callable[[Description, float], Region | None] = field(repr=False)

    def show_row(self, row: AnswerRow) -> dict[str, Any]:
        """Return a row as messages show it: its rank and its value."""
        value = {self.value_column: self.sign * (row.value or 0.0)} if self.value_column else {}
        return {"rank": row.rank, **value}


@dataclass(frozen=True)
class TermReports:
    """Answers of the k most frequent terms of a region at each tick: a multiple of a step since 1970.

    ticks   (description, ts, start, end): the ticks whose reports count an object of the region with this `ts`, by the
            validity of the subscription, whatever stream time is; all in microseconds, end None: never
    """

    ticks: Callable[[Description, int, int, int | None], range] = field(repr=False)

    def show_row(self, row: AnswerRow) -> dict[str, Any]:
        """Return a row of a report as messages show it."""
        return {"rank": row.rank, "term": row.term, "count": row.count}


Answers = RankedAnswers | TermReports
