"""Parse the fields of a `frequent_terms` request into columns of `requests`, and make them again of a stored row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.queries.kinds.answer_query import duration_text, window_field
from pststream.queries.kinds.contract import FieldError, RequestColumn, RequestLimits
from pststream.queries.kinds.field_columns import (
    join_columns,
    parse_duration_column,
    parse_k_column,
    parse_window_column,
)
from pststream.queries.kinds.frequent_terms_explain import RegionQuery
from pststream.queries.kinds.question_fields import parse_k_field, parse_required_window, parse_step_field
from pststream.queries.kinds.region_field import parse_region_field
from pststream.queries.kinds.stored_columns import STEP_US, WINDOW_US, K
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes.registry import (
    REQUEST_COLUMNS,
    from_columns,
    read_regions,
    request_fields,
    to_columns,
    to_json,
)

FIELDS = frozenset({"k", "window", "step", *request_fields()})
COLUMNS = (*(RequestColumn(*column) for column in REQUEST_COLUMNS), K, WINDOW_US, STEP_US)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    region = parse_region_field(record, limits.region)
    k = parse_k_field(record, limits.max_k)
    window, step = parse_required_window(record, counts_objects=False).micros or 0, parse_step_field(record)
    if window > step * limits.max_window_steps:
        detail = f"a window has more than {limits.max_window_steps:,} steps; the setting max_window_steps bounds them"
        raise FieldError("step", "too_many_steps", record["step"], detail)
    return {"k": k, "window_us": window, "step_us": step, **to_columns(region)}


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    window = parse_window_column(fields["window"], counts_objects=False)
    step, read = parse_duration_column(fields["step"])
    parts = (
        read_regions(fields, limits.region),
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
        "region": to_json(from_columns(row)),
        "k": row["k"],
        "window": window_field(row),
        "step": duration_text(row["step_us"]),
    }


def read_query(row: Mapping[str, Any]) -> RegionQuery:
    """Make the query of a stored row."""
    return RegionQuery(describe(row), from_columns(row))
