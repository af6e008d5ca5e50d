"""Define the kind `knn`: the k objects nearest to a point that satisfy the keywords, with or without a window.

Source: DkM-SKS, Definition 2 (no window, words joined by OR); SSTD, Definition 2 (words joined by AND). Departures:

- the distance is the great-circle distance. DkM-SKS takes the Euclidean one;
- of equal distances the newest object comes first, then the last in the log. DkM-SKS breaks ties arbitrarily;
- the duration of a query of SSTD is the field `expires_at`. A window of objects is neither paper's.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from pststream.queries.kinds.answer_query import AnswerQuery, kind_with_answers, window_field
from pststream.queries.kinds.contract import (
    LAT,
    LON,
    WINDOW_OBJECTS,
    WINDOW_US,
    Description,
    K,
    ObjectRows,
    ParsedQuestion,
    QuestionKind,
    QuestionLimits,
    RankedAnswers,
    RequestLimits,
    WordWeights,
)
from pststream.queries.kinds.fields import (
    EVERYTHING,
    join_columns,
    parse_k_column,
    parse_k_field,
    parse_keywords_of_question,
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
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes.contract import Region, RegionError, RegionLimits, haversine_of_arrays
from pststream.queries.shapes.registry import read_region

# Answers, without the kernels


def distances(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the distances in metres, as compared: float32[n]; not a number without the words."""
    point = asked["point"]
    metres = haversine_of_arrays(point["lon"], point["lat"], objects.lon, objects.lat)
    return np.where(satisfy_keywords(asked["keywords"], objects), metres, np.nan).astype(np.float32)


def circle_of_last(asked: Description, metres: float) -> Region | None:
    """Return the circle of the last object of a full answer; None: it has no radius."""
    try:
        return read_region({"circle": {**asked["point"], "radius_m": metres}}, RegionLimits(sys.maxsize))
    except RegionError:
        return None


NEAREST = RankedAnswers(
    value_column="distance_m",
    sign=1,
    value_text=lambda metres: f"{metres:,.1f} m",
    values=distances,
    parts=lambda asked, objects, weights: {},
    numbers=(LON.name, LAT.name),
    mark=LON.name,
    is_weighed=False,
    reach=circle_of_last,
)

# Requests

FIELDS = frozenset({"keywords", "point", "k", "window"})
COLUMNS = (*KEYWORD_COLUMNS, LON, LAT, K, WINDOW_US, WINDOW_OBJECTS)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    lon, lat = parse_point_field(record)
    k = parse_k_field(record, limits.max_k)
    has_window = record.get("window") not in (None, "")
    window = parse_required_window(record, counts_objects=True) if has_window else EVERYTHING
    return {
        **parse_keyword_field(record, limits)._asdict(), "lon": lon, "lat": lat, "k": k,
        "window_us": window.micros, "window_objects": window.objects,
    }  # fmt: skip


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    parts = (
        parse_keyword_column(fields["keywords"], limits),
        parse_point_column(fields["point"]),
        parse_k_column(fields["k"], limits.max_k),
        parse_window_column(fields["window"], counts_objects=True, required=False),
    )
    return join_columns(parts)


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row."""
    fields = {"keywords": row["keywords"], "point": {"lon": row["lon"], "lat": row["lat"]}, "k": row["k"]}
    window = window_field(row)
    return fields if window is None else fields | {"window": window}


KNN = kind_with_answers(
    "knn",
    describe,
    COLUMNS,
    fields=FIELDS,
    parse_request=parse_request,
    read_query=lambda row: AnswerQuery(describe(row), *stored_clauses(row)),
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
    )


KNN_QUESTION = QuestionKind("knn", FIELDS, "the nearest objects", parse_question)
