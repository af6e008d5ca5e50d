"""Decode JSON that others wrote: lists and objects may be nested at most 32 levels deep.

Python's decoder gives up at a depth that depends on the version of Python, so the limit is tested before it begins.
"""

import json
from typing import Any

import numpy as np

from pststream.names import MAX_JSON_LEVELS

_DECODER = json.JSONDecoder()


class NestedTooDeeply(ValueError):
    """Lists and objects are nested too deeply; `field` is the member of the outermost object, empty without one."""

    def __init__(self, field: str, position: int) -> None:
        super().__init__(
            f"lists and objects are nested more than {MAX_JSON_LEVELS} levels deep, at character {position}"
        )
        self.field = field


def decode_json(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """Decode a JSON text.

    Raises json.JSONDecodeError, NestedTooDeeply (whichever fault comes first in the text), or ValueError for a whole
    number with too many digits. Each is a ValueError.
    """
    if text.count("[") + text.count("{") <= MAX_JSON_LEVELS:
        return decoder.decode(text)
    from pststream.kernels.parsing.json_nesting import find_excess  # loads numba, which most commands do without

    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    excess, start, stop = find_excess(data)
    if excess < 0:
        return decoder.decode(text)
    begin = data[:excess].tobytes().decode("utf-8", "surrogatepass")
    try:
        decoder.decode(begin)
    except json.JSONDecodeError as error:
        if error.pos < len(begin):
            raise
    raise NestedTooDeeply(_decode_key(data[max(start, 0) : max(stop, 0)].tobytes()), len(begin) + 1)


def _decode_key(key: bytes) -> str:
    return str(_DECODER.decode(f'"{key.decode("utf-8", "surrogatepass")}"'))
