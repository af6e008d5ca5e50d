"""Count the records of CSV and the lines of JSON Lines in a range of bytes, without reading their fields."""

import numpy as np

from pststream.kernels.compile import kernel

RECORD, FIELD, PLAIN, QUOTED, CLOSED = 0, 1, 2, 3, 4
"""Where a byte of CSV is: at the beginning of a record or field, in a field without quotes or after them, in quotes,
after a quote that closes them unless a second one follows."""

_COMMA, _QUOTE, _LINE_FEED, _RETURN = 44, 34, 10, 13


@kernel
def count_records(data: np.ndarray, state: int, size: int) -> tuple[int, int, int, int, int]:
    """Count the records that begin in data, as `csv_records.scan_records` finds them.

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
