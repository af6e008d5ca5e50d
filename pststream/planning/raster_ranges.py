"""Compute the first and last column and row of the raster cells that each box covers."""

import numpy as np

from pststream.plans.plan import DispatchGrid

_CHUNK = 1 << 14
"""Number of boxes computed at a time, so that intermediate arrays stay in the cache of the processor."""


def compute_cell_ranges(grid: DispatchGrid, boxes: np.ndarray) -> np.ndarray:
    """Return first column, first row, last column, last row of each box (float64[n, 4]): int32[n, 4]."""
    ranges = np.empty((len(boxes), 4), dtype=np.int32)
    for start in range(0, len(boxes), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        ranges[chunk, 0::2] = grid.cell_x(boxes[chunk, 0::2])
        ranges[chunk, 1::2] = grid.cell_y(boxes[chunk, 1::2])
    return ranges
