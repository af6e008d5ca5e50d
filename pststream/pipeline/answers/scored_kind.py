"""Define the kind `topk` in the pipeline: the objects with the best scores of place and text."""

import numpy as np

from pststream.pipeline.answers.ranked_kind import RankedKind, RankedQuestions
from pststream.search.best_objects import BestObjects, PointQuestions, find_scored_objects
from pststream.search.object_snapshot import ObjectSnapshot


def _find_best(snapshot: ObjectSnapshot, asked: RankedQuestions) -> BestObjects:
    points, scales = (np.ascontiguousarray(asked.numbers[:, columns]) for columns in (slice(0, 2), slice(2, 4)))
    return find_scored_objects(snapshot, PointQuestions(points, *asked[1:], scales))


SCORED_KIND = RankedKind(_find_best)
