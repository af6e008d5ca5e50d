"""Replace the characters of UTF-8 texts by a table from code points to bytes."""

import numpy as np

from pststream.kernels.compile import kernel

CODE_POINTS = 0x110000
ENTRY_BYTES = 8
UNKNOWN, NOT_ALONE = 0, 255
"""First byte of an entry: not filled yet; the character depends on its neighbours. Else 1 + the number of bytes."""


@kernel
def _code_point(data, i):
    """Return the code point of the character at `i`, which is not ASCII, and the position after it."""
    byte = np.int64(data[i])
    if byte < 0xE0:
        return (byte & 0x1F) << 6 | (np.int64(data[i + 1]) & 0x3F), i + 2
    middle = (np.int64(data[i + 1]) & 0x3F) << 6 | (np.int64(data[i + 2]) & 0x3F)
    if byte < 0xF0:
        return (byte & 0x0F) << 12 | middle, i + 3
    return (byte & 0x07) << 18 | middle << 6 | (np.int64(data[i + 3]) & 0x3F), i + 4


@kernel
def find_unknown(data, offsets, table):
    """Return the distinct code points beyond ASCII of the texts whose entry of the table is not filled: int64[n].

    data     uint8[bytes]                      UTF-8
    offsets  int64[n+1]                        slice of `data` of each text
    table    uint8[CODE_POINTS, ENTRY_BYTES]   bytes of each code point; see UNKNOWN
    """
    unknown = [np.int64(0) for _ in range(0)]
    seen = np.zeros(CODE_POINTS, np.bool_)
    i = offsets[0]
    while i < offsets[-1]:
        if data[i] < 128:
            i += 1
            continue
        code, i = _code_point(data, i)
        if table[code, 0] == UNKNOWN and not seen[code]:
            seen[code] = True
            unknown.append(code)
    return np.array(unknown, np.int64)


@kernel
def replace_characters(data, offsets, table):
    """Replace each character beyond ASCII by the bytes of its entry; all entries are filled.

    data, offsets, table: as in `find_unknown`. Returns offsets int64[n+1] and bytes uint8 of the new texts, and whether
    each is done, bool[n]. A text with a character that is NOT_ALONE is not done, and empty.
    """
    out = np.empty((offsets[-1] - offsets[0]) * ENTRY_BYTES // 2, np.uint8)
    new_offsets, done = np.zeros(len(offsets), np.int64), np.ones(len(offsets) - 1, np.bool_)
    position = 0
    for row in range(len(done)):
        i = offsets[row]
        while i < offsets[row + 1] and done[row]:
            if data[i] < 128:
                out[position] = data[i]
                i, position = i + 1, position + 1
                continue
            code, i = _code_point(data, i)
            if table[code, 0] == NOT_ALONE:
                done[row] = False
                position = new_offsets[row]
                break
            for place in range(1, table[code, 0]):
                out[position] = table[code, place]
                position += 1
        new_offsets[row + 1] = position
    return new_offsets, out[:position].copy(), done
