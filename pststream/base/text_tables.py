"""Format rows of texts as lines of a table with right-aligned columns, for a terminal."""

from collections.abc import Sequence


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with right-aligned columns; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
