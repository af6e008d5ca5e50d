"""What strangers write, on a terminal: what would move its cursor, write its clipboard or forge a line is shown."""

import unicodedata

JOINER = "\u200d"
"""Parts of an emoji are joined by it."""


def plain(text: str) -> str:
    """The text on one line, what is no letter, mark, sign or blank as an escape."""
    return "".join(c if _harmless(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _harmless(c: str) -> bool:
    return c.isprintable() or c == JOINER or unicodedata.category(c) == "Zs"
