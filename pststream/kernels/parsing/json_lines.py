"""Find the members of JSON objects, one object a line: the spans of keys and values, and what each value is.

Lines that are valid JSON are read except for rare forms; all other lines, valid or not, are marked as odd and left to a
parser of single lines, which decides. So a rare form costs time, but never changes what a line means.
"""

from typing import NamedTuple

import numpy as np

from pststream.base.names import MAX_JSON_LEVELS
from pststream.kernels.compile import inlined, kernel

TEXT, WHOLE, REAL, NULL, BOOLEAN, LIST, OBJECT, ESCAPED, RARE = 1, 2, 3, 4, 5, 6, 7, 8, 9
"""What a value is: a text, a number without or with a decimal point, null, true or false, a list, an object; ESCAPED is
a text with escapes. RARE values are valid and not copied: numbers that Python writes in another form (1e5, -0), and
lists and objects that contain a RARE or an ESCAPED value."""

_ODD = 0
_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO = 34, 92, 44, 58, 45, 46, 48
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE, _LINE_FEED = 91, 93, 123, 125, 10
_MOST_UNKNOWN = 32
_LONGEST_NUMBER = 40
_HALF = np.array([0xD800, 0xDC00, 0xE000], np.int64)


@inlined
def skip_blanks(data, i, stop):
    """Return the first position that has no space, tab or carriage return; a line feed ends the line."""
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
def read_escape(data, i, stop):
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
def text_end(data, i, stop):
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
            code, i = read_escape(data, i, stop)
            if code < 0:
                return i, _ODD
            kind = ESCAPED
        else:
            return i, _ODD
    return i, _ODD


@kernel
def number_end(data, i, stop):
    """Return the position after the number at `i`, and WHOLE, REAL, RARE or _ODD.

    The text of a WHOLE or REAL number is its value exactly. A very long number is odd, since Python refuses whole
    numbers of thousands of digits.
    """
    start = i
    i += data[i] == _MINUS
    first = i
    while i < stop and 48 <= data[i] <= 57:
        i += 1
    if i == first or (i - first > 1 and data[first] == _ZERO):
        return i, _ODD
    kind = WHOLE
    if i < stop and data[i] == _POINT:
        kind = REAL
        i += 1
        first = i
        while i < stop and 48 <= data[i] <= 57:
            i += 1
        if i == first:
            return i, _ODD
    elif first > start and data[first] == _ZERO:
        kind = RARE  # Python reads -0 as 0
    if i < stop and (data[i] | 32) == 101:
        kind = RARE
        i += 1
        if i < stop and (data[i] == 43 or data[i] == _MINUS):
            i += 1
        first = i
        while i < stop and 48 <= data[i] <= 57:
            i += 1
        if i == first:
            return i, _ODD
    return i, (kind if i - start <= _LONGEST_NUMBER else _ODD)


@inlined
def _is_below(data, i, stop, kind, limit):
    """Return whether the whole part of the number at `i` is below the limit; if that is 0, whether it is WHOLE."""
    whole = np.int64(0)
    i += data[i] == _MINUS
    # It ends at the limit, so the sum never overflows.
    while whole < limit and i < stop and data[i] != _POINT:
        whole = whole * 10 + np.int64(data[i]) - 48
        i += 1
    return whole < limit or (limit == 0 and kind == WHOLE)


@kernel
def _word_end(data, i, stop):
    """Return the position after null, true or false at `i`, and NULL, BOOLEAN or _ODD."""
    if i + 4 <= stop and data[i] == 110 and data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108:
        return i + 4, NULL
    if i + 4 <= stop and data[i] == 116 and data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101:
        return i + 4, BOOLEAN
    if i + 5 <= stop and data[i] == 102 and data[i + 1] == 97 and data[i + 2] == 108:
        if data[i + 3] == 115 and data[i + 4] == 101:
            return i + 5, BOOLEAN
    return i, _ODD


@inlined
def _scalar_end(data, i, stop):
    """Return the position after the text, number or word at `i`, and its kind; see the functions of each."""
    if i >= stop:
        return i, _ODD
    if data[i] == _QUOTE:
        end, kind = text_end(data, i + 1, stop)
        return end + 1, kind
    if data[i] == _MINUS or 48 <= data[i] <= 57:
        return number_end(data, i, stop)
    return _word_end(data, i, stop)


