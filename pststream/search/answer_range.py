"""Answer questions of the kind `range`: the objects of a region, newest first."""

from collections.abc import Sequence

import numpy as np

from pststream.kernels.questions.rows_in_regions import choose_paths, find_rows
from pststream.search.answer_rows import AnswerRows, make_answer_rows
from pststream.search.best_objects import BestRows, order_objects, place_of
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion, clauses_of, reached, region_arrays, window_bounds


def answer_range(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> AnswerRows:
    """Return the rows of the answers of a batch, each newest first, at most its limit."""
    after, up_to = window_bounds(snapshot, questions)
    regions = region_arrays([question.parsed.region for question in questions if question.parsed.region])
    limits = np.array([question.parsed.k or 0 for question in questions], np.int64)
    clauses, best = clauses_of(questions), BestRows(limits)
    parts = []
    # The newest segments first: older ones have no rows for the limits that are filled then.
    for number in reversed(range(len(snapshot.segments))):
        segment = snapshot.segments[number]
        asked = reached(segment.bounds, after, up_to)
        asked = asked[best.oldest_times()[asked] <= segment.bounds[1]]
        if not len(asked):
            continue
        within = clauses.within(segment)
        answered = find_rows(
            segment.objects, asked, choose_paths(segment.objects, regions, within, asked), regions, within, after,
            up_to, limits, best.starts, best.sizes, best.values, best.rows,
        )  # fmt: skip
        best.number_places(number)
        answered[:, 3] = place_of(number, answered[:, 3])
        parts.append(answered)
    limited, _, newest = best.entries()
    rows = np.concatenate([np.column_stack([limited, newest]), *parts])
    best_first = order_objects(rows[:, 0], np.zeros(len(rows), np.float32), rows[:, 1:])
    return make_answer_rows(snapshot, best_first, None)
