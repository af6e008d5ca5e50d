"""Make the rows of the table `questions`: what each answered question asked for, as a model of its cost needs it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from pststream.base import names
from pststream.pipeline.questions.answer_on_engine import AnsweredPart
from pststream.queries.shapes.region import Region
from pststream.search.asked_questions import AskedQuestion
from pststream.search.read_questions import Question
from pststream.state.tables import TABLES

BATCH_ROWS = 8_192


def question_rows(number: int, asked: Sequence[AskedQuestion], answered: AnsweredPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows of answered questions of a file, by its number."""
    schema = TABLES[names.QUESTIONS].schema
    for low in range(0, len(asked), BATCH_ROWS):
        places = range(low, min(low + BATCH_ROWS, len(asked)))
        records = [{"question_file": number, **_row(asked[place].question, answered, place)} for place in places]
        yield pa.RecordBatch.from_pylist(records, schema)


def _row(question: Question, answered: AnsweredPart, place: int) -> dict[str, Any]:
    parsed, distance = question.parsed, float(answered.distances[place])
    after, _, up_to, _ = answered.bounds[place].tolist()
    box = _bounding_box(parsed.region) if parsed.region else (*(parsed.point or ()), *(parsed.point or ()))
    return {
        "row": question.row,
        "kind": question.kind.name,
        **dict(zip(("west", "south", "east", "north"), box)),
        "clauses": [list(clause) for clause in parsed.clauses],
        "window_after": None if after == names.NO_TIME else after,
        "window_to": None if up_to == names.NO_TIME else up_to,
        "k": parsed.k,
        "rows": int(answered.counts[place]),
        "distance_m": None if math.isnan(distance) else distance,
    }


def _bounding_box(region: Region) -> tuple[float, float, float, float]:
    """Return west, south, east, north; west > east if the region is one across the antimeridian."""
    west, south, east, north = zip(*region.boxes)
    if len(region.boxes) == 2 and min(west) == -180.0 and max(east) == 180.0:
        return max(west), min(south), min(east), max(north)
    return min(west), min(south), max(east), max(north)
