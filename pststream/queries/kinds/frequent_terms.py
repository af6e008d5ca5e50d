"""Define the kind `frequent_terms`: at each step, the k terms that the most objects of a region have in a window.

Source: SSTD, Definition 3, the continuous version: window T, step. Departures:

- reports are made at the multiples of the step since 1970, by the times of the objects. The paper counts steps from the
  clock;
- a window does not have its first moment: tick - T < `ts` <= tick. So windows as long as the step share no object;
- a term counts once for each object that has it;
- a late object corrects the reports that count it. The paper does not speak of late objects;
- the duration of a query is the field `expires_at`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.queries.kinds.answer_query import AnswerQuery, duration_text, kind_with_answers, window_field
from pststream.queries.kinds.contract import (
    STEP_US,
    WINDOW_US,
    Description,
    FailedCondition,
    FieldError,
    K,
    ParsedQuestion,
    QuestionKind,
    QuestionLimits,
    RequestLimits,
    StoredObject,
    TermReports,
    Validity,
)
from pststream.queries.kinds.fields import (
    join_columns,
    parse_duration,
    parse_duration_column,
    parse_k_column,
    parse_k_field,
    parse_region_field,
    parse_required_window,
    parse_step_field,
    parse_window_column,
    parse_window_field,
)
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes import registry as shapes
from pststream.queries.shapes.contract import Region
from pststream.queries.text.words import tokenize

# Reports, without the kernels

REGION, WORDS, CREATED_AT, END, WINDOW = "region", "words", "created_at", "end", "window"
CONDITIONS = (REGION, WORDS, CREATED_AT, END, WINDOW)
"""Conditions under which a report counts an object, in the order in which they are checked."""


@dataclass(frozen=True)
class RegionQuery(AnswerQuery):
    """The query of a region whose terms are counted."""

    region: Region = field(kw_only=True)

    def find_fault(self) -> str | None:
        """Return nothing: the region is stored once."""
        return None

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point and the words of an object; the ticks depend on stream time too."""
        if not shapes.contains(self.region, stored.lon, stored.lat):
            away = shapes.outside(self.region, stored.lon, stored.lat)
            return FailedCondition(REGION, f"the object lies outside the region: {away}")
        if not tokenize(stored.text):
            return FailedCondition(WORDS, "the object has no word to count")
        return None


def ticks(asked: Description, ts: int, created_at: int, end_at: int | None) -> range:
    """Return the ticks m with `created_at` <= m < end and m - window < ts <= m; all times in microseconds."""
    step, window = parse_duration("step", asked["step"]), parse_duration("window", asked["window"])
    until = ts + window if end_at is None else min(ts + window, end_at)
    first = -(-max(ts, created_at) // step) * step
    return range(first, max(first, until), step)


def last_tick(step: int, created_at: int, end_at: int | None, stream_time: int) -> int | None:
    """Return the last tick that stream time has reached while a subscription lived, whose report is its answer.

    None if there is none; all times in microseconds.
    """
    number = stream_time // step if end_at is None else min(stream_time // step, -(-end_at // step) - 1)
    return number * step if number * step >= created_at else None


REPORTS = TermReports(ticks)

# Requests

FIELDS = frozenset({"k", "window", "step", *shapes.request_fields()})
COLUMNS = (*shapes.REQUEST_COLUMNS, K, WINDOW_US, STEP_US)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    region = parse_region_field(record, limits.region)
    k = parse_k_field(record, limits.max_k)
    window, step = parse_required_window(record, counts_objects=False).micros or 0, parse_step_field(record)
    if window > step * limits.max_window_steps:
        detail = f"a window has more than {limits.max_window_steps:,} steps; the setting max_window_steps bounds them"
        raise FieldError("step", "too_many_steps", record["step"], detail)
    return {"k": k, "window_us": window, "step_us": step, **shapes.to_columns(region)}


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    window = parse_window_column(fields["window"], counts_objects=False)
    step, read = parse_duration_column(fields["step"])
    parts = (
        shapes.read_regions(fields, limits.region),
        parse_k_column(fields["k"], limits.max_k),
        window,
        ParsedColumns({STEP_US.name: pa.array(step)}, read),
    )
    parsed = join_columns(parts)
    few = _within_steps(window.columns[WINDOW_US.name].fill_null(0).to_numpy(), step, limits.max_window_steps)
    return ParsedColumns(parsed.columns, parsed.parsed & few)


def check_starts(columns: Mapping[str, pa.Array], micros: np.ndarray, limits: RequestLimits) -> np.ndarray:
    """Return whether `check_start` raises no error for the rows of parsed columns: bool[n]; `micros` int64[n]."""
    return _within_steps(micros, columns[STEP_US.name].to_numpy(), limits.max_past_steps)


def _within_steps(micros: np.ndarray, step: np.ndarray, most: int) -> np.ndarray:
    """Return whether durations have at most `most` steps: micros <= step * most, whose product may be too large."""
    return -(-micros // np.maximum(step, 1)) <= most


def check_start(values: Mapping[str, Any], micros: int, limits: RequestLimits) -> None:
    """Raise FieldError if more ticks than allowed lie between `created_at` and the ingest, `micros` later."""
    if micros > values["step_us"] * limits.max_past_steps:
        detail = f"more than {limits.max_past_steps:,} steps have passed since; the setting max_past_steps bounds them"
        raise FieldError("created_at", "too_many_steps", "", detail)


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row, the region below `region`."""
    return {
        "region": shapes.to_json(shapes.from_columns(row)),
        "k": row["k"],
        "window": window_field(row),
        "step": duration_text(row["step_us"]),
    }


NAME = "frequent_terms"

FREQUENT_TERMS = kind_with_answers(
    NAME,
    describe,
    COLUMNS,
    CONDITIONS,
    fields=FIELDS,
    parse_request=parse_request,
    read_query=lambda row: RegionQuery(describe(row), region=shapes.from_columns(row)),
    parse_columns=parse_columns,
    check_start=check_start,
    check_starts=check_starts,
    answers=REPORTS,
)
"""Questions about stored objects make its reports, so no insertion has a piece."""

# Questions


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        region=parse_region_field(record, limits.request.region),
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=False),
    )


FREQUENT_TERMS_QUESTION = QuestionKind(
    NAME,
    frozenset({"k", "window", *shapes.request_fields()}),
    "the most frequent words of a region",
    parse_question,
)
