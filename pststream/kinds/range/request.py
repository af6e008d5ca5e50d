"""Parse the fields of a range query: keywords and a region."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pststream.domain.region import Region, RegionError, read_region
from pststream.kinds.contract import FieldError, RequestColumn
from pststream.kinds.keywords import KEYWORD_COLUMNS, parse_keyword_field

SIDES = ("west", "south", "east", "north")
REGION_FIELDS = ("bbox", "circle")
FIELDS = frozenset({"keywords", *REGION_FIELDS})
COLUMNS = (
    *KEYWORD_COLUMNS,
    RequestColumn("west", pa.list_(pa.float64()), "insert: of each of the one or two boxes, degrees"),
    RequestColumn("south", pa.list_(pa.float64()), ""),
    RequestColumn("east", pa.list_(pa.float64()), ""),
    RequestColumn("north", pa.list_(pa.float64()), ""),
    RequestColumn("circle", pa.list_(pa.float64()), "insert: lon, lat, radius in metres; null for a box"),
)


def parse_request(record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of COLUMNS from the fields of a request; raises FieldError."""
    keywords, clauses = parse_keyword_field(record)
    region = _parse_region(record)
    sides = zip(SIDES, zip(*region.boxes))
    return {
        "keywords": keywords,
        "clauses": clauses,
        **{side: list(numbers) for side, numbers in sides},
        "circle": list(region.circle) if region.circle else None,
    }


def _parse_region(record: Mapping[str, Any]) -> Region:
    try:
        return read_region(*(_from_text(record.get(field), field) for field in REGION_FIELDS))
    except RegionError as error:
        if all(record.get(field) is None for field in REGION_FIELDS):
            raise FieldError(error.field, "missing", record, str(error)) from None
        raise FieldError(error.field, "unreadable_region", record.get(error.field), str(error)) from None


def _from_text(region: Any, field: str) -> Any:
    """A region that a column of text holds as JSON."""
    if not isinstance(region, str):
        return region
    try:
        return json.loads(region)
    except (ValueError, RecursionError):
        raise RegionError(field, "not a list or an object") from None
