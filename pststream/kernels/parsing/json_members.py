"""Find the members of JSON objects, one object a line, in bytes.

Only plain lines are read: an object whose texts have no escape, whose numbers have no exponent, and that names no
member twice. All other lines, valid or not, are left to a parser of single lines.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.names import MAX_JSON_LEVELS

TEXT, WHOLE, REAL, NULL, BOOLEAN, LIST, OBJECT = 1, 2, 3, 4, 5, 6, 7
"""What the value of a member is: a text, a number without or with a decimal point, null, true or false ..."""

_QUOTE, _COMMA, _COLON, _MINUS, _POINT, _ZERO = 34, 44, 58, 45, 46, 48
_BACKSLASH, _OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 92, 91, 93, 123, 125
_MOST_UNKNOWN = 32
_LONGEST_NUMBER = 40

_NULL = np.frombuffer(b"null", np.uint8)
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)


@kernel
def find_lines(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return number (from 1), start and stop of each line of data that is not blank: int64[lines] each.

    `data` uint8[bytes] has lines that end in a line feed, the last one perhaps not.
    """
    size = 1
    for i in range(len(data)):
        size += data[i] == 10
    numbers, starts, stops = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    lines, number, start = 0, 0, 0
    blank = True
    for i in range(len(data) + 1):
        if i == len(data) or data[i] == 10:
            number += 1
            if not blank:
                numbers[lines], starts[lines], stops[lines] = number, start, i
                lines += 1
            start, blank = i + 1, True
        elif data[i] != 32 and (data[i] < 9 or data[i] > 13):
            blank = False
    return numbers[:lines], starts[:lines], stops[:lines]


@kernel
def skip_blanks(data, position, stop):
    """Return the first position that has no space, tab or line end."""
    while position < stop and (
        data[position] == 32 or data[position] == 10 or data[position] == 13 or data[position] == 9
    ):
        position += 1
    return position


@kernel
def text_end(data, position, stop):
    """Return the position of the quote that ends the text at `position`; -1 if it has an escape or does not end."""
    while position < stop and data[position] != _QUOTE:
        if data[position] == _BACKSLASH or data[position] < 32:
            return -1
        position += 1
    return position if position < stop else -1


@kernel
def number_end(data, position, stop):
    """Return the position after the number at `position` and its kind; -1 if it is none, or not plain.

    A plain number has no exponent and few digits, and is not the whole number -0: its text is its value exactly.
    """
    start = position
    if data[position] == _MINUS:
        position += 1
    first = position
    while position < stop and 48 <= data[position] <= 57:
        position += 1
    digits = position - first
    if digits == 0 or (digits > 1 and data[first] == _ZERO):
        return -1, 0
    kind = WHOLE
    if position < stop and data[position] == _POINT:
        kind = REAL
        position += 1
        first_after = position
        while position < stop and 48 <= data[position] <= 57:
            position += 1
        if position == first_after:
            return -1, 0
    elif first > start and data[first] == _ZERO:
        return -1, 0
    if position < stop and (data[position] == 69 or data[position] == 101):
        return -1, 0
    return (position, kind) if position - start <= _LONGEST_NUMBER else (-1, 0)


@kernel
def _has_word(data, position, stop, word):
    if position + len(word) > stop:
        return False
    for i in range(len(word)):
        if data[position + i] != word[i]:
            return False
    return True


@kernel
def _scalar_end(data, position, stop):
    """Return the position after the text, number or word at `position` and its kind; -1 if it is none, or not plain."""
    byte = data[position]
    if byte == _QUOTE:
        end = text_end(data, position + 1, stop)
        return (end + 1, TEXT) if end >= 0 else (-1, 0)
    if byte == _MINUS or 48 <= byte <= 57:
        return number_end(data, position, stop)
    if _has_word(data, position, stop, _NULL):
        return position + 4, NULL
    if _has_word(data, position, stop, _TRUE):
        return position + 4, BOOLEAN
    if _has_word(data, position, stop, _FALSE):
        return position + 5, BOOLEAN
    return -1, 0


@kernel
def key_end(data, position, stop):
    """Return the end of the key whose quote is at `position`, and the position after the colon; -1 if it is none."""
    if position >= stop or data[position] != _QUOTE:
        return -1, -1
    end = text_end(data, position + 1, stop)
    if end < 0:
        return -1, -1
    position = skip_blanks(data, end + 1, stop)
    if position >= stop or data[position] != _COLON:
        return -1, -1
    return end, skip_blanks(data, position + 1, stop)


@kernel
def _nested_end(data, position, stop):
    """Return the position after the list or object at `position`; -1 if it is not valid, not plain or too deep."""
    # One bit for each open list (0) or object (1), the innermost last; `opened`: nothing is in it yet.
    stack, depth = np.int64(0), 0
    opened, after = False, False
    while position < stop:
        byte = data[position]
        if byte == 32 or byte == 10 or byte == 13 or byte == 9:
            position += 1
            continue
        # The innermost ends, or another part of it follows.
        if depth and (after or opened) and byte == (_CLOSE if stack & 1 else _CLOSE_LIST):
            stack >>= 1
            depth -= 1
            position += 1
            if depth == 0:
                return position
            opened, after = False, True
            continue
        if after:
            if byte != _COMMA:
                return -1
            position = skip_blanks(data, position + 1, stop)
            after = False
        if depth and stack & 1:
            _, position = key_end(data, position, stop)
            if position < 0:
                return -1
        if position >= stop:
            return -1
        # A value follows: a list or object is opened, anything else is skipped.
        byte = data[position]
        if byte == _OPEN or byte == _OPEN_LIST:
            if depth == MAX_JSON_LEVELS - 1:  # the object of the line is a level too
                return -1
            stack = (stack << 1) | (byte == _OPEN)
            depth += 1
            opened = True
            position += 1
        else:
            position, _ = _scalar_end(data, position, stop)
            if position < 0:
                return -1
            opened, after = False, True
    return -1


