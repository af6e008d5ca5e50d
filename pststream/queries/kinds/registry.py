"""List the kinds of requests and of questions by name, and collect the columns and fields that the kinds have."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import Column
from pststream.base.errors import PstError
from pststream.queries.kinds.contract import (
    STEP_US,
    WINDOW_OBJECTS,
    WINDOW_US,
    FieldError,
    K,
    QueryKind,
    QuestionKind,
    RankedAnswers,
)
from pststream.queries.kinds.frequent_terms import FREQUENT_TERMS, FREQUENT_TERMS_QUESTION
from pststream.queries.kinds.knn import KNN, KNN_QUESTION
from pststream.queries.kinds.range import RANGE, RANGE_QUESTION
from pststream.queries.kinds.topk import TOPK, TOPK_QUESTION
from pststream.queries.shapes import registry as shapes

KINDS: dict[str, QueryKind] = {kind.name: kind for kind in (RANGE, KNN, TOPK, FREQUENT_TERMS)}
"""Kinds of accepted requests. A new kind is one more name in this tuple."""

DEFAULT_KIND = RANGE.name
"""The kind of requests without the field `kind`."""


def kinds_with_answers() -> list[QueryKind]:
    """Return the kinds with memory, whose subscriptions have answers and no matches."""
    return [kind for kind in KINDS.values() if kind.answers is not None]


def ranked_answers() -> dict[str, RankedAnswers]:
    """Return the answers of the k best objects by the name of their kind, in the order of the kinds."""
    return {kind.name: kind.answers for kind in KINDS.values() if isinstance(kind.answers, RankedAnswers)}


def stored_kind(name: str) -> QueryKind:
    """Return the kind of a stored insertion; raises PstError if this version does not have it."""
    kind = KINDS.get(name)
    if kind is None:
        raise PstError(
            f"`requests` has subscriptions of the kind {name!r}, which this version lacks", "use a newer one"
        )
    return kind


def fields_of_other_kinds(kind: QueryKind | QuestionKind) -> dict[str, list[str]]:
    """Return the fields that a kind of requests, or of questions, does not read, each with the kinds that do."""
    kinds: Iterable[QueryKind | QuestionKind] = (
        KINDS.values() if isinstance(kind, QueryKind) else QUESTION_KINDS.values()
    )
    kinds_by_field: dict[str, list[str]] = {}
    for other in kinds:
        for name in sorted(other.fields - kind.fields):
            kinds_by_field.setdefault(name, []).append(other.name)
    return kinds_by_field


def check_fields(record: Mapping[str, Any], kind: QueryKind | QuestionKind | None, common: frozenset[str]) -> None:
    """Raise FieldError for a field that is not null and belongs neither to a kind (None: a deletion) nor to `common`.

    common   the fields that requests, or questions, of all kinds have
    """
    known = common | kind.fields if kind else common
    for name, value in record.items():
        if value is None or name in known:
            continue
        if kind and (others := fields_of_other_kinds(kind).get(name)):
            advice = "" if record.get("kind") else '; give "kind"'
            detail = f"the field belongs to the kind {' or '.join(others)}, not to {kind.name}{advice}"
            raise FieldError(name, "field_of_another_kind", value, detail)
        owner = f"the kind {kind.name}" if kind else "a deletion"
        name = name[:_SHOWN_NAME]
        raise FieldError(name, "unknown_field", value, describe_unknown(name, known, owner))


_SHOWN_NAME = 40
"""Characters of the name of an unknown field that are shown and compared."""


@lru_cache(maxsize=1 << 10)
def describe_unknown(name: str, known: frozenset[str], owner: str) -> str:
    """Say that `owner` has no field of this name, which of its fields is probably meant, where free fields stand."""
    plain = {_letters(field): field for field in sorted(known)}
    near = [field for field in plain.values() if name.lower() in field.split("_")]
    near += [plain[letters] for letters in get_close_matches(_letters(name), plain, 1)]
    advice = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(plain.values())}"
    free = f"{' F' if near else '; f'}ree fields stand in payload, an object" if "payload" in known else ""
    return f"{name!r} is no field of {owner}; {advice}{free}"


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def request_columns() -> list[Column]:
    """Return the columns of `requests` that store queries, each once, in the order of the kinds."""
    columns = [column for kind in KINDS.values() for column in kind.columns]
    return list({column.name: column for column in columns}.values())


def piece_columns() -> list[str]:
    """Return the columns of `requests` that `make_pieces` of the kinds reads, `kind` first."""
    return list(dict.fromkeys(["kind", *(name for kind in KINDS.values() for name in kind.piece_columns)]))


def brief_columns() -> list[str]:
    """Return the columns of `requests` that lists and messages of the kinds read, `kind` first."""
    return list(dict.fromkeys(["kind", *(name for kind in KINDS.values() for name in kind.brief_columns)]))


def split_by_kind(rows: pa.RecordBatch) -> Iterator[tuple[QueryKind, pa.RecordBatch]]:
    """Split insertions of `requests` into groups of one kind each; no rows become one empty group."""
    names = rows.column("kind")
    present = pc.unique(names).to_pylist() or [DEFAULT_KIND]
    for name in present:
        yield stored_kind(name), rows if len(present) == 1 else rows.filter(pc.equal(names, name))


MOST_TIMES_K = 3
"""A buffer with a window has room for so many times k: 60 of k = 20, the best size of Skype's peer `kmax`."""

MOST_ROOM = 1 << 40
"""Room of one request from which on `room_of` does not count, so that sums stay exact."""


def room_of(rows: pa.RecordBatch, now: int) -> np.ndarray:
    """Return how many entries each of some parsed requests takes at most: int64[n]; a deletion takes none.

    An entry is a posting, a row of an answer or of its buffer, or a row of a report that is due at once; it has some 8
    to 30 bytes. now: microseconds
    """

    def numbers(name: str) -> np.ndarray:
        return pc.fill_null(rows.column(name).cast(pa.int64()), 0).to_numpy()

    k, step = numbers(K.name), numbers(STEP_US.name)
    reports = 1 + np.maximum(now - numbers("effective_at"), 0) // np.maximum(step, 1)
    windowed = (numbers(WINDOW_US.name) > 0) | (numbers(WINDOW_OBJECTS.name) > 0)
    times = np.where(step > 0, reports, np.where(windowed, MOST_TIMES_K, 1))
    k = np.minimum(k, MOST_ROOM)
    rows_of_answers = k * np.minimum(times, MOST_ROOM // np.maximum(k, 1))
    return np.minimum(rows_of_answers + postings_of(rows), MOST_ROOM)


def postings_of(rows: pa.RecordBatch) -> np.ndarray:
    """Return how many postings each of some parsed requests has at most, a word at a piece of its region: int64[n]."""
    clauses = rows.column("clauses")
    sizes = pc.list_value_length(pc.list_flatten(clauses)).to_numpy()
    words = np.bincount(pc.list_parent_indices(clauses).to_numpy(), sizes, minlength=rows.num_rows).astype(np.int64)
    return shapes.most_pieces(rows) * words


# Questions

QUESTION_KINDS: dict[str, QuestionKind] = {
    kind.name: kind for kind in (RANGE_QUESTION, KNN_QUESTION, TOPK_QUESTION, FREQUENT_TERMS_QUESTION)
}
"""A new kind is one more name in this tuple."""

DEFAULT_QUESTION_KIND = RANGE_QUESTION.name
"""The kind of questions without the field `kind`, as of requests."""
