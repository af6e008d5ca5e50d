"""Keep the k best rows of each question, and the cells that a search has still to visit, in heaps.

The root of a heap is its worst row. A smaller value is better; of equal values the newer row, then the one later in the
log. The heaps of all questions of a batch share three arrays, so that the rows of one segment are offered after those
of another. Values are float32, computed in one way everywhere, so that equal distances and scores are ties.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.sort_and_search import with_room


class Heaps(NamedTuple):
    """The heaps of q questions.

    starts  int64[q+1]    first entry of the heap of each question; it has room up to the next one's
    sizes   int64[q]      entries in use
    values  float32[n]    value of each entry: metres, a score below 0, or 0
    rows    int64[n,3]    ts (microseconds), key and place of each entry: its segment and row (search/best_objects.py);
                          in the segment that is searched, -1 - row
    """

    starts: np.ndarray
    sizes: np.ndarray
    values: np.ndarray
    rows: np.ndarray


@leaf
def is_worse(value: np.float32, ts: int, key: int, other_value: np.float32, other_ts: int, other_key: int) -> bool:
    """Return whether a row comes after another: greater value, then older, then earlier in the log."""
    if value != other_value:
        return bool(value > other_value)
    if ts != other_ts:
        return ts < other_ts
    return key < other_key


@leaf
def worst_value(heaps: Heaps, question: int) -> np.float32:
    """Return the value above which no row enters the heap of a question: infinity if the heap has room."""
    start = heaps.starts[question]
    if heaps.sizes[question] < heaps.starts[question + 1] - start:
        return np.float32(np.inf)
    return heaps.values[start]


@leaf
def offer_row(heaps: Heaps, question: int, value: np.float32, ts: int, key: int, place: int) -> None:
    """Put a row into the heap of a question if it is among the best that the heap has room for."""
    values, rows, start, size = heaps.values, heaps.rows, heaps.starts[question], heaps.sizes[question]
    if size == heaps.starts[question + 1] - start:
        if not is_worse(values[start], rows[start, 0], rows[start, 1], value, ts, key):
            return
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
        heaps.sizes[question] = size + 1
        while at > 0:
            parent = (at - 1) >> 1
            p = start + parent
            if not is_worse(value, ts, key, values[p], rows[p, 0], rows[p, 1]):
                break
            _copy_entry(values, rows, p, start + at)
            at = parent
    values[start + at] = value
    rows[start + at, 0], rows[start + at, 1], rows[start + at, 2] = ts, key, place


@leaf
def _comes_after(values: np.ndarray, rows: np.ndarray, one: int, other: int) -> bool:
    return is_worse(values[one], rows[one, 0], rows[one, 1], values[other], rows[other, 0], rows[other, 1])


@leaf
def _copy_entry(values: np.ndarray, rows: np.ndarray, source: int, target: int) -> None:
    values[target] = values[source]
    for column in range(3):
        rows[target, column] = rows[source, column]


COLUMNS = 5


class CellQueue(NamedTuple):
    """A heap of the cells to visit, the one with the least bound at the root.

    bounds  float64[n]    no row of the cell has a lesser haversine, or score below 0
    cells   int64[n,5]    number of the list, first place of the cell in it, place after the last, cell, level
    """

    bounds: np.ndarray
    cells: np.ndarray


@kernel
def make_queue() -> CellQueue:
    """Make an empty queue."""
    return CellQueue(np.empty(256, np.float64), np.empty((256, COLUMNS), np.int64))


@kernel
def with_room_for_cells(queue: CellQueue, size: int) -> CellQueue:
    """Return the queue, longer if it has no room for four more cells."""
    return CellQueue(with_room(queue.bounds, size + 4), with_room(queue.cells, size + 4))


@leaf
def push_cell(
    queue: CellQueue, size: int, bound: float, number: int, low: int, high: int, cell: int, level: int
) -> int:
    """Add a cell; return the new size."""
    bounds, cells = queue
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
def pop_cell(queue: CellQueue, size: int) -> int:
    """Remove the root, which the caller has read; return the new size."""
    bounds, cells = queue
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
