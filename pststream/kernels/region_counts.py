"""Count the objects of several boxes by term, over the grid of the edges of the boxes.

Four cells of the grid give the count of a box. The longitudes of the west and east sides of all boxes, and the
latitudes of the south and north sides, divide a region into strips. A strip [edge, next edge) lies in a box or outside,
so that no object has to be compared with any box.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import prefetch
from pststream.kernels.questions.codes import number_at
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list

STARTS = 4
"""Parts into which a strip is divided, on average, to find the strip of a place."""

BLOCK = 64
"""Rows whose cells are fetched at a time."""

LINE = 16
"""Counts of a cache line."""

FETCHED = 2 * LINE
"""Counts of a cell that are fetched: those of its most frequent terms."""


class EdgeGrid(NamedTuple):
    """The edges of b boxes, ascending, and where the sides of each box are among them.

    lon, lat              float64[x], float64[y]: degrees; a box ends before the place of its east or north edge
    lon_starts, lat_starts  int64[4x], int64[4y]: parts of equal width from the first edge to the last; the first edge
                          that may lie in a part or after it
    west, south, east, north  int64[b]: places of edges
    """

    lon: np.ndarray
    lat: np.ndarray
    lon_starts: np.ndarray
    lat_starts: np.ndarray
    west: np.ndarray
    south: np.ndarray
    east: np.ndarray
    north: np.ndarray


def make_grid(boxes: np.ndarray) -> EdgeGrid:
    """Return the grid of boxes, float64[b,4]: west, south, east, north, all sides included."""
    after = np.nextafter(boxes[:, 2:], np.inf)
    lon, lat = (np.unique(np.concatenate([boxes[:, side], after[:, side]])) for side in (0, 1))
    west, south = (np.searchsorted(edges, boxes[:, side]) for side, edges in ((0, lon), (1, lat)))
    east, north = (np.searchsorted(edges, after[:, side]) for side, edges in ((0, lon), (1, lat)))
    return EdgeGrid(lon, lat, _starts(lon), _starts(lat), west, south, east, north)


@kernel
def _starts(edges):
    """Return the number of edges before each part of the strips: int64[STARTS * edges]."""
    starts = np.empty(STARTS * len(edges), np.int64)
    scale, before = _scale(edges), 0
    for part in range(len(starts)):
        while before < len(edges) and int((edges[before] - edges[0]) * scale) < part:
            before += 1
        starts[part] = before
    return starts


@kernel
def _scale(edges):
    """Return the parts of strips in a degree; 0 if the edges are too close to divide."""
    width = edges[len(edges) - 1] - edges[0]
    return (STARTS * len(edges) - 1) / width if width > 1e-9 else 0.0


@kernel
def _strip(edges, starts, scale, degrees):
    """Return the number of edges that are not beyond a place, which lies between the first and the last."""
    strip = starts[int((degrees - edges[0]) * scale)]
    while edges[strip] <= degrees:
        strip += 1
    return strip


@kernel
def count_rows(objects, box, grid, window, some_keys, columns, cells):
    """Add the objects of a segment, by strip and term, to `cells`: int32[x,y,c].

    objects       ObjectArrays, the segment (kernels/questions/question_arrays.py)
    box           float64[4]: around all boxes of the grid
    grid          EdgeGrid
    window        Window
    some_keys     whether objects of the segment may have keys above the last that counts
    columns       int16[t+1]: column of a term in `cells`, -1: none; the last one, -1, is that of all further terms;
                  frequent terms have the first columns
    """
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    spans, count = split_list(objects, False, 0, len(objects.codes), box, spans)
    flat, last = cells.reshape(-1), len(columns) - 1
    rows, starts, places = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(16 * BLOCK, np.int64)
    for span in range(count):
        for begin in range(spans[span, 0], spans[span, 1], BLOCK):
            stop = min(begin + BLOCK, spans[span, 1])
            kept = _find_cells(objects, begin, stop, grid, window, some_keys, cells, flat, rows, starts)
            listed = 0
            for at in range(kept):
                for own in range(objects.offsets[rows[at]], objects.offsets[rows[at] + 1]):
                    if listed == len(places):
                        listed = _count_places(flat, places, listed)
                    # Without a branch: most terms have no column, and none can guess which.
                    term = columns[min(number_at(objects.row_terms, own), last)]
                    places[listed] = starts[at] + term
                    listed += term >= 0
            _count_places(flat, places, listed)


@kernel
def _count_places(flat, places, listed):
    """Add one at each of the first places that are listed; return 0, the number that is left."""
    for at in range(listed):
        flat[places[at]] += 1
    return 0


@kernel
def _find_cells(objects, begin, stop, grid, window, some_keys, cells, flat, rows, starts):
    """Write the rows of [begin, stop) that count to `rows`, and where the counts of their cells begin in `flat`.

    Returns the number of rows; the counts of the first terms are being fetched.
    """
    lon, lat = grid.lon, grid.lat
    west, south, east, north = lon[0], lat[0], lon[len(lon) - 1], lat[len(lat) - 1]
    lon_scale, lat_scale, kept = _scale(lon), _scale(lat), 0
    for row in range(begin, stop):
        ts = objects.times[row]
        if ts < window.after_ts or ts > window.up_to_ts:
            continue
        if (some_keys or ts == window.after_ts) and not in_window(ts, objects.keys[row], window):
            continue
        x, y = objects.places[row, 0], objects.places[row, 1]
        if x < west or x >= east or y < south or y >= north:
            continue
        column = _strip(lon, grid.lon_starts, lon_scale, x)
        line = _strip(lat, grid.lat_starts, lat_scale, y)
        start = (column * cells.shape[1] + line) * cells.shape[2]
        for fetched in range(0, min(FETCHED, cells.shape[2]), LINE):
            prefetch(flat, start + fetched)
        rows[kept], starts[kept] = row, start
        kept += 1
    return kept


@kernel
def add_up(cells):
    """Make each cell the sum of those that are not beyond it."""
    row = np.empty(cells.shape[2], np.int32)
    for column in range(1, cells.shape[0]):
        row[:] = 0
        for line in range(1, cells.shape[1]):
            for term in range(cells.shape[2]):
                row[term] += cells[column, line, term]
                cells[column, line, term] = cells[column - 1, line, term] + row[term]


@kernel
def counts_of_boxes(grid, cells):
    """Return the number of objects of each box that have each term: int32[b,c]; `cells` are added up."""
    counts = np.empty((len(grid.west), cells.shape[2]), np.int32)
    for box in range(len(grid.west)):
        west, south, east, north = grid.west[box], grid.south[box], grid.east[box], grid.north[box]
        for term in range(cells.shape[2]):
            counts[box, term] = (
                cells[east, north, term]
                - cells[west, north, term]
                - cells[east, south, term]
                + cells[west, south, term]
            )
    return counts


@kernel
def choose_terms(counts, order, bound, limits):
    """Return the terms with the greatest counts of each box, if no other term can be among them.

    counts   int32[b,c]: of fewer than 2^16 terms
    order    int64[c]: the terms in the order of their words
    bound    no other term has a greater count; 0: there is no other
    limits   int64[b]: greatest number of terms
    Returns whether they are proven, bool[b], offsets int64[b+1], and places and counts of terms: int64[n], int64[n];
    what is not proven has none.
    """
    boxes, terms = counts.shape
    proven, offsets = np.zeros(boxes, np.bool_), np.zeros(boxes + 1, np.int64)
    chosen, numbers = np.empty(boxes * terms, np.int64), np.empty(boxes * terms, np.int64)
    values, total = np.empty(terms, np.int64), 0
    for box in range(boxes):
        size = 0
        for place in range(terms):
            if counts[box, order[place]] > 0:
                values[size] = -(np.int64(counts[box, order[place]]) << 16) + place
                size += 1
        best = np.sort(values[:size])[: limits[box]]
        proven[box] = bound == 0 or (size >= limits[box] and -(best[limits[box] - 1] >> 16) > bound)
        if proven[box]:
            for value in best:
                chosen[total], numbers[total] = order[value & 0xFFFF], -(value >> 16)
                total += 1
        offsets[box + 1] = total
    return proven, offsets, chosen[:total].copy(), numbers[:total].copy()
