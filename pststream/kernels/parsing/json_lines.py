"""Find the wanted members of JSON objects, one object a line, and copy out the texts of one member of all lines.

Lines that are valid JSON are read except for rare forms; all other lines, valid or not, are marked as odd and left to a
parser of single lines.
"""

import numpy as np

from pststream.kernels.compile import inlined, kernel
from pststream.names import MAX_JSON_LEVELS

ABSENT, TEXT, ESCAPED, NUMBER = 0, 1, 2, 3
"""What the value of a wanted member is: absent or null, a text without or with escapes, a number."""

_ODD = -1
_SKIPPED = 4
_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO = 34, 92, 44, 58, 45, 46, 48
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE, _LINE_FEED = 91, 93, 123, 125, 10
_MOST_DIGITS = 18
_MOST_DECIMALS = 900
_HALF = np.array([0xD800, 0xDC00, 0xE000], np.int64)


@inlined
def _skip_blanks(data, i, stop):
    while i < stop and (data[i] == 32 or data[i] == 9 or data[i] == 13):
        i += 1
    return i


@kernel
def _hex(data, i, stop):
    """Return the number of the four hexadecimal digits at `i`, or -1."""
    if i + 4 > stop:
        return -1
    number = 0
    for j in range(i, i + 4):
        digit = np.int64(data[j]) - 48
        if digit > 9:
            digit = (np.int64(data[j]) | 32) - 87
            if digit < 10:
                return -1
        if digit < 0 or digit > 15:
            return -1
        number = number * 16 + digit
    return number


@kernel
def _escape(data, i, stop):
    """Return the code point of the escape whose backslash is at `i` and the position after it; -1 if it is none.

    Half of a surrogate pair is none.
    """
    if i + 1 >= stop:
        return -1, i
    byte = data[i + 1]
    if byte == _QUOTE or byte == _BACKSLASH or byte == 47:
        return np.int64(byte), i + 2
    for letter, meaning in ((98, 8), (102, 12), (110, 10), (114, 13), (116, 9)):
        if byte == letter:
            return meaning, i + 2
    code = _hex(data, i + 2, stop) if byte == 117 else -1
    if code < _HALF[0] or code >= _HALF[2]:
        return code, i + 6
    low = _hex(data, i + 8, stop) if i + 7 < stop and data[i + 6] == _BACKSLASH and data[i + 7] == 117 else -1
    if code >= _HALF[1] or low < _HALF[1] or low >= _HALF[2]:
        return -1, i
    return 0x10000 + ((code - _HALF[0]) << 10) + low - _HALF[1], i + 12


@kernel
def _text_end(data, i, stop):
    """Return the position of the quote that ends the text at `i`, and TEXT or ESCAPED; _ODD if it is not valid."""
    kind = TEXT
    while i < stop:
        # Unsigned positions, for which no negative index is checked.
        at, last = np.uint64(i), np.uint64(stop)
        while at < last and data[at] != _QUOTE and data[at] != _BACKSLASH and data[at] >= 32:
            at += np.uint64(1)
        i = np.int64(at)
        if i >= stop:
            break
        byte = data[i]
        if byte == _QUOTE:
            return i, kind
        if byte == _BACKSLASH:
            code, i = _escape(data, i, stop)
            if code < 0:
                return i, _ODD
            kind = ESCAPED
        else:
            return i, _ODD
    return i, _ODD


@kernel
def _number_end(data, i, stop, limit):
    """Return the position after the number at `i`, and NUMBER or _ODD.

    limit  a number with a decimal point is odd if its whole part is not below the limit; -1: it may be any, and have an
           exponent
    A number of many digits is odd, and with a limit a number of very many decimals and the whole number -0.
    """
    negative = data[i] == _MINUS
    i += negative
    first, whole = i, np.int64(0)
    while i < stop and 48 <= data[i] <= 57 and i - first <= _MOST_DIGITS:
        whole = whole * 10 + np.int64(data[i]) - 48
        i += 1
    digits = i - first
    if digits == 0 or digits > _MOST_DIGITS or (digits > 1 and data[first] == _ZERO):
        return i, _ODD
    real = i < stop and data[i] == _POINT
    if real:
        i += 1
        first = i
        while i < stop and 48 <= data[i] <= 57:
            i += 1
        if i == first or (limit >= 0 and i - first > _MOST_DECIMALS):
            return i, _ODD
    if i < stop and (data[i] | 32) == 101:
        i += 1
        if i < stop and (data[i] == 43 or data[i] == _MINUS):
            i += 1
        first = i
        while i < stop and 48 <= data[i] <= 57:
            i += 1
        if i == first or limit >= 0:
            return i, _ODD
    if limit >= 0 and ((whole >= limit and (real or limit > 0)) or (negative and whole == 0 and not real)):
        return i, _ODD
    return i, NUMBER


