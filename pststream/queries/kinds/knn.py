"""Define the kind `knn`: the k objects nearest to a point that satisfy the keywords, with or without a window.

Source: DkM-SKS, Definition 2 (no window, words joined by OR); SSTD, Definition 2 (words joined by AND). Departures:

- the distance is the great-circle distance. DkM-SKS takes the Euclidean one;
- of equal distances the newest object comes first, then the last in the log. DkM-SKS breaks ties arbitrarily;
- the duration of a query of SSTD is the field `expires_at`. A window of objects is neither paper's.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.queries.kinds.answer_query import CONDITIONS, KEYWORDS, AnswerQuery, kind_with_answers, window_field
from pststream.queries.kinds.contract import (
    LAT,
    LON,
    MAX_DISTANCE,
    WINDOW_OBJECTS,
    WINDOW_US,
    Description,
    FailedCondition,
    K,
    ObjectRows,
    ParsedQuestion,
    QuestionKind,
    QuestionLimits,
    RankedAnswers,
    RequestLimits,
    StoredObject,
    Validity,
    WordWeights,
)
from pststream.queries.kinds.fields import (
    EVERYTHING,
    join_columns,
    parse_k_column,
    parse_k_field,
    parse_keywords_of_question,
    parse_number_column,
    parse_number_field,
    parse_point_column,
    parse_point_field,
    parse_required_window,
    parse_window_column,
    parse_window_field,
)
from pststream.queries.kinds.keywords import (
    KEYWORD_COLUMNS,
    parse_keyword_column,
    parse_keyword_field,
    satisfy_keywords,
    stored_clauses,
)
from pststream.queries.raw_fields import ParsedColumns, RawField, RawFields
from pststream.queries.shapes.contract import (
    Region,
    RegionError,
    RegionLimits,
    haversine_m,
    haversine_of_arrays,
    metres,
)
from pststream.queries.shapes.registry import read_region

# Answers, without the kernels


def distances(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the distances in metres, as compared: float32[n]; not a number without the words, or too far away."""
    point = asked["point"]
    away = haversine_of_arrays(point["lon"], point["lat"], objects.lon, objects.lat).astype(np.float32)
    counts = satisfy_keywords(asked["keywords"], objects) & (away <= np.float32(asked.get(MAX_DISTANCE.name, np.inf)))
    return np.where(counts, away, np.float32(np.nan))


def circle_of_last(asked: Description, value: float) -> Region | None:
    """Return the circle of the last object of a full answer; None: it has no radius."""
    try:
        return read_region({"circle": {**asked["point"], "radius_m": value}}, RegionLimits(sys.maxsize))
    except RegionError:
        return None


NEAREST = RankedAnswers(
    value_column="distance_m",
    sign=1,
    value_text=lambda metres: f"{metres:,.1f} m",
    values=distances,
    parts=lambda asked, objects, weights: {},
    numbers=(LON.name, LAT.name, MAX_DISTANCE.name),
    mark=LON.name,
    is_weighed=False,
    reach=circle_of_last,
)


@dataclass(frozen=True)
class NearestQuery(AnswerQuery):
    """A stored query for the nearest objects."""

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the words, the distance and, without a window, the time of an object."""
        failure, most = super().first_failure(stored, validity), self.description.get(MAX_DISTANCE.name)
        if most is None or (failure and failure.condition == KEYWORDS):
            return failure
        point = self.description["point"]
        away = haversine_m(point["lon"], point["lat"], stored.lon, stored.lat)
        if np.float32(away) <= np.float32(most):
            return failure
        return FailedCondition(MAX_DISTANCE.name, f"{metres(away)} from the point, which is more than {metres(most)}")


# Requests

FIELDS = frozenset({"keywords", "point", "k", "max_distance_m", "window"})
COLUMNS = (*KEYWORD_COLUMNS, LON, LAT, K, MAX_DISTANCE, WINDOW_US, WINDOW_OBJECTS)

MAX_DISTANCE_BOUNDS = (0.0, 1e9)
"""Least and greatest `max_distance_m`."""


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    lon, lat = parse_point_field(record)
    k = parse_k_field(record, limits.max_k)
    has_window = record.get("window") not in (None, "")
    window = parse_required_window(record, counts_objects=True) if has_window else EVERYTHING
    most = parse_number_field(record, MAX_DISTANCE.name, *MAX_DISTANCE_BOUNDS)
    return {
        **parse_keyword_field(record, limits)._asdict(), "lon": lon, "lat": lat, "k": k, MAX_DISTANCE.name: most,
        "window_us": window.micros, "window_objects": window.objects,
    }  # fmt: skip


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    parts = (
        parse_keyword_column(fields["keywords"], limits),
        parse_point_column(fields["point"]),
        parse_k_column(fields["k"], limits.max_k),
        _parse_max_distance(fields[MAX_DISTANCE.name]),
        parse_window_column(fields["window"], counts_objects=True, required=False),
    )
    return join_columns(parts)


def _parse_max_distance(field: RawField) -> ParsedColumns:
    most, has_most = parse_number_column(field, *MAX_DISTANCE_BOUNDS)
    return ParsedColumns({MAX_DISTANCE.name: pa.array(most, mask=~has_most)}, has_most | ~field.filled)


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row."""
    fields = {"keywords": row["keywords"], "point": {"lon": row["lon"], "lat": row["lat"]}, "k": row["k"]}
    more = {MAX_DISTANCE.name: row[MAX_DISTANCE.name], "window": window_field(row)}
    return fields | {name: value for name, value in more.items() if value is not None}


KNN = kind_with_answers(
    "knn",
    describe,
    COLUMNS,
    (KEYWORDS, MAX_DISTANCE.name, *CONDITIONS[1:]),
    fields=FIELDS,
    parse_request=parse_request,
    read_query=lambda row: NearestQuery(describe(row), *stored_clauses(row)),
    parse_columns=parse_columns,
    answers=NEAREST,
)
"""Its pieces depend on thresholds, so no insertion has one."""

# Questions


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    words = parse_keywords_of_question(record, limits.request)
    return ParsedQuestion(
        point=parse_point_field(record),
        clauses=words.clauses,
        verified=words.verified,
        phrases=words.phrases,
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=True),
        max_distance_m=parse_number_field(record, MAX_DISTANCE.name, *MAX_DISTANCE_BOUNDS),
    )


KNN_QUESTION = QuestionKind("knn", FIELDS, "the nearest objects", parse_question)
