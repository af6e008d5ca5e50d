"""Define the contract of kinds of requests and questions: fields, stored columns, index pieces, answers, messages.

A kind is one `QueryKind` in a module of its own, listed in `queries/kinds/registry.py`. The fields `op`,
`subscription_id`, `kind`, `created_at` and `expires_at`, the rules of the request log and the payload are the same for
all kinds and not part of the contract.
"""

import datetime as dt
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import Column
from pststream.queries.raw_fields import ParsedColumns, RawFields
from pststream.queries.shapes.contract import DEFAULT_LIMITS, Box, Region, RegionLimits
from pststream.queries.text.expression import MAX_CHARACTERS, MAX_WORDS

# Answers of kinds with memory; their rule is evaluated without the kernels, for `explain`

Description = Mapping[str, Any]
"""What `StoredQuery.describe` returns."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row of an answer as `answer_log` stores it: `rank` is from 1; what its kind does not have is None."""

    rank: int
    value: float | None = None
    term: str | None = None
    count: int | None = None


class WordWeights(Protocol):
    """The weights of words by one version of the term statistics."""

    @property
    def version(self) -> int:
        """The version; 0: none, every word weighs 1."""

    def of_terms(self, ids: np.ndarray) -> np.ndarray:
        """Return the weight of each term: float64[n]; `ids` int64[n]."""


class ObjectRows(NamedTuple):
    """Stored objects, n rows, in any order.

    key         int64[n]
    ts          int64[n]       microseconds
    lon, lat    float64[n]     degrees
    owner       int64[words]   row of each word
    terms       int64[words]   its term id, each once in a row
    parts       the parts of the text of each (`StoredObject.parts`); empty: they are not known, no phrase is asked for
    """

    key: np.ndarray
    ts: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    owner: np.ndarray
    terms: np.ndarray
    parts: Sequence[Sequence[str]] = ()

    def have_any(self, terms: list[int]) -> np.ndarray:
        """Return which objects have one of these terms: bool[n]."""
        has = np.zeros(len(self.key), bool)
        has[self.owner[np.isin(self.terms, terms)]] = True
        return has


@dataclass(frozen=True)
class RankedAnswers:
    """Answers of the k objects with the least values; of equal values the greatest (`ts`, key) comes first.

    value_column  column of answers and changes that shows the value: `distance_m` or `score`; empty: none does
    sign          of the shown value: 1, or -1 if the greatest is the best, as of scores, which are stored below 0
    value_text    shows a value, or the difference of two, to people
    values        the values of objects, float32[n]; not a number: the object does not satisfy the words or the region
    parts         what the value of one object (the only row) is made of: texts and numbers by name
    numbers       columns of `requests` (float64) that the values depend on; not a number where an insertion has none
    mark          one of the columns that it stores, which `range` lacks: data files of `requests` with bounds of it may
                  have such insertions (state/tables.has_bounds says which columns have bounds)
    is_weighed    whether values depend on the term statistics, so that a new version changes all answers
    reach         the region that an object must lie in to enter a full answer whose last row has this value; None: any
    """

    value_column: str
    sign: int
    value_text: Callable[[float], str] = field(repr=False)
    values: Callable[[Description, ObjectRows, WordWeights], np.ndarray] = field(repr=False)
    parts: Callable[[Description, ObjectRows, WordWeights], dict[str, Any]] = field(repr=False)
    numbers: tuple[str, ...]
    mark: str
    is_weighed: bool
    reach: Callable[[Description, float], Region | None] = field(repr=False)

    def show_row(self, row: AnswerRow) -> dict[str, Any]:
        """Return a row as messages show it: its rank and its value."""
        value = {self.value_column: self.sign * (row.value or 0.0)} if self.value_column else {}
        return {"rank": row.rank, **value}


