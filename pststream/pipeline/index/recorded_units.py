"""Find the units that the index records for subscriptions, to write further pieces of them."""

import numpy as np
import pyarrow as pa

from pststream.engine.task_context import TaskContext, segment_cache
from pststream.kernels.matching.verify import find_pieces
from pststream.pipeline.index.build_index import PIECES
from pststream.plans.owners import NO_UNIT
from pststream.state.index_files import segment_files


def with_recorded_units(pieces: pa.RecordBatch, context: TaskContext, plan_version: int) -> pa.RecordBatch:
    """Return pieces of subscriptions with memory, with the units of the pieces that the index has of them.

    The segments of the plan are asked, which the node builds for the batch anyway; `context.files` names them.
    """
    keys, place_of = np.unique(pieces.column("subscription_key").to_numpy(), return_inverse=True)
    marked = ~keys[::-1]  # in segments such keys are negative
    units = np.full(len(keys), NO_UNIT, np.int64)
    cache = segment_cache(context.cache_dir, context.cache_bytes)
    for files in segment_files(context.files):
        if files.plan_version != plan_version:
            continue
        segment = cache.segment(files.paths)
        if len(segment.units):
            piece, number = find_pieces(marked, segment.subscription_keys, segment.key_order)
            units[len(keys) - 1 - number] = segment.units[piece]
    recorded = pa.array(units, mask=units < 0).take(pa.array(place_of))
    return pieces.set_column(PIECES.get_field_index("unit"), "unit", recorded)
