"""Cover the equal neighbouring cells of a raster with few rectangles, to draw leaves or workers on a map."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rectangles:
    """Rectangles of equal cells; all int64[n].

    value        the cells' value
    left, right  columns, right exclusive
    low, high    rows counted from the south, high exclusive
    """

    value: np.ndarray
    left: np.ndarray
    right: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.value)


def cover_with_rectangles(raster: np.ndarray) -> Rectangles:
    """Cover each cell of int[rows, columns] once: runs of equal cells in a row, merged with equal runs above."""
    rows, columns = raster.shape
    border = np.ones((rows, columns), dtype=bool)
    border[:, 1:] = raster[:, 1:] != raster[:, :-1]
    start = np.flatnonzero(border)
    end = np.append(start[1:], rows * columns)
    row, left = start // columns, start % columns
    right = left + end - start
    value = raster.reshape(-1)[start].astype(np.int64)
    order = np.lexsort((row, right, left, value))
    value, left, right, row = value[order], left[order], right[order], row[order]
    joined = np.zeros(len(value), dtype=bool)
    joined[1:] = (
        (value[1:] == value[:-1]) & (left[1:] == left[:-1]) & (right[1:] == right[:-1]) & (row[1:] == row[:-1] + 1)
    )
    first = np.flatnonzero(~joined)
    last = np.append(first[1:], len(value)) - 1
    return Rectangles(value[first], left[first], right[first], row[first], row[last] + 1)
