"""Parse the fields of a `topk` request into columns of `requests`, and make them again of a stored row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.queries.kinds.answer_query import window_field
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.field_columns import (
    join_columns,
    parse_k_column,
    parse_number_column,
    parse_point_column,
    parse_window_column,
)
from pststream.queries.kinds.keywords import KEYWORD_COLUMNS, parse_keyword_column
from pststream.queries.kinds.question_fields import parse_k_field, parse_point_field, parse_required_window
from pststream.queries.kinds.stored_columns import ALPHA, DISTANCE_SCALE, LAT, LON, WINDOW_OBJECTS, WINDOW_US, K
from pststream.queries.kinds.topk_explain import WordsQuery
from pststream.queries.kinds.topk_question import (
    ALPHA_BOUNDS,
    GREATEST_DISTANCE_M,
    SCALE_BOUNDS,
    parse_alpha,
    parse_distance_scale,
    parse_words,
)
from pststream.queries.raw_fields import ParsedColumns, RawField, RawFields

FIELDS = frozenset({"keywords", "point", "k", "alpha", "distance_scale_m", "window"})
COLUMNS = (*KEYWORD_COLUMNS, LON, LAT, K, ALPHA, DISTANCE_SCALE, WINDOW_US, WINDOW_OBJECTS)

_PERHAPS_OPERATOR = r"\b(AND|OR)\b|[()]"


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    keywords, clauses = parse_words(record, limits)
    lon, lat = parse_point_field(record)
    k = parse_k_field(record, limits.max_k)
    alpha, scale = parse_alpha(record), parse_distance_scale(record)
    window = parse_required_window(record, counts_objects=True)
    return {
        "keywords": keywords, "clauses": clauses, "lon": lon, "lat": lat, "k": k, "alpha": alpha,
        "distance_scale_m": scale, "window_us": window.micros, "window_objects": window.objects,
    }  # fmt: skip


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    parts = (
        _parse_words_column(fields["keywords"], limits),
        parse_point_column(fields["point"]),
        parse_k_column(fields["k"], limits.max_k),
        _parse_weights(fields),
        parse_window_column(fields["window"], counts_objects=True),
    )
    return join_columns(parts)


def _parse_words_column(field: RawField, limits: RequestLimits) -> ParsedColumns:
    """Parse words without operators; texts that may have one are left to `parse_words`."""
    words = parse_keyword_column(field, limits)
    operators = pc.match_substring_regex(words.columns["keywords"], _PERHAPS_OPERATOR)
    return ParsedColumns(words.columns, words.parsed & ~pc.fill_null(operators, True).to_numpy(zero_copy_only=False))


def _parse_weights(fields: RawFields) -> ParsedColumns:
    alpha, read = parse_number_column(fields["alpha"], *ALPHA_BOUNDS)
    scale, has_scale = parse_number_column(fields["distance_scale_m"], *SCALE_BOUNDS)
    columns = {
        ALPHA.name: pa.array(alpha),
        DISTANCE_SCALE.name: pa.array(np.where(has_scale, scale, GREATEST_DISTANCE_M)),
    }
    return ParsedColumns(columns, read & (has_scale | ~fields["distance_scale_m"].filled))


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row."""
    return {
        "keywords": row["keywords"],
        "point": {"lon": row["lon"], "lat": row["lat"]},
        "k": row["k"],
        "alpha": row["alpha"],
        "distance_scale_m": row["distance_scale_m"],
        "window": window_field(row),
    }


def read_query(row: Mapping[str, Any]) -> WordsQuery:
    """Make the query of a stored row."""
    return WordsQuery(describe(row), tuple(map(tuple, row["clauses"])))
