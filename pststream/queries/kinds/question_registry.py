"""List the kinds of question by name, and the fields that other kinds define."""

from pststream.queries.kinds.frequent_terms_question import FREQUENT_TERMS_QUESTION
from pststream.queries.kinds.knn_question import KNN_QUESTION
from pststream.queries.kinds.question_contract import QuestionKind
from pststream.queries.kinds.range_question import RANGE_QUESTION
from pststream.queries.kinds.topk_question import TOPK_QUESTION

QUESTION_KINDS: dict[str, QuestionKind] = {
    kind.name: kind for kind in (RANGE_QUESTION, KNN_QUESTION, TOPK_QUESTION, FREQUENT_TERMS_QUESTION)
}
"""A new kind is one more name in this tuple."""

DEFAULT_QUESTION_KIND = RANGE_QUESTION.name
"""The kind of questions without the field `kind`, as of requests."""


def question_fields_of_other_kinds(kind: QuestionKind) -> dict[str, list[str]]:
    """Return the fields that `kind` does not read, each with the kinds that do."""
    kinds_by_field: dict[str, list[str]] = {}
    for other in QUESTION_KINDS.values():
        for name in sorted(other.fields - kind.fields):
            kinds_by_field.setdefault(name, []).append(other.name)
    return kinds_by_field
