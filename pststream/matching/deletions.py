"""Apply deletions to segments without building them again: find the pieces that end (lazy deletion).

Source: PS2Stream section IV-D. `matcher.make_probe` calls `deleted_pieces` before a segment is matched.

Deletions are stored separately from the segments, and the kernel looks them up only for the pieces that they end.
"""

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.kernels.matching.verify import Deleted, find_pieces, mark_bits
from pststream.matching.segments import Segment

COLUMNS = ("subscription_key", "end_at")
Deletions = tuple[np.ndarray, np.ndarray]
"""Keys int64[n], ascending and distinct, and ends int64[n], microseconds."""

NO_DELETIONS: Deletions = (np.empty(0, np.int64), np.empty(0, np.int64))


def build_deletions(rows: pa.Table) -> dict[str, np.ndarray]:
    """Return keys int64[n], ascending, and ends int64[n] (microseconds) of the deletions in a data file."""
    keys = rows.column("subscription_key").to_numpy()
    order = np.argsort(keys, kind="stable")
    return {"keys": keys[order], "ends": rows.column("end_at").to_numpy()[order]}


def merge_deletions(parts: list[dict[str, np.ndarray]]) -> Deletions:
    """Merge the keys and ends of all parts, ascending by key; keep the earliest end of each key."""
    if not parts:
        return NO_DELETIONS
    keys = np.concatenate([part["keys"] for part in parts])
    ends = np.concatenate([part["ends"] for part in parts])
    order = np.lexsort((ends, keys))
    keys, ends = keys[order], ends[order]
    first = np.ones(len(keys), bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], ends[first]


def deleted_pieces(segment: Segment, keys: np.ndarray, ends: np.ndarray, after_key: int = names.MIN_INT64) -> Deleted:
    """Return the pieces of the segment that the deletions end, with their ends, for `verify`."""
    # Most deletions concern subscriptions that are older than the segment.
    first, last = np.searchsorted(keys, segment.bounds[0], "left"), np.searchsorted(keys, segment.bounds[1], "right")
    pieces, deletion = find_pieces(keys[first:last], segment.subscription_keys, segment.key_order)
    piece_ends = ends[first:last][deletion]
    order = np.argsort(pieces, kind="stable")
    return Deleted(mark_bits(pieces, segment.pieces), pieces[order], piece_ends[order], after_key)


def without_pieces(segment: Segment, deleted: Deleted, others: np.ndarray) -> Deleted:
    """Return the deletions with further pieces (int64[n], ascending), which end before every object."""
    kept = ~np.isin(deleted.pieces, others)
    pieces = np.concatenate([deleted.pieces[kept], others])
    ends = np.concatenate([deleted.ends[kept], np.full(len(others), names.NO_TIME)])
    order = np.argsort(pieces, kind="stable")
    return Deleted(mark_bits(pieces, segment.pieces), pieces[order], ends[order], deleted.after_key)
