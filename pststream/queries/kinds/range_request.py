"""Parse the keywords and the region of an insertion into columns of `requests`; an invalid field raises FieldError."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.contract import RequestColumn, RequestLimits
from pststream.queries.kinds.keywords import KEYWORD_COLUMNS, parse_keyword_column, parse_optional_keywords
from pststream.queries.kinds.region_field import parse_region_field
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes.registry import REQUEST_COLUMNS, read_regions, request_fields, to_columns

FIELDS = frozenset({"keywords", *request_fields()})
COLUMNS = (*KEYWORD_COLUMNS, *(RequestColumn(*column) for column in REQUEST_COLUMNS))


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    keywords, clauses = parse_optional_keywords(record, limits)
    return {"keywords": keywords, "clauses": clauses, **to_columns(parse_region_field(record, limits.region))}


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    keywords = parse_keyword_column(fields["keywords"], limits)
    regions = read_regions(fields, limits.region)
    return ParsedColumns(keywords.columns | regions.columns, keywords.parsed & regions.parsed)
