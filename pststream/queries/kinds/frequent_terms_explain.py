"""Evaluate the rule of `frequent_terms` reports without the kernels: which ticks count an object of the region."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pststream.queries.kinds.answer_contract import Description, TermReports
from pststream.queries.kinds.contract import FailedCondition, StoredObject, Validity
from pststream.queries.kinds.question_fields import parse_duration
from pststream.queries.shapes.region import Region
from pststream.queries.shapes.registry import contains, outside
from pststream.queries.text.words import tokenize

REGION, WORDS, CREATED_AT, END, WINDOW = "region", "words", "created_at", "end", "window"
CONDITIONS = (REGION, WORDS, CREATED_AT, END, WINDOW)
"""Conditions under which a report counts an object, in the order in which they are checked."""


@dataclass(frozen=True)
class RegionQuery:
    """The query of a region whose terms are counted; `description` has its request fields."""

    description: Mapping[str, Any]
    region: Region

    def is_readable(self) -> bool:
        """Return whether the stored columns can be read: always."""
        return True

    def find_fault(self) -> str | None:
        """Return nothing: the region is stored once."""
        return None

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point and the words of an object; the ticks depend on stream time too."""
        if not contains(self.region, stored.lon, stored.lat):
            away = outside(self.region, stored.lon, stored.lat)
            return FailedCondition(REGION, f"the object lies outside the region: {away}")
        if not tokenize(stored.text):
            return FailedCondition(WORDS, "the object has no word to count")
        return None

    def describe(self) -> dict[str, Any]:
        """Return the request fields, the region below `region`."""
        return dict(self.description)


def ticks(asked: Description, ts: int, created_at: int, end_at: int | None) -> range:
    """Return the ticks m with `created_at` <= m < end and m - window < ts <= m; all times in microseconds."""
    step, window = parse_duration("step", asked["step"]), parse_duration("window", asked["window"])
    until = ts + window if end_at is None else min(ts + window, end_at)
    first = -(-max(ts, created_at) // step) * step
    return range(first, max(first, until), step)


REPORTS = TermReports(ticks)
