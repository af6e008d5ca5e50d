"""Build the messages of the matches of a batch, as a source of the outbox.

Order: the pairs by object key (the order of the log) and subscription key; then, if the sink has a limit, a digest for
each subscription that exceeded it.

In memory: the pairs of a batch up to `external_sort.RUN_ROWS` (more are sorted on disk), and the objects and
subscriptions of WINDOW pairs.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.delivery.change_messages import ChangeBatch
from pststream.delivery.messages import DIGEST_OBJECTS, MATCHED, RETRACTED, digest_message, pair_message
from pststream.delivery.rate_limit import MessageLimiter
from pststream.delta_tables import TableReader
from pststream.pipeline.delivery.external_sort import SortedRows
from pststream.pipeline.delivery.message_rows import (
    MessageRows,
    ObjectRows,
    SubscriptionRows,
    cut,
    halve_if_too_large,
)
from pststream.pipeline.delivery.message_source import MessageBlock
from pststream.reports.reading.pairs import flatten_lists
from pststream.sinks.contract import Message

WINDOW = 65_536
DIGEST_WINDOW = 256
MATCH_ROWS = 1_024
"""Rows of `matches` read at a time; each may list the many subscriptions of one object."""


class PairMessages:
    """The messages of matches and of their retractions. Retractions neither count against a limit nor exceed it."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._rows = MessageRows(reader)

    def blocks(self, batch: ChangeBatch, limiter: MessageLimiter | None) -> Iterator[MessageBlock]:
        """Yield the messages of a batch."""
        with tempfile.TemporaryDirectory(prefix="pststream-deliver-") as folder:
            (pairs_folder := Path(folder) / "pairs").mkdir()
            (beyond_folder := Path(folder) / "beyond").mkdir()
            pairs, beyond_limit = SortedRows(3, pairs_folder), SortedRows(2, beyond_folder)
            for rows in self._pairs(batch.batch_id):
                pairs.add(rows)
            # Messages of single pairs; those beyond the limit are put aside for digests.
            for rows in pairs.sorted_rows():
                if limiter is not None:
                    beyond = _count_pairs(limiter, rows)
                    beyond_limit.add(rows[[2, 0]][:, beyond])
                    rows = rows[:, ~beyond]
                yield MessageBlock(rows.shape[1], partial(self._pair_messages, batch.batch_id, rows))
            # One digest for each subscription that exceeded the limit.
            for rows in beyond_limit.sorted_rows():
                groups = np.stack(np.unique(rows[0], return_index=True, return_counts=True))
                yield MessageBlock(groups.shape[1], partial(self._digests, batch.batch_id, rows[1], groups))

    def limited_keys(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the subscription keys of matched pairs."""
        return (rows[2, rows[1] == 0] for rows in self._pairs(batch_id))

    def _pairs(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the pairs of a batch, as stored: int64[3, n]: object key, whether retracted, subscription key."""
        columns = ("object_key", "retracted", "subscription_keys")
        here = pds.field("batch_id") == batch_id
        for rows in self._reader.batches(names.MATCHES, columns, here, rows=MATCH_ROWS):
            row, keys = flatten_lists(rows.column("subscription_keys"))
            objects = rows.column("object_key").to_numpy()
            retracted = rows.column("retracted").to_numpy(zero_copy_only=False)
            yield np.stack([objects[row], retracted[row].astype(np.int64), keys])

    def _pair_messages(self, batch_id: int, pairs: np.ndarray, skip: int) -> Iterator[Message]:
        """Yield the messages of pairs, int64[3, n], without the first `skip`."""

        def read(some: np.ndarray, max_bytes: int | None) -> tuple[ObjectRows, SubscriptionRows]:
            return self._rows.objects(some[0], max_bytes), self._rows.subscriptions(some[2], max_bytes)

        for window in cut(pairs[:, skip:], WINDOW):
            for some, (objects, subscriptions) in halve_if_too_large(window, read):
                for object_key, retracted, subscription_key in some.T.tolist():
                    kind = RETRACTED if retracted else MATCHED
                    yield pair_message(kind, batch_id, objects[object_key], subscriptions[subscription_key])

    def _digests(self, batch_id: int, keys: np.ndarray, groups: np.ndarray, skip: int) -> Iterator[Message]:
        """Yield the digests of groups, int64[3, n]: subscription key, index of its first object in `keys`, count."""

        def listed(group: list[int]) -> np.ndarray:
            return keys[group[1] : group[1] + min(group[2], DIGEST_OBJECTS)]

        def read(some: np.ndarray, max_bytes: int | None) -> tuple[ObjectRows, SubscriptionRows]:
            of_groups = np.concatenate([listed(group) for group in some.T.tolist()])
            return self._rows.objects(of_groups, max_bytes, text=False), self._rows.subscriptions(some[0], max_bytes)

        for window in cut(groups[:, skip:], DIGEST_WINDOW):
            for some, (objects, subscriptions) in halve_if_too_large(window, read):
                for group in some.T.tolist():
                    first = [objects[one] for one in listed(group).tolist()]
                    yield digest_message(batch_id, group[2], first, subscriptions[group[0]])


def _count_pairs(limiter: MessageLimiter, pairs: np.ndarray) -> np.ndarray:
    """Count pairs; return which are beyond the limit: bool[n]. Retractions neither count nor exceed it."""
    beyond = np.zeros(pairs.shape[1], bool)
    matched = np.flatnonzero(pairs[1] == 0)
    beyond[matched] = limiter.count(pairs[2][matched])
    return beyond
