"""Ask the object segments which stored objects the late subscriptions of a batch may match (inside routing tasks).

A subscription is late if its `created_at` lies before objects of earlier batches. Each of its pieces is asked as a
question. The objects in the answers are then routed and matched like all others, so an answer may have objects that do
not match.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.engine.task_context import TaskContext, object_cache
from pststream.pipeline.index.build_index import PIECES, REQUEST_COLUMNS, make_pieces, split_by_bytes
from pststream.search.object_segments import ObjectSegment
from pststream.search.wanted_rows import (
    QUESTION_COLUMNS,
    PieceQuestions,
    find_wanted_rows,
    make_piece_questions,
    object_columns,
)
from pststream.state.slices import BATCH_ROWS, KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

COLUMNS = ["object_key", "object_id", "ts", "lon", "lat", "terms"]
"""Columns of `objects` that are routed."""

SCHEMA = pa.schema([TABLES[names.OBJECTS].schema.field(name) for name in COLUMNS])

_NO_PIECES = pa.RecordBatch.from_pylist([], pa.schema([PIECES.field(name) for name in QUESTION_COLUMNS]))


@dataclass(frozen=True)
class LateRequests:
    """The late subscriptions of a batch: insertions in the slices with keys in `keys`, created at `created_to`
    (microseconds) or before.
    """

    slices: tuple[Slice, ...]
    keys: KeyRange
    created_to: int


def object_segment(context: TaskContext, paths: Iterable[str]) -> ObjectSegment:
    """Return the segment of data files of objects, built first if the node does not have it."""
    return object_cache(context.cache_dir, context.cache_bytes).segment(tuple(paths))


def ask_segment(segment: ObjectSegment, late: LateRequests, up_to_key: int) -> Iterator[pa.RecordBatch] | None:
    """Return the objects (COLUMNS) of a segment, with keys up to `up_to_key`, that late subscriptions may match.

    None: it is less work to read all objects.
    """
    rows = find_wanted_rows(segment, _questions(late, up_to_key))
    if rows is None:
        return None
    parts = (rows[first : first + BATCH_ROWS] for first in range(0, len(rows), BATCH_ROWS))
    return (pa.RecordBatch.from_pydict(object_columns(segment, part), schema=SCHEMA) for part in parts)


@lru_cache(maxsize=2)
def _questions(late: LateRequests, up_to_key: int) -> PieceQuestions:
    """Return the questions of the late subscriptions about objects with keys up to `up_to_key`."""
    return make_piece_questions(pa.concat_batches([_NO_PIECES, *_late_pieces(late)]), up_to_key)


def _late_pieces(late: LateRequests) -> Iterator[pa.RecordBatch]:
    for rows in read_slices(late.slices, ["request_key", *REQUEST_COLUMNS], late.keys):
        created = rows.column("effective_at").cast(pa.int64())
        is_late = pc.and_(pc.equal(rows.column("op"), "insert"), pc.less_equal(created, late.created_to))
        for part in split_by_bytes(rows.filter(is_late)):
            yield make_pieces(part).select(list(QUESTION_COLUMNS))
