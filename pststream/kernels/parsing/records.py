"""Find the records and fields in CSV bytes, as Python's `csv` module does; copy out a column; count records and lines.

The format is RFC 4180; stray quotes are accepted.
"""

import numpy as np

from pststream.kernels.compile import kernel

_COMMA = np.uint8(ord(","))
_QUOTE = np.uint8(ord('"'))
_LINE_FEED = np.uint8(ord("\n"))
_RETURN = np.uint8(ord("\r"))


@kernel
def _field_end(data: np.ndarray, position: int, stop: int) -> int:
    """Return the position after the field at `position`: a comma, a line end, `stop`, or -1 inside open quotes."""
    # Skip the quoted part, in which a doubled quote is a quote.
    if position < stop and data[position] == _QUOTE:
        position += 1
        while True:
            while position < stop and data[position] != _QUOTE:
                position += 1
            if position >= stop:
                return -1
            if position + 1 < stop and data[position + 1] == _QUOTE:
                position += 2
                continue
            position += 1
            break
    # The rest of the field ends at a comma or line end.
    while position < stop and data[position] != _COMMA and data[position] != _LINE_FEED and data[position] != _RETURN:
        position += 1
    return position


@kernel
def _line_end_size(data: np.ndarray, position: int, stop: int, last: bool) -> int:
    """Return the size of the line end (\\n, \\r\\n, \\r); 0 at the end of the data, -1 if more is needed."""
    if position >= stop:
        return 0 if last else -1
    if data[position] == _LINE_FEED:
        return 1
    if position + 1 >= stop:
        return 1 if last else -1
    return 2 if data[position + 1] == _LINE_FEED else 1


@kernel
def scan_records(
    data: np.ndarray,
    start: int,
    last: bool,
    slots: np.ndarray,
    records: np.ndarray,
    fields: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int, bool]:
    """Find the complete records in data[start:], as many as the arrays have room for; blank lines are skipped.

    data      uint8[n]        bytes of a CSV file from the beginning of a record
    last      bool            no bytes follow: the end of the data ends a record
    slots     int64[columns]  column of `starts` and `ends` that takes a field, -1 if it is not wanted
    records   int64[r, 2]     out: first byte of each record and the byte after its last, without its line end
    fields    int64[r]        out: number of fields of each record
    starts    int64[r, w]     out: first byte of each wanted field, its quotes included; unset where it is missing
    ends      int64[r, w]     out: byte after the last
    Returns the number of records, the byte where the next one begins, and whether the next record lacks a closing
    quote.
    """
    stop = len(data)
    complete = 0
    while complete < len(records) and start < stop:
        # Walk the fields of one record, and write the positions of the wanted ones.
        position = start
        count = 0
        while True:
            end = _field_end(data, position, stop)
            if end < 0:
                return complete, start, True
            if count < len(slots) and slots[count] >= 0:
                starts[complete, slots[count]] = position
                ends[complete, slots[count]] = end
            count += 1
            if end >= stop or data[end] != _COMMA:
                break
            position = end + 1
        # The record is complete if its line end is.
        size = _line_end_size(data, end, stop, last)
        if size < 0:
            return complete, start, False
        # A blank line is no record.
        if end > start:
            records[complete, 0] = start
            records[complete, 1] = end
            fields[complete] = count
            complete += 1
        start = end + size
    return complete, start, False


@kernel
def _copy(data: np.ndarray, start: int, size: int, out: np.ndarray, position: int) -> None:
    """Copy `size` bytes; unsigned positions, for which no negative index is checked, make this a vector operation."""
    source, target = np.uint64(start), np.uint64(position)
    for i in range(np.uint64(size)):
        out[target + i] = data[source + i]


@kernel
def _has_quote(data: np.ndarray, start: int, size: int) -> bool:
    source, quotes = np.uint64(start), np.uint8(0)
    for i in range(np.uint64(size)):
        quotes |= np.uint8(data[source + i] == _QUOTE)
    return bool(quotes)


@kernel
def _copy_quoted(data: np.ndarray, start: int, end: int, out: np.ndarray, position: int) -> int:
    """Write a field that begins with a quote, without its quotes; return the position after it in `out`."""
    # Most fields have no quotes but those around them.
    size = end - start - 2
    if data[end - 1] == _QUOTE and size >= 0 and not _has_quote(data, start + 1, size):
        _copy(data, start + 1, size, out, position)
        return position + size
    i = start + 1
    inside = True
    while i < end:
        byte = data[i]
        i += 1
        if inside and byte == _QUOTE:
            if i < end and data[i] == _QUOTE:
                i += 1
            else:
                inside = False
                continue
        out[position] = byte
        position += 1
    return position


@kernel
def gather_fields(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copy the values of one column without their quotes: offsets int32[n+1] and bytes uint8.

    `starts` and `ends` int64[n] are those that `scan_records` found in `data`.
    """
    total = 0
    for i in range(len(starts)):
        total += ends[i] - starts[i]
    out = np.empty(total, np.uint8)
    offsets = np.empty(len(starts) + 1, np.int32)
    position = 0
    for i in range(len(starts)):
        offsets[i] = position
        if starts[i] < ends[i] and data[starts[i]] == _QUOTE:
            position = _copy_quoted(data, starts[i], ends[i], out, position)
        else:
            _copy(data, starts[i], ends[i] - starts[i], out, position)
            position += ends[i] - starts[i]
    offsets[len(starts)] = position
    return offsets, out[:position]


# Count records of CSV and lines of JSON Lines without reading their fields.

RECORD, FIELD, PLAIN, QUOTED, CLOSED = 0, 1, 2, 3, 4
"""Where a byte of CSV is: at the beginning of a record or field, in a field without quotes or after them, in quotes,
after a quote that closes them unless a second one follows."""


@kernel
def count_records(data: np.ndarray, state: int, size: int) -> tuple[int, int, int, int, int]:
    """Count the records that begin in data, as `scan_records` finds them.

    data   uint8[n]  bytes of a CSV file
    state  where data[0] is: RECORD, FIELD, PLAIN, QUOTED, CLOSED
    size   bytes of the open record before data[0]
    Returns the number of records, the state and size at the end of the data, the size of the longest record, and the
    position after the first line end that is not in quotes (0 if data begins with a record, -1 if there is none).
    """
    records, longest = 0, 0
    first = 0 if state == RECORD else -1
    begin = -size
    i = 0
    while i < len(data):
        # In quotes and in a field without quotes, most bytes change nothing.
        if state == QUOTED:
            while i < len(data) and data[i] != _QUOTE:
                i += 1
            if i < len(data):
                state = CLOSED
                i += 1
            continue
        byte = data[i]
        if byte == _LINE_FEED or byte == _RETURN:
            longest = max(longest, i - begin)
            state = RECORD
            i += 1
            begin = i
            if first < 0:
                first = i
            continue
        if state == RECORD:
            records += 1
            begin = i
        if byte == _COMMA:
            state = FIELD
        elif byte == _QUOTE and state != PLAIN:
            state = QUOTED
        else:
            state = PLAIN
        i += 1
    return records, state, len(data) - begin, max(longest, len(data) - begin), first


@kernel
def count_lines(data: np.ndarray, size: int) -> tuple[int, int, int]:
    """Count the line feeds in data: their number, bytes after the last one, and the size of the longest line.

    data   uint8[n]
    size   bytes of the open line before data[0]
    """
    lines, longest = 0, 0
    begin = -size
    for i in range(len(data)):
        if data[i] == _LINE_FEED:
            lines += 1
            longest = max(longest, i - begin)
            begin = i + 1
    return lines, len(data) - begin, max(longest, len(data) - begin)
