"""CSV bytes to records and fields, by the rules of Python's `csv` module (RFC 4180, lenient about stray quotes)."""

import numpy as np

from pststream.kernels.compile import kernel

_COMMA = np.uint8(ord(","))
_QUOTE = np.uint8(ord('"'))
_LINE_FEED = np.uint8(ord("\n"))
_RETURN = np.uint8(ord("\r"))


@kernel
def _field_end(data: np.ndarray, at: int, stop: int) -> int:
    """Place of the comma or line end that ends the field at `at`, `stop` if the data ends, -1 if inside quotes."""
    if at < stop and data[at] == _QUOTE:
        at += 1
        while True:
            while at < stop and data[at] != _QUOTE:
                at += 1
            if at >= stop:
                return -1
            if at + 1 < stop and data[at + 1] == _QUOTE:
                at += 2
                continue
            at += 1
            break
    while at < stop and data[at] != _COMMA and data[at] != _LINE_FEED and data[at] != _RETURN:
        at += 1
    return at


@kernel
def _line_end_size(data: np.ndarray, at: int, stop: int, last: bool) -> int:
    """Bytes of the line end at `at`: \\n, \\r\\n or \\r; 0 at the end of all data; -1 if more data must tell."""
    if at >= stop:
        return 0 if last else -1
    if data[at] == _LINE_FEED:
        return 1
    if at + 1 >= stop:
        return 1 if last else -1
    return 2 if data[at + 1] == _LINE_FEED else 1


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
    """Find the records that are complete in data[start:], as many as the arrays hold; blank lines are none.

    data      uint8[n]        bytes of a CSV file from the beginning of a record
    last      bool            no bytes follow: the end of the data ends a record
    slots     int64[columns]  column of `starts` and `ends` that takes a field, -1 if it is not wanted
    records   int64[r, 2]     out: first byte of each record and the byte after its last, without its line end
    fields    int64[r]        out: number of fields of each record
    starts    int64[r, w]     out: first byte of each wanted field, its quotes included; unset where it is missing
    ends      int64[r, w]     out: byte after the last
    Returns how many records, the byte where the next one begins, and whether that one lacks a closing quote.
    """
    stop = len(data)
    found = 0
    while found < len(records) and start < stop:
        at = start
        count = 0
        while True:
            end = _field_end(data, at, stop)
            if end < 0:
                return found, start, True
            if count < len(slots) and slots[count] >= 0:
                starts[found, slots[count]] = at
                ends[found, slots[count]] = end
            count += 1
            if end >= stop or data[end] != _COMMA:
                break
            at = end + 1
        size = _line_end_size(data, end, stop, last)
        if size < 0:
            return found, start, False
        if end > start:
            records[found, 0] = start
            records[found, 1] = end
            fields[found] = count
            found += 1
        start = end + size
    return found, start, False


@kernel
def _copy_quoted(data: np.ndarray, start: int, end: int, out: np.ndarray, at: int) -> int:
    """Write a field that begins with a quote, without its quotes; returns the place after it in `out`."""
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
        out[at] = byte
        at += 1
    return at


@kernel
def gather_fields(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of one column: offsets int32[n+1] and bytes uint8, quotes taken off.

    `starts` and `ends` int64[n] are those that `scan_records` found in `data`.
    """
    total = 0
    for i in range(len(starts)):
        total += ends[i] - starts[i]
    out = np.empty(total, np.uint8)
    offsets = np.empty(len(starts) + 1, np.int32)
    at = 0
    for i in range(len(starts)):
        offsets[i] = at
        if starts[i] < ends[i] and data[starts[i]] == _QUOTE:
            at = _copy_quoted(data, starts[i], ends[i], out, at)
        else:
            for j in range(starts[i], ends[i]):
                out[at] = data[j]
                at += 1
    offsets[len(starts)] = at
    return offsets, out[:at]
