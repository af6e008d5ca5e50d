"""Show the answer of one question as a table for a terminal or a log."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pststream.base.escape_text import escape_controls
from pststream.base.text_tables import table_lines
from pststream.base.utc_times import iso

_COLUMNS: dict[str, Callable[[Any], str]] = {
    "rank": str,
    "object_id": escape_controls,
    "term": escape_controls,
    "count": str,
    "ts": lambda value: iso(value) or "",
    "distance_m": lambda value: f"{value:,.1f}",
    "score": lambda value: f"{value:.6f}",
}


def render_answers(answers: pa.Table) -> str:
    """Return the rows of an answer, with the columns that it has values for."""
    if answers.num_rows == 0:
        return "nothing answers the question"
    shown = [name for name in _COLUMNS if answers.column(name).null_count < answers.num_rows]
    return "\n".join(_lines(shown, answers.select(shown).to_pylist()))


def answer_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table of these rows, with the columns that they have values for."""
    shown = [name for name in _COLUMNS if any(row[name] is not None for row in rows)]
    return _lines(shown, rows) if rows else ["nothing answers the question"]


def _lines(shown: list[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return table_lines([shown, *([_COLUMNS[name](row[name]) for name in shown] for row in rows)])
