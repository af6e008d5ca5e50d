"""List the kinds whose answers are the k best objects, as the pipeline needs them, by name."""

from pststream.pipeline.answers.nearest_kind import NEAREST_KIND
from pststream.pipeline.answers.ranked_kind import RankedKind
from pststream.pipeline.answers.scored_kind import SCORED_KIND
from pststream.queries.kinds.knn_kind import KNN
from pststream.queries.kinds.topk_kind import TOPK

RANKED_KINDS: dict[str, RankedKind] = {KNN.name: NEAREST_KIND, TOPK.name: SCORED_KIND}
"""A new kind is one more name here, and one in `kinds/registry.KINDS`."""

SCORED_KIND_NAME = TOPK.name
"""The one kind whose candidates the index of scores finds."""
