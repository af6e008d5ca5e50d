"""Find the postings that an object reads slowly, box by box."""

from pststream.kernels.matching.index_cells import MAX_LEVEL, column_of, level_of_box, row_of
from pststream.plans.planner_sample import POSTING_READS

Box = tuple[float, float, float, float]


def holds_cell_of(box: Box, lon: float, lat: float) -> bool:
    """Return whether the box covers the index cell of the point on the level of boxes of its size."""
    shift = MAX_LEVEL - level_of_box(*box)
    x, y = column_of(lon) >> shift, row_of(lat) >> shift
    west, south, east, north = column_of(box[0]), row_of(box[1]), column_of(box[2]), row_of(box[3])
    return west >> shift <= x <= east >> shift and south >> shift <= y <= north >> shift


def weight(box: Box, lon: float, lat: float, match_reads: int) -> int:
    """Return the reads of a posting of a box for a point: 0 if it is not read, more if the box contains the point."""
    holds = box[0] <= lon <= box[2] and box[1] <= lat <= box[3]
    return holds_cell_of(box, lon, lat) * (POSTING_READS + match_reads * holds)
