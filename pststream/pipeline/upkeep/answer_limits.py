"""Read from the request log what bounds the answers of the subscriptions of a bucket: k, step, start and end."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.buckets import bucket_of
from pststream.base import names
from pststream.base.arrow_columns import integers
from pststream.base.sorted_keys import find_among
from pststream.queries.kinds.registry import kinds_with_answers
from pststream.state.slices import KeyRange, Slice, read_slices

COLUMNS = ["request_key", "op", "kind", "subscription_key", "effective_at", "expires_at", "k", "step_us"]


class AnswerLimits(NamedTuple):
    """Insertions of subscriptions with memory, by ascending key: int64[n] each. Times are microseconds.

    key         request key
    k           most rows of an answer, or of a report
    step        of `frequent_terms`; 0: of another kind
    created_at  start of validity
    end_at      its end (exclusive): the earliest of expiry and deletions; names.NEVER_US: none
    """

    key: np.ndarray
    k: np.ndarray
    step: np.ndarray
    created_at: np.ndarray
    end_at: np.ndarray

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which keys (int64[n]) are among them, bool[n], and their places, int64[n]; any place for others."""
        place, is_known = find_among(keys, self.key)
        return is_known, place

    def live(self, stream_time: int) -> np.ndarray:
        """Return which of them live at a stream time: bool[n]."""
        return (self.created_at <= stream_time) & (stream_time < self.end_at)


def read_limits(requests: Sequence[Slice], up_to: int, bucket: int, buckets: int) -> AnswerLimits:
    """Read the subscriptions of a bucket from the requests with keys up to `up_to`."""
    inserted, deleted = [np.empty((5, 0), np.int64)], [np.empty((2, 0), np.int64)]
    for rows in read_slices(requests, COLUMNS, KeyRange("request_key", -1, up_to)):
        rows = rows.filter(pa.array(bucket_of(integers(rows, "subscription_key"), buckets) == bucket))
        is_deletion = pc.equal(rows.column("op"), "delete")
        gone = rows.filter(is_deletion)
        deleted.append(np.stack([integers(gone, "subscription_key"), integers(gone, "effective_at")]))
        kinds = pa.array([kind.name for kind in kinds_with_answers()])
        new = rows.filter(pc.and_not(pc.is_in(rows.column("kind"), kinds), is_deletion))
        names_ = (("request_key", 0), ("k", 0), ("step_us", 0), ("effective_at", 0), ("expires_at", names.NEVER_US))
        inserted.append(np.stack([integers(new, name, null) for name, null in names_]))
    columns = np.concatenate(inserted, axis=1)
    limits = AnswerLimits(*columns[:, np.argsort(columns[0], kind="stable")])
    keys, times = np.concatenate(deleted, axis=1)
    is_known, place = limits.find(keys)
    np.minimum.at(limits.end_at, place[is_known], times[is_known])
    return limits
