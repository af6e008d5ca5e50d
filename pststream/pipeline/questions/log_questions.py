"""Make the rows of the table `questions`: what each answered question asked for, as a model of its cost needs it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.questions.asked_questions import AskedQuestion, CountedObjects
from pststream.shapes.region import Region
from pststream.state.tables import TABLES
from pststream.stored_objects.object_snapshot import EARLIEST
from pststream.stored_objects.question_batch import window_bounds

BATCH_ROWS = 8_192


def question_rows(
    number: int, counted: CountedObjects, asked: Sequence[AskedQuestion], rows: np.ndarray, distances: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the questions of a file.

    number     of the file
    rows       int64[q]    rows of each answer
    distances  float64[q]  distance of the last row, metres; NaN: it has none
    """
    schema = TABLES[names.QUESTIONS].schema
    for low in range(0, len(asked), BATCH_ROWS):
        places = range(low, min(low + BATCH_ROWS, len(asked)))
        records = [
            {
                "question_file": number,
                **_row(counted, asked[place]),
                "rows": int(rows[place]),
                "distance_m": None if np.isnan(distances[place]) else float(distances[place]),
            }
            for place in places
        ]
        yield pa.RecordBatch.from_pylist(records, schema)


def _row(counted: CountedObjects, one: AskedQuestion) -> dict[str, Any]:
    parsed = one.question.parsed
    after, up_to = (bounds[0, 0] for bounds in window_bounds(counted.of(one.withdrawn), [one.timed]))
    if parsed.point is not None:
        box = (*parsed.point, *parsed.point)
    else:
        assert parsed.region is not None
        box = _bounding_box(parsed.region)
    return {
        "row": one.question.row,
        "kind": one.question.kind.name,
        **dict(zip(("west", "south", "east", "north"), box)),
        "clauses": [list(clause) for clause in parsed.clauses],
        "window_after": None if after == EARLIEST else int(after),
        "window_to": None if up_to == EARLIEST else int(up_to),
        "k": parsed.k,
    }


def _bounding_box(region: Region) -> tuple[float, float, float, float]:
    """Return west, south, east, north; west > east if the region is one across the antimeridian."""
    west, south, east, north = zip(*region.boxes)
    if len(region.boxes) == 2 and min(west) == -180.0 and max(east) == 180.0:
        return max(west), min(south), min(east), max(north)
    return min(west), min(south), max(east), max(north)
