"""Answer questions of the kind `range`: the objects of a region, newest first."""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.questions.rows_in_regions import choose_paths, find_rows
from pststream.stored_objects.answer_rows import AnswerRows, BestRows, place_of, ranked
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.question_batch import Clauses, TimedQuestion, reached, region_arrays, window_bounds


def answer_range(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, each newest first, at most its limit."""
    after, up_to = window_bounds(snapshot, questions)
    regions = region_arrays([question.parsed.region for question in questions if question.parsed.region])
    limits = np.array([question.parsed.k or 0 for question in questions], np.int64)
    clauses, best = Clauses(questions), BestRows(limits.tolist())
    parts = [(np.empty(0, np.int64), np.empty((0, 3), np.int64))]
    # The newest segments first: older ones have no rows for the limits that are filled then.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, after, up_to)
        asked = asked[best.oldest_times()[asked] <= segment.bounds[1]]
        if not len(asked):
            continue
        within = clauses.within(segment)
        question, row = find_rows(
            segment.objects, asked, choose_paths(segment.objects, regions, within, asked), regions, within, after,
            up_to, limits, best.starts, best.sizes, best.values, best.rows,
        )  # fmt: skip
        best.number_places(number)
        columns = (segment.times[row], segment.keys[row], place_of(number, row))
        parts.append((question.astype(np.int64), np.column_stack(columns)))
    limited, _, newest = best.entries()
    question = np.concatenate([limited, *(part[0] for part in parts)])
    rows = np.concatenate([newest, *(part[1] for part in parts)])
    return ranked(snapshot, question, np.zeros(len(question), np.float32), rows, None)[0]
