"""Keep the k best rows of each question, and the cells that a search has still to visit, in heaps.

The root is the worst row: the best has the least value, then is the newest, then the last in the log. The heaps of all
questions of a batch share three arrays, so that the rows of one segment are offered after those of another. Values are
float32, computed in one way everywhere, so that equal distances and scores are ties.
"""

import numpy as np

from pststream.kernels.compile import kernel, leaf


@leaf
def is_worse(value: np.float32, ts: int, key: int, other_value: np.float32, other_ts: int, other_key: int) -> bool:
    """Return whether a row comes after another: greater value, then older, then earlier in the log."""
    if value != other_value:
        return bool(value > other_value)
    if ts != other_ts:
        return ts < other_ts
    return key < other_key


@leaf
def offer_row(
    values: np.ndarray,
    rows: np.ndarray,
    start: int,
    size: int,
    capacity: int,
    value: np.float32,
    ts: int,
    key: int,
    place: int,
) -> int:
    """Put a row into a heap if it is among its `capacity` best; return the new size of the heap.

    values  float32[]    the heap is values[start : start + size]
    rows    int64[n, 3]  ts, key and place of each entry; the place is the caller's
    """
    if size == capacity:
        if not is_worse(values[start], rows[start, 0], rows[start, 1], value, ts, key):
            return size
        at = 0
        # Sink from the root, which the new row replaces.
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            right = child + 1
            if right < size and _comes_after(values, rows, start + right, start + child):
                child = right
            c = start + child
            if not is_worse(values[c], rows[c, 0], rows[c, 1], value, ts, key):
                break
            _copy_entry(values, rows, c, start + at)
            at = child
    else:
        at = size
        size += 1
        while at > 0:
            parent = (at - 1) >> 1
            p = start + parent
            if not is_worse(value, ts, key, values[p], rows[p, 0], rows[p, 1]):
                break
            _copy_entry(values, rows, p, start + at)
            at = parent
    values[start + at] = value
    rows[start + at, 0], rows[start + at, 1], rows[start + at, 2] = ts, key, place
    return size


@leaf
def _comes_after(values: np.ndarray, rows: np.ndarray, one: int, other: int) -> bool:
    return is_worse(values[one], rows[one, 0], rows[one, 1], values[other], rows[other, 0], rows[other, 1])


@leaf
def _copy_entry(values: np.ndarray, rows: np.ndarray, source: int, target: int) -> None:
    values[target] = values[source]
    for column in range(3):
        rows[target, column] = rows[source, column]


# Cells to visit, the one with the least bound at the root: bounds float64[], and cells int64[n, 5]: number of the list,
# first place of the cell in it, place after the last, cell, level.

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
