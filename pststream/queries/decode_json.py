"""Decode JSON that others wrote: lists and objects may be nested at most 32 levels deep.

Python's decoder gives up at a depth that depends on the version of Python, so the limit is tested before it begins.
"""

import json
import re
from typing import Any

import numpy as np

from pststream.base.names import MAX_JSON_LEVELS

_DECODER = json.JSONDecoder()
_ESCAPE = re.compile(r"\\.", re.DOTALL)


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
    excess, key = _find_excess(text)
    if excess < 0:
        return decoder.decode(text)
    begin = text[:excess]
    try:
        decoder.decode(begin)
    except json.JSONDecodeError as error:
        if error.pos < len(begin):
            raise
    raise NestedTooDeeply(str(_DECODER.decode(f'"{key}"')), excess + 1)


def _find_excess(text: str) -> tuple[int, str]:
    """Return the position of the first bracket beyond MAX_JSON_LEVELS, -1 without one, and the member that it is in.

    The member is the key in the outermost object, as it is written; empty if the outermost value is no object.
    """
    # One byte for each character, and two that are neither quotes nor brackets for each escape.
    plain = _ESCAPE.sub("__", text) if "\\" in text else text
    data = np.frombuffer(plain.encode("ascii", "replace"), np.uint8)
    folded = data | 32  # makes [ and { one, ] and } too
    marks = np.flatnonzero((folded == ord("{")) | (folded == ord("}")) | (data == ord('"')))
    quotes, opens = data[marks] == ord('"'), folded[marks] == ord("{")
    # A quote is where the number of quotes becomes odd inside a text, and even outside again.
    inside = np.cumsum(quotes) % 2 == 1
    levels = np.cumsum(np.where(inside | quotes, 0, np.where(opens, 1, -1)))
    beyond = np.flatnonzero(levels > MAX_JSON_LEVELS)
    if len(beyond) == 0:
        return -1, ""
    excess = beyond[0]
    in_object = data[marks[np.argmax(levels == 1)]] == ord("{")
    # The last two quotes in the outermost object are those of the key.
    around = marks[:excess][quotes[:excess] & (levels[:excess] == 1)][-2:]
    key = text[around[0] + 1 : around[1]] if in_object and len(around) else ""
    return int(marks[excess]), key