@inlined
def key_end(data, i, stop):
    """Return the end of the key at `i` and the position of its value; -1 if it is no key or has an escape."""
    if i >= stop or data[i] != _QUOTE:
        return -1, i
    end, kind = text_end(data, i + 1, stop)
    i = skip_blanks(data, end + 1, stop)
    if kind != TEXT or i >= stop or data[i] != _COLON:
        return -1, i
    return end, skip_blanks(data, i + 1, stop)


@kernel
def _nested_end(data, i, stop):
    """Return the position after the list or object at `i`, and LIST, OBJECT, RARE or _ODD."""
    nested = OBJECT if data[i] == _OPEN else LIST
    # One bit for each open list (0) or object (1), the innermost last.
    stack, depth = np.int64(0), 0
    while i < stop:
        if data[i] == _OPEN or data[i] == _OPEN_LIST:
            if depth == MAX_JSON_LEVELS - 1:  # the object of the line is a level too
                return i, _ODD
            stack, depth = (stack << 1) | np.int64(data[i] == _OPEN), depth + 1
            i = skip_blanks(data, i + 1, stop)
            more = not (i < stop and data[i] == (_CLOSE if stack & 1 else _CLOSE_LIST))
        else:
            i, kind = _scalar_end(data, i, stop)
            if kind == _ODD:
                return i, _ODD
            if kind >= ESCAPED:
                nested = RARE
            i = skip_blanks(data, i, stop)
            more = i < stop and data[i] == _COMMA
            i = skip_blanks(data, i + 1, stop) if more else i
        # Close what ends here; a comma after it continues what is around it.
        while not more:
            if i >= stop or data[i] != (_CLOSE if stack & 1 else _CLOSE_LIST):
                return i, _ODD
            stack, depth, i = stack >> 1, depth - 1, i + 1
            if depth == 0:
                return i, nested
            i = skip_blanks(data, i, stop)
            more = i < stop and data[i] == _COMMA
            i = skip_blanks(data, i + 1, stop) if more else i
        if stack & 1:
            key, i = key_end(data, i, stop)
            if key < 0:
                return i, _ODD
    return i, _ODD


@inlined
def same_bytes(data, start, stop, other, other_start, other_stop):
    """Return whether data[start:stop] equals other[other_start:other_stop]."""
    same = stop - start == other_stop - other_start
    j = 0
    while same and j < stop - start:
        same = data[start + j] == other[other_start + j]
        j += 1
    return same


@inlined
def field_of_key(data, start, stop, names, name_offsets, guess):
    """Return the number of the name that equals data[start:stop], -1 if none does.

    `guess` is tried first: most lines name their members in the order of the line before.
    """
    width = len(name_offsets) - 1
    match = -1
    for number in range(width):
        field = (guess + number) % width
        if same_bytes(data, start, stop, names, name_offsets[field], name_offsets[field + 1]):
            match = field
            break
    return match


@kernel
def _is_repeated(data, start, stop, fields, spans, first, members):
    """Return whether a member from number `first` on, of no field, has the key data[start:stop]."""
    for other in range(first, members):
        if fields[other] < 0 and same_bytes(data, start, stop, data, spans[other, 0], spans[other, 1]):
            return True
    return False


class WantedFields(NamedTuple):
    """The fields to find in lines, w of them.

    names         uint8[]     their names as UTF-8
    name_offsets  int64[w+1]  slice of `names` of each
    limits        int64[l]    unless `every`, of the first l fields: a number of the field is odd unless it is below the
                              limit; 0: unless it is whole. Neither BOOLEAN, LIST, OBJECT nor RARE values are found
                              of these fields
    every         bool        find all members, and no ESCAPED or RARE values: lines with one are odd
    others        bool        find members of no field too; if neither, find those of fields
    """

    names: np.ndarray
    name_offsets: np.ndarray
    limits: np.ndarray
    every: bool
    others: bool


class FoundMembers(NamedTuple):
    """Room for what is found in up to r lines with up to m members.

    lines         int64[r,2]  slice of the data of each line that is not blank
    numbers       int64[r]    number of line feeds before each of them
    plain         bool[r]     whether the line is read; a line that is odd has no members here
    places        int32[r,w]  the member of each field, -1 where the line has none
    offsets       int64[r+1]  slice of the members of each line
    fields, kinds  int16[m]   field of each member, -1 if it is none; what its value is
    spans         int64[m,4]  start and stop of key and value, both without quotes
    """

    lines: np.ndarray
    numbers: np.ndarray
    plain: np.ndarray
    places: np.ndarray
    offsets: np.ndarray
    fields: np.ndarray
    kinds: np.ndarray
    spans: np.ndarray