@dataclass(frozen=True)
class TermReports:
    """Answers of the k most frequent terms of a region at each tick: a multiple of a step since 1970.

    ticks   (description, ts, start, end): the ticks whose reports count an object of the region with this `ts`, by the
            validity of the subscription, whatever stream time is; all in microseconds, end None: never
    """

    ticks: Callable[[Description, int, int, int | None], range] = field(repr=False)

    def show_row(self, row: AnswerRow) -> dict[str, Any]:
        """Return a row of a report as messages show it."""
        return {"rank": row.rank, "term": row.term, "count": row.count}


Answers = RankedAnswers | TermReports


class FieldError(Exception):
    """A fault in a field that makes a request a reject; an empty `detail` stands for the sentence of the reason.

    `reason` is a code of input/row_chunks.py; `raw` is the value of the field, or the record if it is missing.
    """

    def __init__(self, field: str, reason: str, raw: Any, detail: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.raw = raw
        self.detail = detail


def required_value(record: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field; raises FieldError if it is absent, null or an empty text."""
    value = record.get(name)
    if value is None or value == "":
        raise FieldError(name, "missing", record)
    return value


_MOST_BYTES_OF_CHARACTER = 12
"""In JSON, as two escapes; in UTF-8 it has at most 4."""

MAX_WHERE_BYTES = 16_384
"""Bytes of the conditions on attributes of a request in their canonical form."""

MAX_STOP_BYTES = 16_384
"""Bytes of the stop words of a request, with a blank between two."""

_OTHER_BYTES = 65_536
"""More than the other fields of a request need: names, times, blanks."""


@dataclass(frozen=True)
class RequestLimits:
    """Bounds on the values of new requests, from the settings of the home; without them a value may be of any size.

    max_id_bytes          bytes of a subscription id
    max_payload_bytes     bytes of the payload as JSON
    max_expression_words  words of a keyword expression as written
    max_k                 greatest k
    max_window_steps      steps of a window
    max_past_steps        steps between `created_at` and the ingest
    """

    region: RegionLimits = DEFAULT_LIMITS
    max_id_bytes: int = sys.maxsize
    max_payload_bytes: int = sys.maxsize
    max_expression_words: int = MAX_WORDS
    max_k: int = sys.maxsize
    max_window_steps: int = sys.maxsize
    max_past_steps: int = sys.maxsize

    @property
    def longest_row(self) -> int:
        """Bytes of a line of JSON above which a request cannot be within the other bounds."""
        known = self.max_id_bytes + self.max_payload_bytes + MAX_CHARACTERS + self.region.longest_text
        return min(_MOST_BYTES_OF_CHARACTER * (known + MAX_WHERE_BYTES + MAX_STOP_BYTES) + _OTHER_BYTES, sys.maxsize)


class IndexPieces(NamedTuple):
    """The pieces of some insertions, as the worker index stores them.

    row       int64[pieces]   the insertion that each piece belongs to
    columns   pieces rows     columns of `worker_index` that the kind sets: the box, the shape, the clauses
    """

    row: np.ndarray
    columns: pa.RecordBatch


class PostedQuery(NamedTuple):
    """The boxes and clauses of a query as the worker index posts them, and the word of each term id."""

    boxes: tuple[Box, ...]
    clauses: tuple[tuple[int, ...], ...]
    words: dict[int, str]


class MessagePart(NamedTuple):
    """The fields of a subscription in a message, and its words: a message lists those words that the object has."""

    fields: dict[str, Any]
    words: frozenset[str]


@dataclass(frozen=True)
class StoredObject:
    """An accepted object as the table `objects` stores it; attributes: type and value of each."""

    key: int
    object_id: str
    ts: dt.datetime
    lon: float
    lat: float
    text: str
    terms: tuple[int, ...]
    text_breaks: tuple[int, ...] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def parts(self) -> list[str]:
        """The text as it was joined from columns; a phrase lies in one of them."""
        return split_text(self.text, self.text_breaks)


def split_text(text: str, breaks: Sequence[int]) -> list[str]:
    """Split a text at some of its UTF-8 bytes: where the columns begin that were joined into it, but the first."""
    content = text.encode()
    return [content[start:stop].decode() for start, stop in pairwise((0, *breaks, len(content)))]


class Validity(NamedTuple):
    """When a subscription begins and ends (exclusive; None: never), and what ends it: `deletion` or `expiry`."""

    created_at: dt.datetime
    end_at: dt.datetime | None = None
    ended_by: str = ""


class FailedCondition(NamedTuple):
    """The first condition of a match or an answer that an object fails, and the reason in a sentence."""

    condition: str
    reason: str


class StoredQuery(Protocol):
    """The query of one stored subscription, for commands and pages that explain it."""

    @property
    def region(self) -> Region | None:
        """The region to draw on a map, if there is one."""

    def is_readable(self) -> bool:
        """Return whether the stored columns can be read; the other methods are called only then."""

    def find_fault(self) -> str | None:
        """Return a sentence on stored columns that contradict each other; None if they agree."""

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Return the first condition that the object fails; None if it matches. Shares no code with the kernels.

        A kind with memory has further conditions, which depend on stream time and on other objects.
        """

    def describe(self) -> dict[str, Any]:
        """Return the query as JSON values, in the form of request fields."""


class MatchQuery(StoredQuery, Protocol):
    """The query of a subscription that has matches."""

    def as_posted(self) -> PostedQuery:
        """Return the query as the worker index posts it."""


@dataclass(frozen=True)
class StoredSubscription:
    """One insertion of a subscription id and what ended it; deletions are (request_key, at); where: its condition on
    attributes in the canonical form.
    """

    key: int
    owner: str
    subscription_id: str
    kind: "QueryKind"
    query: StoredQuery
    created_at: dt.datetime
    expires_at: dt.datetime | None
    deletions: tuple[tuple[int, dt.datetime], ...] = ()
    where: str | None = None

    def validity(self, applied: int | None = None) -> Validity:
        """Return when it is valid; with `applied`, only deletions up to that request key end it."""
        ends = [(at, "deletion") for key, at in self.deletions if applied is None or key <= applied]
        if self.expires_at is not None:
            ends.append((self.expires_at, "expiry"))
        return Validity(self.created_at, *min(ends, default=(None, "")))


@dataclass(frozen=True)
class QueryKind:
    """A kind of query.

    name            value of the request field `kind`
    fields          request fields that it reads, besides those of every insertion
    columns         columns of `requests` that store its query, null in deletions and in requests of kinds without them;
                    kinds may share a column
    piece_columns   columns that `make_pieces` reads
    brief_columns   columns that `brief` and `message_part` read
    conditions      names of the conditions of a match or an answer, in the order in which they are checked
    parse_request   parses the fields of a request, within limits, into its columns; raises FieldError
    make_pieces     makes the index pieces of insertions (rows of `requests`)
    read_query      makes the query of a stored row: a `MatchQuery` unless the kind has answers
    facts           turns the result of `describe` into texts by label, for a terminal or a page
    brief           shows the query in one line, for lists of subscriptions
    message_part    makes the subscription's part of a message
    parse_columns   parses the fields of many requests at once, as `parse_request` does each, for speed; requests that
                    it marks as not parsed go to `parse_request`, and so do all if it is None
    check_start     checks parsed columns and the microseconds from `created_at` to the ingest, within limits; raises
                    FieldError
    check_starts    returns whether `check_start` raises no error, for many rows: bool[n]
    answers         of a kind with memory, whose subscriptions have answers and no matches; None: of another kind
    """

    name: str
    fields: frozenset[str]
    columns: tuple[Column, ...]
    piece_columns: tuple[str, ...]
    brief_columns: tuple[str, ...]
    conditions: tuple[str, ...]
    parse_request: Callable[[Mapping[str, Any], RequestLimits], dict[str, Any]] = field(repr=False)
    make_pieces: Callable[[pa.RecordBatch], IndexPieces] = field(repr=False)
    read_query: Callable[[Mapping[str, Any]], StoredQuery] = field(repr=False)
    facts: Callable[[Mapping[str, Any]], dict[str, str]] = field(repr=False)
    brief: Callable[[Mapping[str, Any]], str] = field(repr=False)
    message_part: Callable[[Mapping[str, Any]], MessagePart] = field(repr=False)
    parse_columns: Callable[[RawFields, RequestLimits], ParsedColumns] | None = field(default=None, repr=False)
    check_start: Callable[[Mapping[str, Any], int, RequestLimits], None] | None = field(default=None, repr=False)
    check_starts: Callable[[Mapping[str, pa.Array], np.ndarray, RequestLimits], np.ndarray] | None = field(
        default=None, repr=False
    )
    answers: Answers | None = None


# Questions, which are asked once, about the stored objects; `question_id`, `kind`, `as_of` and `version` are common


class Window(NamedTuple):
    """The objects that count before the time of a question: of a duration in microseconds, or the most recent ones."""

    micros: int | None = None
    objects: int | None = None


EVERYTHING = Window()
"""The window of a question without one."""


@dataclass(frozen=True)
class QuestionLimits:
    """Bounds on the values of questions: those of requests, and the greatest k and limit."""

    request: RequestLimits = RequestLimits()
    max_k: int = 10_000


ClauseTuples = tuple[tuple[int, ...], ...]
"""Clauses, or phrases, as tuples of term ids."""


@dataclass(frozen=True)
class ParsedQuestion:
    """What a question asks for, without its time; a kind fills the fields that it has.

    region    the region, if the kind has one
    point     longitude and latitude in degrees, if the kind has one
    clauses   required words in conjunctive normal form, as term ids; empty: every object
    verified, phrases   as the columns of `requests` have them
    k         greatest number of rows of the answer; None: all
    window    see Window
    alpha     weight of the place in the score, 0 to 1; the text weighs 1 - alpha
    distance_scale_m  distance in metres from which on the place scores 0
    max_distance_m    greatest distance in metres of an object that counts; None: any
    stop_words        words that do not count in reports, with blanks between; None: all count
    """

    region: Region | None = None
    point: tuple[float, float] | None = None
    clauses: ClauseTuples = ()
    verified: ClauseTuples = ()
    phrases: ClauseTuples = ()
    k: int | None = None
    window: Window = EVERYTHING
    alpha: float = 0.0
    distance_scale_m: float = 1.0
    max_distance_m: float | None = None
    stop_words: str | None = None


@dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    name            value of the field `kind`
    fields          fields that it reads, besides those of every question
    title           what it asks for, in words, as a form shows it
    parse_question  parses these fields of a record, within limits; raises FieldError
    """

    name: str
    fields: frozenset[str]
    title: str
    parse_question: Callable[[Mapping[str, Any], QuestionLimits], ParsedQuestion] = field(repr=False)


# Columns of `requests` that kinds with memory share

LON = Column("lon", pa.float64(), "insert: longitude of the point, degrees", nullable=True)
LAT = Column("lat", pa.float64(), "insert: latitude of the point, degrees", nullable=True)
K = Column("k", pa.int64(), "insert: greatest number of rows of an answer", nullable=True)
ALPHA = Column("alpha", pa.float64(), "insert: weight of the distance in a score, 0 to 1", nullable=True)
DISTANCE_SCALE = Column(
    "distance_scale_m", pa.float64(), "insert: metres at which the distance adds nothing to a score", nullable=True
)
MAX_DISTANCE = Column(
    "max_distance_m", pa.float64(), "insert: greatest distance of an object from the point, metres", nullable=True
)
WINDOW_US = Column("window_us", pa.int64(), "insert: length of a time window, microseconds", nullable=True)
WINDOW_OBJECTS = Column("window_objects", pa.int64(), "insert: length of a window in objects", nullable=True)
STEP_US = Column("step_us", pa.int64(), "insert: time between two reports, microseconds", nullable=True)
STOP_WORDS = Column("stop_words", pa.string(), "insert: words that do not count, with blanks between", nullable=True)
