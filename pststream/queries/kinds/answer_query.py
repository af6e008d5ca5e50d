"""Describe and show the stored query of a subscription with memory; test the words and the time of an object."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import Column
from pststream.base.utc_times import iso
from pststream.queries.kinds.contract import (
    FailedCondition,
    IndexPieces,
    MessagePart,
    QueryKind,
    StoredObject,
    Validity,
)
from pststream.queries.kinds.keywords import (
    EVERY_OBJECT_TEXT,
    explain_missing_words,
    find_clause_fault,
    is_expression,
    words_of_keywords,
)
from pststream.queries.shapes.contract import Region

KEYWORDS, CREATED_AT, END, WINDOW, RANK = "keywords", "created_at", "end", "window", "rank"
CONDITIONS = (KEYWORDS, CREATED_AT, END, WINDOW, RANK)
"""Conditions under which an object is in an answer of the k best, in the order in which they are checked."""

_UNITS = ((3_600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True)
class AnswerQuery:
    """A stored query: `description` has its request fields, `clauses` and `verified` are term ids as stored.

    Other kinds than those of the k best objects override what differs.
    """

    description: Mapping[str, Any]
    clauses: tuple[tuple[int, ...], ...] = ()
    verified: tuple[tuple[int, ...], ...] = ()
    region: Region | None = None

    @property
    def keywords(self) -> str | None:
        """The expression as written; None if there is none."""
        keywords: str | None = self.description.get("keywords")
        return keywords

    def is_readable(self) -> bool:
        """Return whether the stored expression can be parsed."""
        return is_expression(self.keywords)

    def find_fault(self) -> str | None:
        """Compare the stored clauses with the expression."""
        return find_clause_fault(self.keywords, self.clauses, self.verified)

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the words of an object and, without a window, its time; the rest depends on the other objects."""
        missing = self.explain_missing(stored.parts)
        if missing:
            return FailedCondition(KEYWORDS, missing)
        if self.description.get("window") is None and stored.ts < validity.created_at:
            times = f"{iso(stored.ts)}, before the subscription begins at {iso(validity.created_at)}"
            return FailedCondition(CREATED_AT, f"the object is of {times}, and it has no window")
        return None

    def explain_missing(self, parts: Sequence[str]) -> str | None:
        """Explain why a text does not satisfy the keywords, in a sentence; None if it does."""
        return explain_missing_words(self.keywords, parts)

    def describe(self) -> dict[str, Any]:
        """Return the request fields."""
        return dict(self.description)


def kind_with_answers(
    name: str,
    describe: Callable[[Mapping[str, Any]], dict[str, Any]],
    columns: tuple[Column, ...],
    conditions: tuple[str, ...] = CONDITIONS,
    **more: Any,
) -> QueryKind:
    """Return a kind with memory, which is shown by its description and has no piece at the insertion.

    more: the other fields of QueryKind
    """
    return QueryKind(
        name=name,
        columns=columns,
        piece_columns=(),
        brief_columns=tuple(column.name for column in columns),
        conditions=conditions,
        make_pieces=make_no_pieces,
        facts=facts,
        brief=lambda row: brief(describe(row), name),
        message_part=lambda row: message_part(describe(row), name),
        **more,
    )


def make_no_pieces(insertions: pa.RecordBatch) -> IndexPieces:
    """Make no piece at the insertion."""
    return IndexPieces(np.empty(0, np.int64), pa.RecordBatch.from_pydict({}))


def facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Show a description as texts by label."""
    shown: dict[str, str] = {}
    if "keywords" in description:
        shown["Keywords"] = description["keywords"] or EVERY_OBJECT_TEXT
    if "point" in description:
        point = description["point"]
        shown["Point"] = f"{point['lon']:.9g}, {point['lat']:.9g}"
    if "max_distance_m" in description:
        shown["Within"] = f"{description['max_distance_m']:,.0f} m"
    if "region" in description:
        shown["Region"] = ", ".join(f"{name} {value}" for name, value in description["region"].items())
    shown["Rows"] = f"at most {description['k']:,}"
    if "alpha" in description:
        shown["Score"] = f"alpha {description['alpha']:g}, distance scale {description['distance_scale_m']:,.0f} m"
    if description.get("window") is not None:
        shown["Window"] = f"of {show_window(description['window'])}"
    if "step" in description:
        shown["Step"] = f"every {description['step']}"
    if "stop_words" in description:
        shown["Stop words"] = ", ".join(description["stop_words"])
    return shown


def brief(description: Mapping[str, Any], kind: str) -> str:
    """Show a description in one line."""
    words = description["keywords"] or EVERY_OBJECT_TEXT if "keywords" in description else ""
    window = f" of {show_window(description['window'])}" if description.get("window") is not None else ""
    return f"{kind} {description['k']}{window}{': ' if words else ''}{words}"


def message_part(description: Mapping[str, Any], kind: str) -> MessagePart:
    """Show a description, and the words that a message lists."""
    return MessagePart({"kind": kind, **description}, words_of_keywords(description.get("keywords")))


def show_window(window: str | Mapping[str, int]) -> str:
    """Show the field `window` as a text."""
    return window if isinstance(window, str) else f"{window['objects']:,} objects"


def duration_text(micros: int) -> str:
    """Return a duration as request fields give it, in whole hours, minutes or seconds."""
    seconds = micros // 1_000_000
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"


def window_field(row: Mapping[str, Any]) -> str | dict[str, int] | None:
    """Return the request field `window` of a stored row."""
    if row["window_us"] is not None:
        return duration_text(row["window_us"])
    objects = row.get("window_objects")
    return None if objects is None else {"objects": objects}