@kernel
def _scan_line(data, i, stop, wanted, row, out, members):
    """Write the members of the line at `i`, which ends before `stop`, from number `members` on.

    Returns the end of the line, -1 if it is odd, and the number after the last member. No part of a plain line has a
    line feed.
    """
    names, name_offsets, limits, every, others = wanted
    places, fields, kinds, spans = out.places, out.fields, out.kinds, out.spans
    i = skip_blanks(data, i, stop)
    if i >= stop or data[i] != _OPEN:
        return -1, members
    i = skip_blanks(data, i + 1, stop)
    first, unknown, field = members, 0, -1
    more = not (i < stop and data[i] == _CLOSE)
    while more:
        # A key. Of members with equal keys Python takes the last; such lines are odd where it matters.
        key = i + 1
        key_stop, i = key_end(data, i, stop)
        if key_stop < 0 or i >= stop:
            return -1, members
        field = field_of_key(data, key, key_stop, names, name_offsets, field + 1)
        if field >= 0:
            if places[row, field] >= 0:
                return -1, members
        elif every or others:
            # Each key is compared with all before it, so many of them would take long.
            unknown += 1
            if unknown > _MOST_UNKNOWN or _is_repeated(data, key, key_stop, fields, spans, first, members):
                return -1, members
        # Its value.
        value = i
        if data[i] == _OPEN or data[i] == _OPEN_LIST:
            i, kind = _nested_end(data, i, stop)
        else:
            i, kind = _scalar_end(data, i, stop)
        if kind == _ODD:
            return -1, members
        if every:
            if kind >= ESCAPED:
                return -1, members
        elif 0 <= field < len(limits):
            if kind == WHOLE or kind == REAL:
                if not _is_below(data, value, i, kind, limits[field]):
                    return -1, members
            elif kind != TEXT and kind != ESCAPED and kind != NULL:
                return -1, members
        if every or others or field >= 0:
            if field >= 0:
                places[row, field] = members
            quote = 1 if kind == TEXT or kind == ESCAPED else 0
            fields[members], kinds[members] = field, kind
            spans[members, 0], spans[members, 1] = key, key_stop
            spans[members, 2], spans[members, 3] = value + quote, i - quote
            members += 1
        # A comma and another member, or the end of the object and of the line.
        i = skip_blanks(data, i, stop)
        more = i < stop and data[i] == _COMMA
        if more:
            i = skip_blanks(data, i + 1, stop)
        elif i >= stop or data[i] != _CLOSE:
            return -1, members
    i = skip_blanks(data, i + 1, stop)
    return (i if i == stop or data[i] == _LINE_FEED else -1), members


@kernel
def _is_ascii(data, i):
    while i < len(data) and data[i] != _LINE_FEED:
        if data[i] > 127:
            return False
        i += 1
    return True


@kernel
def scan_lines(data, start, utf8, wanted, out):
    """Find the members of the lines of data[start:], as many as there is room for.

    data    uint8[bytes]   lines, each but the last with a line feed
    utf8    bool           the data is UTF-8; if it is not, lines with other bytes than ASCII are odd
    wanted  WantedFields
    out     FoundMembers
    Returns the number of lines, the number of line feeds, and the position after the last line.
    """
    lines, numbers, plain, places, offsets = out.lines, out.numbers, out.plain, out.places, out.offsets
    count, feeds, members = 0, 0, 0
    offsets[0] = 0
    # One pass finds members and line ends: a plain line ends where its object ends.
    while count < len(lines) and start < len(data):
        i = start
        while i < len(data) and (data[i] == 32 or 9 <= data[i] <= 13) and data[i] != _LINE_FEED:
            i += 1
        stop = i
        if i < len(data) and data[i] != _LINE_FEED:
            places[count] = -1
            stop, after = -1, members
            if utf8 or _is_ascii(data, i):
                stop, after = _scan_line(data, start, len(data), wanted, count, out, members)
            plain[count] = stop >= 0
            if stop < 0:
                places[count] = -1
                after, stop = members, i
                while stop < len(data) and data[stop] != _LINE_FEED:
                    stop += 1
            lines[count, 0], lines[count, 1], numbers[count] = start, stop, feeds
            members = after
            count += 1
            offsets[count] = members
        feeds += stop < len(data)
        start = stop + 1
    return count, feeds, start
