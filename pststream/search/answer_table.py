"""Make the table of answers: a row for each object, or term, of an answer, in the order of questions and ranks."""

from collections.abc import Sequence

import pyarrow as pa

from pststream.base.arrow_columns import TIME
from pststream.search.answer_rows import AnswerRows
from pststream.search.read_questions import Question

ANSWERS = pa.schema(
    [
        pa.field("question_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("rank", pa.int64()),
        pa.field("object_id", pa.string()),
        pa.field("ts", TIME),
        pa.field("distance_m", pa.float64()),
        pa.field("score", pa.float64()),
        pa.field("term", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("term_statistics_version", pa.int64()),
    ]
)
"""Columns of answers; null where a kind has no such value."""


def answer_table(questions: Sequence[Question], rows: AnswerRows) -> pa.Table:
    """Return the rows of the answers of a batch of questions of one kind."""
    ids = pa.array([question.question_id for question in questions], pa.string())
    kinds = pa.array([question.kind.name for question in questions], pa.string())
    place = pa.array(rows.question)
    given = {"question_id": ids.take(place), "kind": kinds.take(place), "rank": pa.array(rows.rank), **rows.columns}
    nulls = {field.name: pa.nulls(len(rows.rank), field.type) for field in ANSWERS}
    return pa.table({**nulls, **given}).select(ANSWERS.names).cast(ANSWERS)
