"""Estimate by sampled objects where the nearest objects of a subscription are."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.planning.term_counts import count_objects_with


@kernel
def _square_around(column, row, reach, counts, area):
    """Write the cells up to `reach` columns and rows from a cell to `area`, cut at the raster."""
    area[0], area[1] = max(column - reach, 0), max(row - reach, 0)
    area[2], area[3] = min(column + reach, counts.columns - 1), min(row + reach, counts.rows - 1)


@kernel
def _count_words(words, area, counts):
    total = 0
    for word in words:
        if word >= 0:
            total += count_objects_with(word, area, counts)
    return total


@kernel
def find_ranges_of_nearest(columns, rows, offsets, words, wanted, counts):
    """Return the least square of cells around each point in which its words have enough sampled objects: int32[n, 4].

    columns, rows   int64[n]             raster cell of each point
    offsets, words  int64[n+1], int64[m] numbers of the words of each in `counts`; -1: no sampled object has the word
    wanted          float64[n]           sampled objects that are enough, an object with two of the words counted twice

    It is the whole raster if that has too few. The reach is found by bisection.
    """
    ranges = np.empty((len(columns), 4), np.int32)
    for s in range(len(columns)):
        own = words[offsets[s] : offsets[s + 1]]
        low, high = 0, max(counts.columns, counts.rows)
        while low < high:
            middle = (low + high) >> 1
            _square_around(columns[s], rows[s], middle, counts, ranges[s])
            if _count_words(own, ranges[s], counts) >= wanted[s]:
                high = middle
            else:
                low = middle + 1
        _square_around(columns[s], rows[s], low, counts, ranges[s])
    return ranges
