"""Check an object against a stored range query without the kernels, and explain the first condition that it fails."""

import datetime as dt
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pststream.base.utc_times import iso
from pststream.queries.kinds.contract import FailedCondition, PostedQuery, StoredObject, Validity
from pststream.queries.kinds.keywords import (
    EVERY_OBJECT_TEXT,
    explain_missing_words,
    find_clause_fault,
    is_expression,
    words_by_term,
)
from pststream.queries.shapes.region import Region, RegionLimits
from pststream.queries.shapes.registry import contains, describe, from_columns, outside, pieces_of, read_region, to_json

REGION, KEYWORDS, CREATED_AT, END = "region", "keywords", "created_at", "end"
CONDITIONS = (REGION, KEYWORDS, CREATED_AT, END)
"""Conditions of a match, in the order in which they are checked."""


@dataclass(frozen=True)
class RangeQuery:
    """A stored range query; `clauses` are term ids as stored."""

    keywords: str | None
    clauses: tuple[tuple[int, ...], ...]
    region: Region

    def is_readable(self) -> bool:
        """Return whether the stored expression can be parsed; it could when the request was accepted."""
        return is_expression(self.keywords)

    def find_fault(self) -> str | None:
        """Compare the stored clauses with the expression."""
        return find_clause_fault(self.keywords, self.clauses)

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point, the words and the time of an object, in the order of CONDITIONS."""
        if not contains(self.region, stored.lon, stored.lat):
            away = outside(self.region, stored.lon, stored.lat)
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
        """Return the boxes of the region's pieces, and the clauses with their words."""
        return PostedQuery(tuple(pieces_of(self.region)), self.clauses, words_by_term(self.keywords))

    def describe(self) -> dict[str, Any]:
        """Return the field `keywords` (None: every object) and, below `region`, the field that gives the region."""
        return {"keywords": self.keywords, "region": to_json(self.region)}


def read_query(row: Mapping[str, Any]) -> RangeQuery:
    """Make the query of a stored row."""
    return RangeQuery(row["keywords"], tuple(tuple(clause) for clause in row["clauses"]), from_columns(row))


def facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Show the keywords and the region of a description as texts by label."""
    region = read_region(description["region"], RegionLimits(sys.maxsize))
    return {"Keywords": description["keywords"] or EVERY_OBJECT_TEXT, "Region": describe(region)}


def _span_text(span: dt.timedelta) -> str:
    seconds = span.total_seconds()
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.6g} seconds"
