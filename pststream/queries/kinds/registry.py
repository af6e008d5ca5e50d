"""List the kinds of requests and of questions by name, and collect the columns and fields that the kinds have."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import Column
from pststream.base.errors import PstError
from pststream.queries.kinds.contract import QueryKind, QuestionKind, RankedAnswers
from pststream.queries.kinds.frequent_terms import FREQUENT_TERMS, FREQUENT_TERMS_QUESTION
from pststream.queries.kinds.knn import KNN, KNN_QUESTION
from pststream.queries.kinds.range import RANGE, RANGE_QUESTION
from pststream.queries.kinds.topk import TOPK, TOPK_QUESTION

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


# Questions

QUESTION_KINDS: dict[str, QuestionKind] = {
    kind.name: kind for kind in (RANGE_QUESTION, KNN_QUESTION, TOPK_QUESTION, FREQUENT_TERMS_QUESTION)
}
"""A new kind is one more name in this tuple."""

DEFAULT_QUESTION_KIND = RANGE_QUESTION.name
"""The kind of questions without the field `kind`, as of requests."""
