"""Answer many standing queries at once from the segments of stored objects.

The values are those of the kinds, as of their questions, in float32, with the same rule for ties.
"""

import numpy as np

from pststream.answers.contract import BatchEnd, Values
from pststream.base import names
from pststream.pipeline.answers.ranked_kind import RankedQuestions
from pststream.pipeline.answers.ranked_kinds import RANKED_KINDS
from pststream.pipeline.answers.standing_queries import Queries, take_queries
from pststream.queries.kinds.registry import ranked_answers
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import Clauses


def ask_objects(snapshot: ObjectSnapshot, queries: Queries, kept: np.ndarray, end: BatchEnd) -> Values:
    """Return the `kept` best objects of each query as of the end of a batch, fewer if fewer count.

    kept  int32[n]  number of values for each query
    """
    parts = []
    for place, name in enumerate(ranked_answers()):
        rows = np.flatnonzero(queries.kind == place)
        chosen = take_queries(queries, rows)
        best = RANKED_KINDS[name].find_best(snapshot, _questions(chosen, kept[rows], end))
        parts.append(Values(chosen.key[best.question], best.key, best.ts, best.value))
    return Values(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _questions(queries: Queries, kept: np.ndarray, end: BatchEnd) -> RankedQuestions:
    up_to = np.tile(np.array([end.stream_time, end.last_object], np.int64), (len(kept), 1))
    after = windows_start(queries, end)
    return RankedQuestions(queries.numbers, kept.astype(np.int64), _clauses(queries), after, up_to)


def _clauses(queries: Queries) -> Clauses:
    """Return the clauses; none of a query without keywords, which has one clause of the term of every object."""
    first_terms = queries.terms[queries.literal_offsets[:-1]]
    kept = first_terms != names.EVERY_OBJECT
    sizes = np.diff(queries.literal_offsets)[kept]
    return Clauses(
        np.append(0, np.cumsum(kept))[queries.clause_offsets],
        np.append(0, np.cumsum(sizes)),
        queries.terms[queries.terms != names.EVERY_OBJECT],
    )


def windows_start(queries: Queries, end: BatchEnd) -> np.ndarray:
    """Return (ts, key) after which objects count for each query: int64[n,2]."""
    after = np.full((len(queries.key), 2), LAST_KEY, np.int64)
    has_window = (queries.window_micros > 0) | (queries.window_objects > 0)
    after[:, 0] = np.where(has_window, names.NO_TIME, queries.created_at - 1)
    timed = queries.window_micros > 0
    after[timed, 0] = np.maximum(end.stream_time - queries.window_micros[timed], names.NO_TIME)
    counted = np.flatnonzero(queries.window_objects > 0)
    if len(counted):
        after[counted] = end.boundaries[np.searchsorted(end.windows, queries.window_objects[counted])]
    return after
