"""Parse the region of a request or a question from one of the fields of shapes; an invalid region raises FieldError."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.contract import FieldError
from pststream.queries.shapes.region import Region, RegionError, RegionLimits
from pststream.queries.shapes.registry import read_region


def parse_region_field(record: Mapping[str, Any], limits: RegionLimits) -> Region:
    """Return the region that one of the fields of shapes gives; raises FieldError."""
    try:
        return read_region(record, limits)
    except RegionError as error:
        if error.missing:
            raise FieldError(error.field, "missing", record, str(error)) from None
        raise FieldError(error.field, "unreadable_region", record.get(error.field), str(error)) from None
