"""Define the kind `range`: objects in a region whose words satisfy the keywords; each pair is reported once."""

import datetime as dt
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pststream.base.utc_times import iso
from pststream.queries.kinds.answer_query import AnswerQuery
from pststream.queries.kinds.contract import (
    FailedCondition,
    IndexPieces,
    MessagePart,
    ParsedQuestion,
    PostedQuery,
    QueryKind,
    QuestionKind,
    QuestionLimits,
    RequestLimits,
    StoredObject,
    Validity,
)
from pststream.queries.kinds.fields import (
    parse_count_field,
    parse_keywords_of_question,
    parse_region_field,
    parse_window_field,
)
from pststream.queries.kinds.keywords import (
    EVERY_OBJECT_TEXT,
    KEYWORD_COLUMNS,
    parse_keyword_column,
    parse_keyword_field,
    stored_clauses,
    words_by_term,
    words_of_keywords,
)
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes import registry as shapes
from pststream.queries.shapes.contract import Region, RegionLimits

# Stored queries, without the kernels

REGION, KEYWORDS, CREATED_AT, END = "region", "keywords", "created_at", "end"
CONDITIONS = (REGION, KEYWORDS, CREATED_AT, END)
"""Conditions of a match, in the order in which they are checked."""


@dataclass(frozen=True)
class RangeQuery(AnswerQuery):
    """A stored range query."""

    region: Region = field(kw_only=True)

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point, the words and the time of an object, in the order of CONDITIONS."""
        if not shapes.contains(self.region, stored.lon, stored.lat):
            away = shapes.outside(self.region, stored.lon, stored.lat)
            return FailedCondition(REGION, f"the object lies outside the region: {away}")
        missing = self.explain_missing(stored.parts)
        if missing:
            return FailedCondition(KEYWORDS, missing)
        if stored.ts < validity.created_at:
            times = f"{iso(stored.ts)}, before the subscription begins at {iso(validity.created_at)}"
            span = _span_text(validity.created_at - stored.ts)
            return FailedCondition(CREATED_AT, f"the object is of {times}, {span} later")
        end = validity.end_at
        if end is not None and stored.ts >= end:
            ended = {"deletion": "was deleted as of", "expiry": "expired at"}[validity.ended_by]
            after = f"{_span_text(stored.ts - end)} after it"
            when = "exactly then; the end itself is outside" if stored.ts == end else after
            return FailedCondition(
                END, f"the subscription {ended} {iso(end)}, and the object is of {iso(stored.ts)}, {when}"
            )
        return None

    def as_posted(self) -> PostedQuery:
        """Return the boxes of the region's pieces, and the clauses with their words."""
        return PostedQuery(tuple(shapes.pieces_of(self.region)), self.clauses, words_by_term(self.keywords))

    def describe(self) -> dict[str, Any]:
        """Return the field `keywords` (None: every object) and, below `region`, the field that gives the region."""
        return {"keywords": self.keywords, "region": shapes.to_json(self.region)}


def facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Show the keywords and the region of a description as texts by label."""
    region = shapes.read_region(description["region"], RegionLimits(sys.maxsize))
    return {"Keywords": description["keywords"] or EVERY_OBJECT_TEXT, "Region": shapes.describe(region)}


def _span_text(span: dt.timedelta) -> str:
    seconds = span.total_seconds()
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.6g} seconds"


PIECE_COLUMNS = ("clauses", "verified", "phrases", *(column.name for column in shapes.REQUEST_COLUMNS))


def make_pieces(insertions: pa.RecordBatch) -> IndexPieces:
    """Make the pieces of insertions, in their order: each box of a region with the query's clauses (CNF, term ids)."""
    row, columns = shapes.cut_regions(insertions)
    of_words = {name: insertions.column(name).take(pa.array(row)) for name in ("clauses", "verified", "phrases")}
    return IndexPieces(row, pa.RecordBatch.from_pydict({**columns, **of_words}))


# Requests

FIELDS = frozenset({"keywords", *shapes.request_fields()})
STORED_COLUMNS = (*KEYWORD_COLUMNS, *shapes.REQUEST_COLUMNS)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of STORED_COLUMNS; raises FieldError."""
    region = shapes.to_columns(parse_region_field(record, limits.region))
    return {**parse_keyword_field(record, limits)._asdict(), **region}


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into STORED_COLUMNS."""
    keywords = parse_keyword_column(fields["keywords"], limits)
    regions = shapes.read_regions(fields, limits.region)
    return ParsedColumns(keywords.columns | regions.columns, keywords.parsed & regions.parsed)


RANGE = QueryKind(
    name="range",
    fields=FIELDS,
    columns=STORED_COLUMNS,
    piece_columns=PIECE_COLUMNS,
    brief_columns=("keywords",),
    conditions=CONDITIONS,
    parse_request=parse_request,
    make_pieces=make_pieces,
    read_query=lambda row: RangeQuery(
        {"keywords": row["keywords"]}, *stored_clauses(row), region=shapes.from_columns(row)
    ),
    facts=facts,
    brief=lambda row: row["keywords"] or EVERY_OBJECT_TEXT,
    message_part=lambda row: MessagePart({"keywords": row["keywords"]}, words_of_keywords(row["keywords"])),
    parse_columns=parse_columns,
)

# Questions


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    words = parse_keywords_of_question(record, limits.request)
    return ParsedQuestion(
        region=parse_region_field(record, limits.request.region),
        clauses=words.clauses,
        verified=words.verified,
        phrases=words.phrases,
        k=parse_count_field(record, "limit", limits.max_k),
        window=parse_window_field(record, counts_objects=False),
    )


RANGE_QUESTION = QuestionKind(
    "range",
    frozenset({"keywords", "limit", "window", *shapes.request_fields()}),
    "the objects of a region",
    parse_question,
)
