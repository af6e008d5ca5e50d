"""What strangers write, on a terminal: what would move its cursor, write its clipboard or forge a line is shown."""


def plain(text: str) -> str:
    """The text on one line, what cannot be printed as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
