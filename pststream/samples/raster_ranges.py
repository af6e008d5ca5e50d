"""The cells of a raster that boxes cover."""

import numpy as np

from pststream.domain.plan import DispatchGrid

_CHUNK = 1 << 14
"""Boxes at a time: their intermediate arrays stay in the processor's cache."""


def cell_ranges(grid: DispatchGrid, boxes: np.ndarray) -> np.ndarray:
    """First column, first row, last column, last row of each box (float64[n, 4]): int32[n, 4]."""
    ranges = np.empty((len(boxes), 4), dtype=np.int32)
    for start in range(0, len(boxes), _CHUNK):
        part = slice(start, start + _CHUNK)
        ranges[part, 0::2] = grid.cell_x(boxes[part, 0::2])
        ranges[part, 1::2] = grid.cell_y(boxes[part, 1::2])
    return ranges
