"""Keep the cells that a search has still to visit in a heap: the cell with the least bound is at the root.

bounds  float64[]    the bound of each cell
cells   int64[n, 5]  number of the list, first place of the cell in it, place after the last, cell, level
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf

COLUMNS = 5


@kernel
def with_room_for_cells(bounds: np.ndarray, cells: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays, longer if they have no room for four more cells."""
    if size + 4 <= len(bounds):
        return bounds, cells
    longer, wider = np.empty(2 * len(bounds), np.float64), np.empty((2 * len(bounds), COLUMNS), np.int64)
    longer[:size], wider[:size] = bounds[:size], cells[:size]
    return longer, wider


@leaf
def push_cell(
    bounds: np.ndarray,
    cells: np.ndarray,
    size: int,
    bound: float,
    number: int,
    low: int,
    high: int,
    cell: int,
    level: int,
) -> int:
    """Add a cell; return the new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if bounds[parent] <= bound:
            break
        _copy_cell(bounds, cells, parent, at)
        at = parent
    bounds[at] = bound
    cells[at, 0], cells[at, 1], cells[at, 2], cells[at, 3], cells[at, 4] = number, low, high, cell, level
    return size + 1


@leaf
def pop_cell(bounds: np.ndarray, cells: np.ndarray, size: int) -> int:
    """Remove the root, which the caller has read; return the new size."""
    size -= 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and bounds[child + 1] < bounds[child]:
            child += 1
        if bounds[size] <= bounds[child]:
            break
        _copy_cell(bounds, cells, child, at)
        at = child
    _copy_cell(bounds, cells, size, at)
    return size


@leaf
def _copy_cell(bounds: np.ndarray, cells: np.ndarray, source: int, target: int) -> None:
    bounds[target] = bounds[source]
    for column in range(COLUMNS):
        cells[target, column] = cells[source, column]
