"""A kind of query for tests: objects in a square around a point whose words satisfy the keywords.

It has request fields, a stored column, a condition and message fields of its own, so that a place that knows only of
`range` fails on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pststream.base.arrow_columns import Column
from pststream.queries.kinds.contract import (
    FailedCondition,
    FieldError,
    IndexPieces,
    MessagePart,
    PostedQuery,
    QueryKind,
    RequestLimits,
    StoredObject,
    Validity,
)
from pststream.queries.kinds.keywords import (
    KEYWORD_COLUMNS,
    explain_missing_words,
    parse_keyword_field,
    words_by_term,
    words_of_keywords,
)
from pststream.queries.shapes.contract import Region

WIDEST = 10.0
SIDES = ("west", "south", "east", "north")


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """The columns of a request with `keywords`, `centre` [lon, lat] and `width` in degrees."""
    keywords = parse_keyword_field(record, limits)
    for field in ("centre", "width"):
        if record.get(field) is None:
            raise FieldError(field, "missing", record)
    width = record["width"]
    if not 0 < width <= WIDEST:
        raise FieldError("width", "out_of_range", width, f"the width is outside 0..{WIDEST:g}")
    return {**keywords._asdict(), "square": [*map(float, record["centre"]), float(width)]}


def box_of(square: list[float]) -> tuple[float, float, float, float]:
    """West, south, east, north."""
    lon, lat, width = square
    return lon - width / 2, lat - width / 2, lon + width / 2, lat + width / 2


def make_pieces(insertions: pa.RecordBatch) -> IndexPieces:
    """One box for each insertion."""
    boxes = [box_of(square) for square in insertions.column("square").to_pylist()]
    sides = dict(zip(SIDES, (pa.array(numbers, pa.float64()) for numbers in zip(*boxes))))
    words = {name: insertions.column(name) for name in ("clauses", "verified", "phrases")}
    columns = pa.RecordBatch.from_pydict({**sides, **words})
    return IndexPieces(pa.array(range(insertions.num_rows)).to_numpy(), columns)


@dataclass(frozen=True)
class SquareQuery:
    """A stored query."""

    keywords: str
    clauses: tuple[tuple[int, ...], ...]
    square: list[float]

    @property
    def region(self) -> Region | None:
        """The square."""
        return Region((box_of(self.square),))

    def is_readable(self) -> bool:
        """Always."""
        return True

    def find_fault(self) -> str | None:
        """None."""
        return None

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """The square, then the keywords."""
        west, south, east, north = box_of(self.square)
        if not (west <= stored.lon <= east and south <= stored.lat <= north):
            return FailedCondition("square", f"the object lies outside the square around {self.square[:2]}")
        missing = explain_missing_words(self.keywords, stored.parts)
        return FailedCondition("keywords", missing) if missing else None

    def as_posted(self) -> PostedQuery:
        """One box."""
        return PostedQuery((box_of(self.square),), self.clauses, words_by_term(self.keywords))

    def describe(self) -> dict[str, Any]:
        """The fields of the request."""
        lon, lat, width = self.square
        return {"keywords": self.keywords, "centre": [lon, lat], "width": width}


def read_query(row: Mapping[str, Any]) -> SquareQuery:
    """The query of a stored row."""
    return SquareQuery(row["keywords"], tuple(map(tuple, row["clauses"])), row["square"])


SQUARE = QueryKind(
    name="square",
    fields=frozenset({"keywords", "centre", "width"}),
    columns=(*KEYWORD_COLUMNS, Column("square", pa.list_(pa.float64()), "centre and width, degrees", True)),
    piece_columns=("clauses", "verified", "phrases", "square"),
    brief_columns=("keywords", "square"),
    conditions=("square", "keywords"),
    parse_request=parse_request,
    make_pieces=make_pieces,
    read_query=read_query,
    facts=lambda asked: {"Keywords": asked["keywords"], "Square": f"square of {asked['width']:g} degrees"},
    brief=lambda row: f"{row['keywords']} in a square of {row['square'][2]:g} degrees",
    message_part=lambda row: MessagePart(
        {"keywords": row["keywords"], "width": row["square"][2]}, words_of_keywords(row["keywords"])
    ),
)