@kernel
def _word_end(data, i, stop):
    """Return the position after null, true or false at `i`, and ABSENT (null), _SKIPPED or _ODD."""
    if i + 4 <= stop and data[i] == 110 and data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108:
        return i + 4, ABSENT
    if i + 4 <= stop and data[i] == 116 and data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101:
        return i + 4, _SKIPPED
    if i + 5 <= stop and data[i] == 102 and data[i + 1] == 97 and data[i + 2] == 108:
        if data[i + 3] == 115 and data[i + 4] == 101:
            return i + 5, _SKIPPED
    return i, _ODD


@inlined
def _scalar_end(data, i, stop, limit):
    """Return the position after the text, number or word at `i`, and its kind; see the functions of each."""
    if i >= stop:
        return i, _ODD
    if data[i] == _QUOTE:
        end, kind = _text_end(data, i + 1, stop)
        return end + 1, kind
    if data[i] == _MINUS or 48 <= data[i] <= 57:
        return _number_end(data, i, stop, limit)
    return _word_end(data, i, stop)


@inlined
def _key_end(data, i, stop):
    """Return the end of the key at `i` and the position of its value; -1 if it is no key or has an escape."""
    if i >= stop or data[i] != _QUOTE:
        return -1, i
    end, kind = _text_end(data, i + 1, stop)
    i = _skip_blanks(data, end + 1, stop)
    if kind != TEXT or i >= stop or data[i] != _COLON:
        return -1, i
    return end, _skip_blanks(data, i + 1, stop)


@kernel
def _nested_end(data, i, stop):
    """Return the position after the list or object at `i`, -1 if it is odd."""
    # One bit for each open list (0) or object (1), the innermost last.
    stack, depth = np.int64(0), 0
    while i < stop:
        if data[i] == _OPEN or data[i] == _OPEN_LIST:
            if depth == MAX_JSON_LEVELS - 1:  # the object of the line is a level too
                return -1
            stack, depth = (stack << 1) | np.int64(data[i] == _OPEN), depth + 1
            i = _skip_blanks(data, i + 1, stop)
            more = not (i < stop and data[i] == (_CLOSE if stack & 1 else _CLOSE_LIST))
        else:
            i, kind = _scalar_end(data, i, stop, -1)
            if kind == _ODD:
                return -1
            i = _skip_blanks(data, i, stop)
            more = i < stop and data[i] == _COMMA
            i = _skip_blanks(data, i + 1, stop) if more else i
        # Close what ends here; a comma after it continues what is around it.
        while not more:
            if i >= stop or data[i] != (_CLOSE if stack & 1 else _CLOSE_LIST):
                return -1
            stack, depth, i = stack >> 1, depth - 1, i + 1
            if depth == 0:
                return i
            i = _skip_blanks(data, i, stop)
            more = i < stop and data[i] == _COMMA
            i = _skip_blanks(data, i + 1, stop) if more else i
        if stack & 1:
            key, i = _key_end(data, i, stop)
            if key < 0:
                return -1
    return -1


@inlined
def _field(data, start, stop, names, name_offsets, guess):
    """Return the number of the name that equals data[start:stop], -1 if none does; `guess` is tried first."""
    width = len(name_offsets) - 1
    for number in range(width):
        field = (guess + number) % width
        first = name_offsets[field]
        if name_offsets[field + 1] - first == stop - start:
            j = 0
            while j < stop - start and data[start + j] == names[first + j]:
                j += 1
            if j == stop - start:
                return field
    return -1


