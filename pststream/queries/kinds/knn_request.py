"""Parse the fields of a `knn` request into columns of `requests`, and make them again of a stored row."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.answer_query import AnswerQuery, window_field
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.field_columns import join_columns, parse_k_column, parse_point_column, parse_window_column
from pststream.queries.kinds.keywords import KEYWORD_COLUMNS, parse_keyword_column, parse_optional_keywords
from pststream.queries.kinds.question_fields import EVERYTHING, parse_k_field, parse_point_field, parse_required_window
from pststream.queries.kinds.stored_columns import LAT, LON, WINDOW_OBJECTS, WINDOW_US, K
from pststream.queries.raw_fields import ParsedColumns, RawFields

FIELDS = frozenset({"keywords", "point", "k", "window"})
COLUMNS = (*KEYWORD_COLUMNS, LON, LAT, K, WINDOW_US, WINDOW_OBJECTS)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    keywords, clauses = parse_optional_keywords(record, limits)
    lon, lat = parse_point_field(record)
    k = parse_k_field(record, limits.max_k)
    has_window = record.get("window") not in (None, "")
    window = parse_required_window(record, counts_objects=True) if has_window else EVERYTHING
    return {
        "keywords": keywords, "clauses": clauses, "lon": lon, "lat": lat, "k": k,
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


def read_query(row: Mapping[str, Any]) -> AnswerQuery:
    """Make the query of a stored row."""
    return AnswerQuery(describe(row), tuple(map(tuple, row["clauses"])))
