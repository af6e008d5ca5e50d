"""Count the sampled objects that have a word, in a rectangle of raster cells."""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel


class TermCounts(NamedTuple):
    """Sampled objects by term and raster cell (`plans/sample_counts.py`).

    columns, rows: of the raster; borders int64[t+1]: slice of the entries of each term; cells int64[n], ascending
    inside a term, and objects int64[n] of each entry
    """

    columns: int
    rows: int
    borders: np.ndarray
    cells: np.ndarray
    objects: np.ndarray


@kernel
def count_objects_with(word, area, counts):
    """Return the number of sampled objects with a word in an area (int32[4]): P(R, word) of Equation 4 as a count."""
    columns, _, borders, cells, objects = counts
    first, last = area[1] * columns + area[0], area[3] * columns + area[2]
    low, high = borders[word], borders[word + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if cells[middle] < first:
            low = middle + 1
        else:
            high = middle
    total = 0
    while low < end and cells[low] <= last:
        column = cells[low] % columns
        if area[0] <= column <= area[2]:
            total += objects[low]
        low += 1
    return total
