"""Make the rows and the table of answers, and render the answer of one question as a text table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import TIME
from pststream.base.texts import escape_controls, table_lines
from pststream.base.utc_times import iso
from pststream.kernels.questions.codes import distances_m
from pststream.search.best_objects import BestObjects, places_of, ranks, rows_of
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.read_questions import Question
from pststream.tables.delta_tables import TableReader


class AnswerRows(NamedTuple):
    """Rows of the answers of a batch, by question and rank.

    question    int64[n]    place of the question in the batch
    rank        int64[n]    from 1
    columns     n values of each column that the kind has: object_key, object_id, ts, distance_m, score, term, count
    """

    question: np.ndarray
    rank: np.ndarray
    columns: dict[str, pa.Array]


def make_answer_rows(snapshot: ObjectSnapshot, best: BestObjects, points: np.ndarray | None) -> AnswerRows:
    """Return the rows of objects, in their order: object_key, object_id, ts and, with points, distance_m.

    points  float64[q,2]: places that distances are measured from, None: no distance
    """
    segment, row = rows_of(best.place)
    columns = {
        "sort_value": pa.array(best.value),
        "object_key": pa.array(best.key),
        "object_id": snapshot.object_ids(segment, row),
        "ts": pa.array(best.ts).cast(TIME),
    }
    if points is not None:
        metres = distances_m(points[best.question], places_of(snapshot, segment, row))
        columns["distance_m"] = pa.array(metres)
    return AnswerRows(best.question, ranks(best.question), columns)


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


ASKED = pa.schema([*ANSWERS, pa.field("attributes", pa.string())])
"""Columns of answers, with the attributes of the objects as JSON."""


def with_attributes(reader: TableReader, answers: pa.Table) -> pa.Table:
    """Return answers (ANSWERS, and `object_key`) with the attributes of their objects: ASKED."""
    attributes = reader.attributes(answers.column("object_key").fill_null(-1).to_numpy())
    columns = [*answers.select(ANSWERS.names).columns, attributes.cast(pa.string())]
    return pa.table(columns, ASKED.names).cast(ASKED)


def answer_table(questions: Sequence[Question], rows: AnswerRows) -> pa.Table:
    """Return the rows of the answers of a batch of questions of one kind."""
    ids = pa.array([question.question_id for question in questions], pa.string())
    kinds = pa.array([question.kind.name for question in questions], pa.string())
    index = pa.array(rows.question)
    given = {"question_id": ids.take(index), "kind": kinds.take(index), "rank": pa.array(rows.rank), **rows.columns}
    nulls = {field.name: pa.nulls(len(rows.rank), field.type) for field in ANSWERS}
    return pa.table({**nulls, **given}).select(ANSWERS.names).cast(ANSWERS)


_COLUMNS: dict[str, Callable[[Any], str]] = {
    "rank": str,
    "object_id": escape_controls,
    "term": escape_controls,
    "count": str,
    "ts": lambda value: iso(value) or "",
    "distance_m": lambda value: f"{value:,.1f}",
    "score": lambda value: f"{value:.6f}",
    "attributes": lambda value: escape_controls(value or ""),
}


def render_answers(answers: pa.Table) -> str:
    """Return the rows of an answer, with the columns that it has values for."""
    return "\n".join(answer_lines(answers.to_pylist()))


def answer_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table of these rows, with the columns that they have values for."""
    shown = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
    if not rows:
        return ["nothing answers the question"]
    return table_lines([shown, *([_COLUMNS[name](row[name]) for name in shown] for row in rows)])