@kernel
def same_bytes(data, start, stop, other, other_start, other_stop):
    """Return whether data[start:stop] equals other[other_start:other_stop]."""
    if stop - start != other_stop - other_start:
        return False
    for i in range(stop - start):
        if data[start + i] != other[other_start + i]:
            return False
    return True


@kernel
def field_of_key(data, start, stop, names, name_offsets):
    """Return the number of the name that equals data[start:stop], -1 if none does."""
    for field in range(len(name_offsets) - 1):
        if same_bytes(data, start, stop, names, name_offsets[field], name_offsets[field + 1]):
            return field
    return -1


@kernel
def _has_bytes_above(data, start, stop, most):
    for i in range(start, stop):
        if data[i] > most:
            return True
    return False


@kernel
def scan_lines(data, starts, stops, names, name_offsets, most_byte, most_members):
    """Find the members of each line: (plain, places, offsets, fields, kinds, spans).

    data                 uint8[bytes]     UTF-8
    starts, stops        int64[n]         slice of `data` of each line
    names, name_offsets                   names of the fields as UTF-8 bytes and offsets int64[fields+1]
    most_byte            int              lines with a greater byte are not plain
    most_members         int              a bound on the number of members
    plain                bool[n]          whether the line is plain; a line that is not has no members here
    places               int32[n,fields]  the member of each field, -1 where the line has none
    offsets              int64[n+1]       slice of the members of each line
    fields, kinds        int16[m]         field of each member, -1 if it is none; what its value is
    spans                int64[m,4]       start and stop of key and value, both without quotes
    """
    rows = len(starts)
    plain = np.zeros(rows, np.bool_)
    places = np.full((rows, len(name_offsets) - 1), -1, np.int32)
    offsets = np.zeros(rows + 1, np.int64)
    fields = np.empty(most_members, np.int16)
    kinds = np.empty(most_members, np.int16)
    spans = np.empty((most_members, 4), np.int64)
    members = 0
    for row in range(rows):
        first = members
        members = _scan_line(
            data, starts[row], stops[row], names, name_offsets, places[row], fields, kinds, spans, members
        )
        if members >= 0 and not (most_byte < 255 and _has_bytes_above(data, starts[row], stops[row], most_byte)):
            plain[row] = True
        else:
            members = first
            places[row, :] = -1
        offsets[row + 1] = members
    return plain, places, offsets, fields[:members].copy(), kinds[:members].copy(), spans[:members].copy()


@kernel
def _scan_line(data, start, stop, names, name_offsets, places, fields, kinds, spans, members):
    """Write the members of one line from number `members` on; return the number after the last, -1 if it is odd."""
    position = skip_blanks(data, start, stop)
    if position >= stop or data[position] != _OPEN:
        return -1
    position = skip_blanks(data, position + 1, stop)
    first, unknown = members, 0
    if position < stop and data[position] == _CLOSE:
        return members if skip_blanks(data, position + 1, stop) == stop else -1
    while True:
        # A key, which no other member of the line has.
        key_stop, value = key_end(data, position, stop)
        if value < 0 or value >= stop:
            return -1
        key = position + 1
        field = field_of_key(data, key, key_stop, names, name_offsets)
        if field >= 0:
            if places[field] >= 0:
                return -1
            places[field] = members
        else:
            unknown += 1
            if unknown > _MOST_UNKNOWN or _is_repeated(data, key, key_stop, fields, spans, first, members):
                return -1
        # Its value.
        if data[value] == _OPEN or data[value] == _OPEN_LIST:
            kind = LIST if data[value] == _OPEN_LIST else OBJECT
            end = _nested_end(data, value, stop)
        else:
            end, kind = _scalar_end(data, value, stop)
        if end < 0:
            return -1
        quote = 1 if kind == TEXT else 0
        fields[members], kinds[members] = field, kind
        spans[members, 0], spans[members, 1] = key, key_stop
        spans[members, 2], spans[members, 3] = value + quote, end - quote
        members += 1
        # A comma and another member, or the end of the object and of the line.
        position = skip_blanks(data, end, stop)
        if position < stop and data[position] == _CLOSE:
            return members if skip_blanks(data, position + 1, stop) == stop else -1
        if position >= stop or data[position] != _COMMA:
            return -1
        position = skip_blanks(data, position + 1, stop)


@kernel
def _is_repeated(data, key, key_stop, fields, spans, first, members):
    for other in range(first, members):
        if fields[other] < 0 and same_bytes(data, key, key_stop, data, spans[other, 0], spans[other, 1]):
            return True
    return False
