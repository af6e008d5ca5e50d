"""Sum values of raster cells in any rectangle in constant time, by a summed-area table."""

import numpy as np

Cells = int | np.ndarray


def build_area_sums(values: np.ndarray) -> np.ndarray:
    """Sum `values` (int64 or float64, [rows, columns]) up to a summed-area table: the same type, [rows+1, columns+1].

    Entry [y, x] sums the rows before y and the columns before x.
    """
    table = np.zeros((values.shape[0] + 1, values.shape[1] + 1), dtype=values.dtype)
    np.cumsum(values, axis=0, out=table[1:, 1:])
    np.cumsum(table[1:, 1:], axis=1, out=table[1:, 1:])
    return table


def sum_area(table: np.ndarray, x0: Cells, y0: Cells, x1: Cells, y1: Cells) -> np.ndarray:
    """Sum the values in each rectangle, given by first and last column and row, inclusive.

    A rectangle whose last column or row is before its first is empty. A table may have several values an entry, on a
    last axis, which the result then has too.
    """
    right, upper = np.maximum(np.add(x1, 1), x0), np.maximum(np.add(y1, 1), y0)
    return np.asarray(table[upper, right] - table[y0, right] - table[upper, x0] + table[y0, x0])
