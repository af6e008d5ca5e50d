"""The contract of a kind of query: request fields, stored columns, index pieces, explanation, messages.

A kind is one `QueryKind`, made by a package of its own and listed in `kinds/registry.py`. What all kinds share is not
in it: the fields `op`, `subscription_id`, `kind`, `created_at` and `expires_at`, the rules of the request log, and the
payload.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from pststream.shapes.region import Box, Region, RegionLimits


class FieldError(Exception):
    """A field of a request that makes it a reject; an empty `detail` stands for the sentence of the reason.

    `reason` is a code of quality/reject_reasons.py, `raw` the value of the field (of a missing one, the record).
    """

    def __init__(self, field: str, reason: str, raw: Any, detail: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.raw = raw
        self.detail = detail


class RequestColumn(NamedTuple):
    """A nullable column of the table `requests`, null in deletions and in requests of kinds without it.

    since: format of the homes that added it, see state/tables.Column
    """

    name: str
    type: pa.DataType
    meaning: str
    since: int = 0


class IndexPieces(NamedTuple):
    """The boxes under which the worker index posts some insertions.

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
    """A subscription's part of a message: its fields, and the words that a message names if the object has them."""

    fields: dict[str, Any]
    words: frozenset[str]


@dataclass(frozen=True)
class StoredObject:
    """An accepted object as the table `objects` stores it."""

    key: int
    object_id: str
    ts: dt.datetime
    lon: float
    lat: float
    text: str
    terms: tuple[int, ...]


class Validity(NamedTuple):
    """When a subscription begins and ends (exclusive; None: never), and what ends it: `deletion`, `expiry` or ``."""

    created_at: dt.datetime
    end_at: dt.datetime | None = None
    ended_by: str = ""


class FailedCondition(NamedTuple):
    """The first condition of a match that an object fails, and why in a sentence."""

    condition: str
    reason: str


class StoredQuery(Protocol):
    """The query of one stored subscription, for commands and pages that explain it."""

    @property
    def region(self) -> Region | None:
        """The region to draw on a map, if there is one."""

    def is_readable(self) -> bool:
        """Whether what is stored can be read at all; the other methods are called only then."""

    def find_fault(self) -> str | None:
        """What is wrong if stored columns contradict each other, in a sentence."""

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """The first condition that the object fails; None if it matches. Shares no code with the kernels."""

    def as_posted(self) -> PostedQuery:
        """The query as the worker index posts it."""

    def describe(self) -> dict[str, Any]:
        """The query as JSON values, in the form of request fields."""


@dataclass(frozen=True)
class StoredSubscription:
    """One insertion of a subscription id and what ended it; deletions are (request_key, at)."""

    key: int
    subscription_id: str
    kind: "QueryKind"
    query: StoredQuery
    created_at: dt.datetime
    expires_at: dt.datetime | None
    deletions: tuple[tuple[int, dt.datetime], ...] = ()

    def validity(self, applied: int | None = None) -> Validity:
        """When it is valid; with `applied`, only deletions up to that request key end it."""
        ends = [(at, "deletion") for key, at in self.deletions if applied is None or key <= applied]
        if self.expires_at is not None:
            ends.append((self.expires_at, "expiry"))
        return Validity(self.created_at, *min(ends, default=(None, "")))


@dataclass(frozen=True)
class QueryKind:
    """A kind of query.

    name            value of the request field `kind`
    fields          request fields that it reads, besides those of every insertion
    columns         columns of `requests` that store its query; kinds may share a column
    piece_columns   those of them that `make_pieces` reads
    brief_columns   those of them that `brief` and `message_part` read
    conditions      names of the conditions of a match, in the order in which `first_failure` checks them
    parse_request   the columns of a request from its fields, within limits; raises FieldError
    make_pieces     the index pieces of insertions (rows of `requests`)
    read_query      the query that the columns of a stored row hold
    facts           the query that `describe` gave, as text by label: for a terminal or a page
    brief           the query in one line, for lists of subscriptions
    message_part    the subscription's part of a message
    """

    name: str
    fields: frozenset[str]
    columns: tuple[RequestColumn, ...]
    piece_columns: tuple[str, ...]
    brief_columns: tuple[str, ...]
    conditions: tuple[str, ...]
    parse_request: Callable[[Mapping[str, Any], RegionLimits], dict[str, Any]] = field(repr=False)
    make_pieces: Callable[[pa.RecordBatch], IndexPieces] = field(repr=False)
    read_query: Callable[[Mapping[str, Any]], StoredQuery] = field(repr=False)
    facts: Callable[[Mapping[str, Any]], dict[str, str]] = field(repr=False)
    brief: Callable[[Mapping[str, Any]], str] = field(repr=False)
    message_part: Callable[[Mapping[str, Any]], MessagePart] = field(repr=False)
