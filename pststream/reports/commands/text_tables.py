"""Tables for a terminal."""

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose columns end flush; the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
