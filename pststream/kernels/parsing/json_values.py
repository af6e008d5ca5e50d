"""Read numbers, texts and polygons from the JSON values that `scan_lines` found, and write other members as JSON."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.parsing.json_lines import (
    ESCAPED,
    OBJECT,
    REAL,
    TEXT,
    WHOLE,
    field_of_key,
    key_end,
    number_end,
    read_escape,
    same_bytes,
    skip_blanks,
    text_end,
)

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO = 34, 92, 44, 58, 45, 46, 48
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 91, 93, 123, 125
_MOST_EXACT_DIGITS = 15


@kernel
def find_values(places, kinds, spans):
    """Return the kinds int16[n] and slices (int64[n] each) of the values of one field; 0 and empty where it is absent.

    places      int32[n]            the member of the field in each line, -1 where it has none
    kinds, spans                    of `scan_lines`
    """
    kinds_of_values = np.zeros(len(places), np.int16)
    starts, stops = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    for row in range(len(places)):
        member = places[row]
        if member >= 0:
            kinds_of_values[row], starts[row], stops[row] = kinds[member], spans[member, 2], spans[member, 3]
    return kinds_of_values, starts, stops


@kernel
def _write_code(code, out, position):
    """Write a code point as UTF-8; return the position after it."""
    if code < 0x80:
        out[position] = code
        return position + 1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for j in range(size - 1, 0, -1):
        out[position + j] = 0x80 | (code & 0x3F)
        code >>= 6
    out[position] = (0xF00 >> size) & 0xFF | code
    return position + size


@kernel
def gather_texts(data, starts, stops, kinds):
    """Copy slices of data: offsets int32[n+1] and bytes uint8, the buffers of an Arrow column of texts.

    `starts`, `stops` int64[n]; `kinds` int16[n]: the escapes of ESCAPED slices are resolved.
    """
    total = 0
    for row in range(len(starts)):
        total += stops[row] - starts[row]
    # No escape is shorter than the character that it stands for.
    out, offsets = np.empty(total, np.uint8), np.empty(len(starts) + 1, np.int32)
    position = 0
    for row in range(len(starts)):
        offsets[row] = position
        if kinds[row] == ESCAPED:
            i = starts[row]
            while i < stops[row]:
                if data[i] == _BACKSLASH:
                    code, i = read_escape(data, i, stops[row])
                    position = _write_code(code, out, position)
                else:
                    out[position] = data[i]
                    i, position = i + 1, position + 1
        else:
            # Unsigned positions, for which no negative index is checked, make the copy a vector operation.
            source, target, size = np.uint64(starts[row]), np.uint64(position), stops[row] - starts[row]
            for j in range(np.uint64(size)):
                out[target + j] = data[source + j]
            position += size
    offsets[len(starts)] = position
    return offsets, out[:position]


@kernel
def find_list_numbers(data, starts, stops, width):
    """Find the numbers of flat lists: spans int64[n,width,2], and bool[n]: whether a value is a list of just so many.

    `starts`, `stops` int64[n] are slices of values that `scan_lines` found to be lists; -1: there is no value.
    """
    spans = np.zeros((len(starts), width, 2), np.int64)
    is_list = np.zeros(len(starts), np.bool_)
    for row in range(len(starts)):
        if starts[row] < 0:
            continue
        position = starts[row] + 1
        for number in range(width):
            position = skip_blanks(data, position, stops[row])
            byte = data[position]
            if byte != _MINUS and not 48 <= byte <= 57:
                break
            end, _ = number_end(data, position, stops[row])
            spans[row, number, 0], spans[row, number, 1] = position, end
            position = skip_blanks(data, end, stops[row])
            if data[position] != (_CLOSE_LIST if number == width - 1 else _COMMA):
                break
            if number == width - 1:
                is_list[row] = True
            position += 1
    return spans, is_list


@kernel
def find_object_numbers(data, starts, stops, names, name_offsets):
    """Find the numbers of flat objects: spans int64[n,names,2], and bool[n]: whether an object has just these members.

    `starts`, `stops` int64[n] are slices of values that `scan_lines` found to be objects; -1: there is no value.
    """
    width = len(name_offsets) - 1
    spans = np.full((len(starts), width, 2), -1, np.int64)
    is_object = np.zeros(len(starts), np.bool_)
    for row in range(len(starts)):
        if starts[row] < 0:
            continue
        position = starts[row]
        for number in range(width):
            key_stop, value = key_end(data, skip_blanks(data, position + 1, stops[row]), stops[row])
            if key_stop < 0 or (data[value] != _MINUS and not 48 <= data[value] <= 57):
                break
            key = skip_blanks(data, position + 1, stops[row]) + 1
            name = field_of_key(data, key, key_stop, names, name_offsets, number)
            end, _ = number_end(data, value, stops[row])
            if name < 0 or spans[row, name, 0] >= 0:
                break
            spans[row, name, 0], spans[row, name, 1] = value, end
            position = skip_blanks(data, end, stops[row])
            if data[position] != (_CLOSE if number == width - 1 else _COMMA):
                break
            is_object[row] = number == width - 1
    return spans, is_object


@kernel
def write_others(data, firsts, lasts, kinds, spans, is_other):
    """Write the members that are not of fields as JSON objects, as Python's `json` does with its usual separators.

    firsts, lasts      int64[n]   slice of the members of each line
    kinds, spans                  of `scan_lines`
    is_other           bool[m]    whether a member is to be written
    Returns offsets int32[n+1], bytes uint8, bool[n]: whether a line has such members, and bool[n]: whether all of them
    can be written, which an object, and a number that Python writes in another form, cannot.
    """
    rows = len(firsts)
    size = 0
    for row in range(rows):
        for member in range(firsts[row], lasts[row]):
            if is_other[member]:
                size += spans[member, 1] - spans[member, 0] + 2 * (spans[member, 3] - spans[member, 2]) + 10
    out = np.empty(size, np.uint8)
    out_offsets = np.zeros(rows + 1, np.int32)
    has_others = np.zeros(rows, np.bool_)
    is_written = np.ones(rows, np.bool_)
    position = 0
    for row in range(rows):
        first = position
        for member in range(firsts[row], lasts[row]):
            if not is_other[member] or not is_written[row]:
                continue
            out[position] = _COMMA if has_others[row] else _OPEN
            position += 1
            if has_others[row]:
                out[position] = 32
                position += 1
            has_others[row] = True
            position = _write_member(data, kinds[member], spans[member], out, position)
            if position < 0:
                is_written[row] = False
                position = first
        if has_others[row] and is_written[row]:
            out[position] = _CLOSE
            position += 1
        out_offsets[row + 1] = position
    return out_offsets, out[:position].copy(), has_others, is_written


@kernel
def _write_member(data, kind, span, out, position):
    """Write `"key": value`; return the position after it, -1 if the value cannot be written."""
    out[position] = _QUOTE
    position += 1
    for i in range(span[0], span[1]):
        out[position] = data[i]
        position += 1
    out[position], out[position + 1], out[position + 2] = _QUOTE, _COLON, 32
    position += 3
    start, stop = (span[2] - 1, span[3] + 1) if kind == TEXT else (span[2], span[3])
    if kind == OBJECT:
        return -1
    while start < stop:
        byte = data[start]
        # Copy a text, a number or another byte; blanks stand after commas only.
        if byte == _QUOTE:
            end, _ = text_end(data, start + 1, stop)
            end += 1
        elif byte == _MINUS or 48 <= byte <= 57:
            end, number = number_end(data, start, stop)
            if number == REAL and not _is_shortest(data, start, end):
                return -1
        elif byte == _OPEN:
            return -1
        else:
            end = start + 1
            if byte == 32 or byte == 10 or byte == 13 or byte == 9:
                start = end
                continue
        for i in range(start, end):
            out[position] = data[i]
            position += 1
        if byte == _COMMA:
            out[position] = 32
            position += 1
        start = end
    return position


@kernel
def _is_shortest(data, start, end):
    """Return whether Python writes the float of a number with a decimal point as data[start:end] again.

    A number of up to 15 digits is the shortest of those that round to its float. It ends in no zero but that of x.0,
    and Python writes it without an exponent from 0.0001 on.
    """
    digits, leading, zeros = 0, True, 0
    point = end
    for i in range(start, end):
        if data[i] == _POINT:
            point = i
            continue
        if data[i] == _MINUS:
            continue
        leading = leading and data[i] == _ZERO
        if not leading:
            digits += 1
        elif point < end:
            zeros += 1
    if data[end - 1] == _ZERO and end - point > 2:
        return False
    return digits <= _MOST_EXACT_DIGITS and (zeros <= 3 or (leading and end - point == 2))


# Find the numbers of GeoJSON polygons; values that are not plain are left to a parser of single values.

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
    read           bool[n]               whether a value is plain: a `type` (Polygon or MultiPolygon) and `coordinates`,
                                         nothing else, and numbers without an exponent
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
