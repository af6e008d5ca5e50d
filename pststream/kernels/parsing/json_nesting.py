"""Find where lists and objects of a JSON text are nested too deeply, before anything decodes it."""

from pststream.kernels.compile import kernel
from pststream.names import MAX_JSON_LEVELS

_QUOTE, _BACKSLASH, _OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 34, 92, 91, 93, 123, 125


@kernel
def find_excess(data):
    """Return the position of the first bracket beyond MAX_JSON_LEVELS, -1 without one, and the member that it is in.

    data   uint8[bytes]: a JSON text in UTF-8, valid or not; brackets in texts do not count
    The member is that of the outermost object: start and stop of its key in `data`, without quotes; -1, -1 if the
    outermost value is no object.
    """
    depth, start, stop = 0, -1, -1
    in_object = False
    i = 0
    while i < len(data):
        byte = data[i]
        if byte == _QUOTE:
            first = i + 1
            i = first
            while i < len(data) and data[i] != _QUOTE:
                i += 2 if data[i] == _BACKSLASH else 1
            if depth == 1 and in_object:
                start, stop = first, min(i, len(data))
        elif byte == _OPEN or byte == _OPEN_LIST:
            if depth == MAX_JSON_LEVELS:
                return i, start, stop
            if depth == 0:
                in_object = byte == _OPEN
            depth += 1
        elif (byte == _CLOSE or byte == _CLOSE_LIST) and depth > 0:
            depth -= 1
        i += 1
    return -1, -1, -1
