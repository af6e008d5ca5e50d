"""Escape control characters in user text before it is printed to a terminal or a log.

They could move the cursor, write to the clipboard or forge a line.
"""

import unicodedata

JOINER = "\u200d"
"""Joins the parts of an emoji."""


def escape_controls(text: str) -> str:
    """Return the text on one line, with every character that is not printable and not a space as an escape."""
    return "".join(c if _is_harmless(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_harmless(c: str) -> bool:
    return c.isprintable() or c == JOINER or unicodedata.category(c) == "Zs"