@kernel
def _scan_line(data, i, stop, names, name_offsets, limits, row, starts, ends, kinds):
    """Write the wanted members of the line at `i`, which ends before `stop`, to a row; the last of equal keys counts.

    Returns the end of the line, -1 if it is odd. No part of a plain line has a line feed.
    """
    if data[i] != _OPEN:
        return -1
    i = _skip_blanks(data, i + 1, stop)
    if i < stop and data[i] == _CLOSE:
        i = _skip_blanks(data, i + 1, stop)
        return i if i == stop or data[i] == _LINE_FEED else -1
    field = -1
    while True:
        key = i + 1
        key_stop, i = _key_end(data, i, stop)
        if key_stop < 0 or i >= stop:
            return -1
        field = _field(data, key, key_stop, names, name_offsets, field + 1)
        start = i
        if data[i] == _OPEN or data[i] == _OPEN_LIST:
            i = _nested_end(data, i, stop)
            if i < 0 or field >= 0:
                return -1
        else:
            i, kind = _scalar_end(data, i, stop, -1 if field < 0 else limits[field])
            if kind == _ODD or (field >= 0 and kind == _SKIPPED):
                return -1
            if field >= 0:
                quote = 0 if kind == NUMBER or kind == ABSENT else 1
                starts[row, field], ends[row, field], kinds[row, field] = start + quote, i - quote, kind
        i = _skip_blanks(data, i, stop)
        if i < stop and data[i] == _CLOSE:
            i = _skip_blanks(data, i + 1, stop)
            return i if i == stop or data[i] == _LINE_FEED else -1
        if i >= stop or data[i] != _COMMA:
            return -1
        i = _skip_blanks(data, i + 1, stop)


@kernel
def _is_ascii(data, i):
    while i < len(data) and data[i] != _LINE_FEED:
        if data[i] > 127:
            return False
        i += 1
    return True


@kernel
def scan_lines(data, start, utf8, names, name_offsets, limits, lines, numbers, plain, starts, ends, kinds):
    """Find the wanted members of the lines of data[start:], as many as the arrays have room for.

    data                 uint8[bytes]   lines, each but the last with a line feed
    utf8                 bool           the data is UTF-8; if it is not, lines with other bytes than ASCII are odd
    names, name_offsets                 names of the wanted members as UTF-8 bytes, and offsets int64[w+1]
    limits               int64[w]       a number with a decimal point is odd unless it is below the limit; 0: any is odd
    lines                int64[r,2]     out: slice of `data` of each line that is not blank
    numbers              int64[r]       out: number of line feeds before each of them in data[start:]
    plain                bool[r]        out: whether the line is read; it has no members here if not
    starts, ends         int64[r,w]     out: slice of `data` of each value, without quotes
    kinds                uint8[r,w]     out: ABSENT, TEXT, ESCAPED or NUMBER
    Returns the number of lines, the number of line feeds, and the position after the last line.
    """
    count, feeds = 0, 0
    while count < len(lines) and start < len(data):
        i = start
        while i < len(data) and (data[i] == 32 or 9 <= data[i] <= 13) and data[i] != _LINE_FEED:
            i += 1
        stop = i
        if i < len(data) and data[i] != _LINE_FEED:
            for field in range(len(limits)):
                kinds[count, field] = ABSENT
            stop = -1
            if i == start and (utf8 or _is_ascii(data, i)):
                stop = _scan_line(data, i, len(data), names, name_offsets, limits, count, starts, ends, kinds)
            plain[count] = stop >= 0
            if stop < 0:
                stop = i
                while stop < len(data) and data[stop] != _LINE_FEED:
                    stop += 1
            lines[count, 0], lines[count, 1], numbers[count] = start, stop, feeds
            count += 1
        feeds += stop < len(data)
        start = stop + 1
    return count, feeds, start


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
def gather_values(data, starts, ends, kinds):
    """Copy the values of one member, with their escapes resolved: offsets int32[n+1] and bytes uint8.

    `starts`, `ends` int64[n], `kinds` uint8[n] are those that `scan_lines` count in `data`; ABSENT values are empty.
    """
    total = 0
    for row in range(len(kinds)):
        if kinds[row] != ABSENT:
            total += ends[row] - starts[row]
    out, offsets = np.empty(total, np.uint8), np.empty(len(kinds) + 1, np.int32)
    position = 0
    for row in range(len(kinds)):
        offsets[row] = position
        if kinds[row] == ESCAPED:
            i = starts[row]
            while i < ends[row]:
                if data[i] == _BACKSLASH:
                    code, i = _escape(data, i, ends[row])
                    position = _write_code(code, out, position)
                else:
                    out[position] = data[i]
                    i, position = i + 1, position + 1
        elif kinds[row] != ABSENT:
            # Unsigned positions, for which no negative index is checked, make the copy a vector operation.
            source, target, size = np.uint64(starts[row]), np.uint64(position), ends[row] - starts[row]
            for j in range(np.uint64(size)):
                out[target + j] = data[source + j]
            position += size
    offsets[len(kinds)] = position
    return offsets, out[:position]
