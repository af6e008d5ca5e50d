"""Replace the characters of UTF-8 texts by a table, and split texts into words and their term ids (word hashes)."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.sort_and_search import drop_repeats, sort_few


@kernel
def begins_visibly(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return whether each text begins with a visible ASCII character: bool[n].

    data uint8[bytes], offsets int64[n+1]: slice of `data` of each text
    """
    visible = np.zeros(len(offsets) - 1, np.bool_)
    for row in range(len(visible)):
        if offsets[row] < offsets[row + 1]:
            byte = data[offsets[row]]
            visible[row] = 32 < byte < 127
    return visible


# Replace the characters of UTF-8 texts by a table from code points to bytes.

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


# Split normalized UTF-8 texts into words.

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_33 = np.uint64(33)

_BYTES = np.arange(256, dtype=np.uint8)
_IS_UPPER = (_BYTES >= ord("A")) & (_BYTES <= ord("Z"))
_IS_LOWER = (_BYTES >= ord("a")) & (_BYTES <= ord("z"))
_IS_DIGIT = (_BYTES >= ord("0")) & (_BYTES <= ord("9"))

_IS_KEPT = _IS_LOWER | _IS_DIGIT | (_BYTES == ord("_")) | (_BYTES >= 128)

FOLDED = np.where(_IS_UPPER, _BYTES + 32, np.where(_IS_KEPT, _BYTES, 0)).astype(np.uint8)
"""uint8[256]: the byte that each byte becomes in a word; 0 separates words. Bytes of non-ASCII characters are kept."""

_FEW = 32


@kernel
def _mixed(hashed: np.uint64) -> np.int64:
    """Apply the fmix64 finalizer of MurmurHash3, so that every bit depends on every other."""
    hashed = (hashed ^ (hashed >> _33)) * _MIX_1
    hashed = (hashed ^ (hashed >> _33)) * _MIX_2
    return np.int64(hashed ^ (hashed >> _33))


@kernel
def hash_word(word: np.ndarray) -> np.int64:
    """Return the term id of a word: FNV-1a 64 over its bytes (uint8[n]), mixed; int64."""
    hashed = _FNV_OFFSET
    for i in range(len(word)):
        hashed = (hashed ^ np.uint64(word[i])) * _FNV_PRIME
    return _mixed(hashed)


@kernel
def hash_texts(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hash each whole text: int64[n]; `data` uint8[bytes], `offsets` int64[n+1]."""
    hashed = np.empty(len(offsets) - 1, np.int64)
    for row in range(len(hashed)):
        hashed[row] = hash_word(data[offsets[row] : offsets[row + 1]])
    return hashed


@kernel
def _distinct(ids: np.ndarray) -> int:
    """Sort in place, move the distinct ids to the front, and return their number; most texts are short."""
    if len(ids) > _FEW:
        ids.sort()
    else:
        sort_few(ids)
    return drop_repeats(ids)


@kernel
def ids_of_words(data: np.ndarray, start: int, stop: int, folded: np.ndarray, ids: np.ndarray, position: int) -> int:
    """Write the id of each word of data[start:stop] to ids[position:]; return the position after the last."""
    hashed = _FNV_OFFSET
    inside = False
    for i in range(start, stop):
        # Hash the bytes of a word one by one; a separator ends the word.
        byte = folded[data[i]]
        if byte != 0:
            hashed = (hashed ^ np.uint64(byte)) * _FNV_PRIME
            inside = True
        elif inside:
            ids[position] = _mixed(hashed)
            position += 1
            hashed = _FNV_OFFSET
            inside = False
    # The end of the text ends the last word.
    if inside:
        ids[position] = _mixed(hashed)
        position += 1
    return position


@kernel
def distinct_terms(data: np.ndarray, offsets: np.ndarray, folded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct term ids of each text, ascending.

    data     uint8[bytes]    UTF-8; a text with a non-ASCII character is given as its normalized words, with spaces
                             between them
    offsets  int64[n+1]      slice of `data` of each text
    folded   uint8[256]      FOLDED
    Returns term_offsets int32[n+1], ids int64[m].
    """
    rows = len(offsets) - 1
    # A text of n bytes has (n + 1) / 2 words at most.
    ids = np.empty((offsets[rows] - offsets[0] + rows) // 2 + 1, np.int64)
    term_offsets = np.empty(rows + 1, np.int32)
    position = 0
    for row in range(rows):
        # Hash the words of the text, then keep each id once.
        term_offsets[row] = position
        end = ids_of_words(data, offsets[row], offsets[row + 1], folded, ids, position)
        position += _distinct(ids[position:end])
    term_offsets[rows] = position
    return term_offsets, ids[:position].copy()
