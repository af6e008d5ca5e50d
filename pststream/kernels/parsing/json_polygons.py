"""Find the numbers of GeoJSON polygons in JSON texts.

Only plain objects are read: a `type` (Polygon or MultiPolygon) and `coordinates`, nothing else, and numbers without an
exponent. All other values, valid or not, are left to a parser of single values.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.parsing.json_lines import (
    REAL,
    TEXT,
    WHOLE,
    key_end,
    number_end,
    same_bytes,
    skip_blanks,
    text_end,
)

_QUOTE, _COMMA, _MINUS = 34, 44, 45
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 91, 93, 123, 125
_NONE, _POLYGON, _SEVERAL = 0, 3, 4
"""Number of nested lists of the coordinates of a Polygon, a MultiPolygon."""

_TYPE = np.frombuffer(b"type", np.uint8)
_COORDINATES = np.frombuffer(b"coordinates", np.uint8)
_NAME_OF_POLYGON = np.frombuffer(b"Polygon", np.uint8)
_NAME_OF_SEVERAL = np.frombuffer(b"MultiPolygon", np.uint8)


@kernel
def find_polygons(data, starts, stops, longest):
    """Find the positions of many polygons: (read, polygons, rings, positions, spans).

    data           uint8[bytes]          UTF-8; a value with a line feed is not read
    starts, stops  int64[n]              slice of `data` of each value; a start of -1: there is no value
    longest        int                   a longer value is not read
    read           bool[n]               whether a value is a plain object
    polygons       int64[n+1]            slice of the polygons of each value; none of a value that is not read
    rings          int64[polygons+1]     slice of the rings of each polygon
    positions      int64[rings+1]        slice of the positions of each ring
    spans          int64[2*positions,2]  slice of `data` of each longitude and latitude
    """
    rows = len(starts)
    # A position has a comma, and each ring and polygon has a position.
    most = 1
    for row in range(rows):
        for i in range(max(starts[row], 0), stops[row] if 0 <= stops[row] - starts[row] <= longest else 0):
            most += data[i] == _COMMA
    read = np.zeros(rows, np.bool_)
    polygons = np.zeros(rows + 1, np.int64)
    rings, positions = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
    spans = np.empty((2 * most, 2), np.int64)
    # Numbers of polygons, rings and positions so far.
    counts = np.zeros(3, np.int64)
    for row in range(rows):
        if starts[row] >= 0 and stops[row] - starts[row] <= longest:
            before = counts.copy()
            read[row] = _read_object(data, starts[row], stops[row], rings, positions, spans, counts)
            if not read[row]:
                counts[:] = before
        polygons[row + 1] = counts[0]
    return read, polygons, rings[: counts[0] + 1], positions[: counts[1] + 1], spans[: 2 * counts[2]]


@kernel
def _read_object(data, i, stop, rings, positions, spans, counts):
    """Append the polygons of the object at `i`; return whether it is plain."""
    i = skip_blanks(data, i, stop)
    if i >= stop or data[i] != _OPEN:
        return False
    named, nested = _NONE, _NONE
    for last in (False, True):
        key = skip_blanks(data, i + 1, stop)
        key_stop, value = key_end(data, key, stop)
        if key_stop < 0 or value >= stop:
            return False
        if named == _NONE and same_bytes(data, key + 1, key_stop, _TYPE, 0, len(_TYPE)):
            i, named = _read_type(data, value, stop)
        elif nested == _NONE and same_bytes(data, key + 1, key_stop, _COORDINATES, 0, len(_COORDINATES)):
            nested = _count_lists(data, value, stop)
            if nested != _POLYGON and nested != _SEVERAL:
                return False
            i = _read_coordinates(data, value, stop, nested, rings, positions, spans, counts)
        else:
            return False
        i = skip_blanks(data, i, stop) if i >= 0 else stop
        if i >= stop or data[i] != (_CLOSE if last else _COMMA):
            return False
    return named == nested and skip_blanks(data, i + 1, stop) == stop


@kernel
def _read_type(data, i, stop):
    """Return the position after the text at `i`, -1 if it is no text, and _POLYGON, _SEVERAL or _NONE."""
    end, kind = text_end(data, i + 1, stop)
    if data[i] != _QUOTE or kind != TEXT:
        return -1, _NONE
    if same_bytes(data, i + 1, end, _NAME_OF_POLYGON, 0, len(_NAME_OF_POLYGON)):
        return end + 1, _POLYGON
    if same_bytes(data, i + 1, end, _NAME_OF_SEVERAL, 0, len(_NAME_OF_SEVERAL)):
        return end + 1, _SEVERAL
    return -1, _NONE


@kernel
def _count_lists(data, i, stop):
    """Return the number of lists that begin at `i`, one in the other."""
    nested = 0
    while i < stop and data[i] == _OPEN_LIST:
        nested += 1
        i = skip_blanks(data, i + 1, stop)
    return nested


@kernel
def _read_coordinates(data, i, stop, nested, rings, positions, spans, counts):
    """Append the polygons of `nested` lists, one in the other; return the position after them, -1 if they are odd."""
    opened = 0
    while True:
        # Open the lists around a position.
        while opened < nested - 1:
            if i >= stop or data[i] != _OPEN_LIST:
                return -1
            i = skip_blanks(data, i + 1, stop)
            opened += 1
        i = _read_position(data, i, stop, spans, counts)
        if i < 0:
            return -1
        i = skip_blanks(data, i, stop)
        # Close the lists that end here: a ring, perhaps its polygon, perhaps all.
        while i < stop and data[i] == _CLOSE_LIST:
            if opened == nested - 1:
                counts[1] += 1
                positions[counts[1]] = counts[2]
            elif opened == nested - 2:
                counts[0] += 1
                rings[counts[0]] = counts[1]
            opened -= 1
            if opened == 0:
                return i + 1
            i = skip_blanks(data, i + 1, stop)
        if i >= stop or data[i] != _COMMA:
            return -1
        i = skip_blanks(data, i + 1, stop)


@kernel
def _read_position(data, i, stop, spans, counts):
    """Append longitude and latitude, without a third number after them; return the position after, -1 if it is odd."""
    if i >= stop or data[i] != _OPEN_LIST:
        return -1
    for number in range(3):
        i = skip_blanks(data, i + 1, stop)
        if i >= stop or (data[i] != _MINUS and not 48 <= data[i] <= 57):
            return -1
        end, kind = number_end(data, i, stop)
        if kind != WHOLE and kind != REAL:
            return -1
        if number < 2:
            spans[2 * counts[2] + number, 0], spans[2 * counts[2] + number, 1] = i, end
        i = skip_blanks(data, end, stop)
        if i >= stop:
            return -1
        if data[i] == _CLOSE_LIST and number > 0:
            counts[2] += 1
            return i + 1
        if data[i] != _COMMA:
            return -1
    return -1
