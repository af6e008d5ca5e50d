"""Options of a file as the ledger stores them, without bounds of values that a test does not give."""

from typing import Any

from pststream.pipeline.ingest.stage_file import MAX_AHEAD, OWNER, REQUEST_BOUNDS
from pststream.queries.kinds.contract import RequestLimits

WITHOUT_BOUNDS: dict[str, Any] = {
    **{"format": None, "columns": [], "constants": [], "timezone": "UTC", "time_unit": None, MAX_AHEAD: 0, OWNER: ""},
    **{name: getattr(RequestLimits(), name) for name in REQUEST_BOUNDS},
    "max_polygon_vertices": RequestLimits().region.max_polygon_vertices,
}
