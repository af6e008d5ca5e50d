"""Name the columns of the state of a bucket as the kernels take them, and the arrays in which they work on one buffer.

One row a subscription, by ascending key; rows of ended subscriptions stay until the file is rewritten. Its entries are
a run of the entry columns, in their order (see `pststream.answers.contract`). An entry names its object by a number of
the file's own, so that an object that is in many buffers is stored once.
"""

from typing import NamedTuple

import numpy as np

ENDED = 0
WAITING = 1
"""The subscription has not started, or not been evaluated since."""
LIVE = 2

NO_TIME = -(2**63)
NEVER = 2**63 - 1
LAST_OBJECT = 2**63 - 1
"""After every object with the same ts."""


class Columns(NamedTuple):
    """The state of a bucket: r rows, e slots of entries, m objects.

    key, created_at, end_at, counts_from, window_micros, window_objects   int64[r]
    k, kept       int32[r]     size of the answer, entries that a cut leaves
    room          int32[r]     slots of the subscription; a buffer with more than half as many again as `kept`, or with
                               more than this, is cut
    first_slot    int64[r]     first of its slots
    status        uint8[r]     ENDED, WAITING, LIVE
    size          int32[r]     entries of the buffer
    threshold     float32[r]   value of the limit as last recorded
    limit         int32[r]     number of the limit, -1: none
    wakes_at      int64[r]     stream time at which the subscription starts, ends or loses an entry by a time window
    oldest        int64[r]     no entry is older than this ts; NEVER without a window
    entry_value   float32[e]
    entry_number  int32[e]     number of the object
    object_rows   int64[m,2]   ts and key of the object with that number
    number_slots  int32[]      hash table of keys: 1 + number, 0: free; its length is a power of two
    """

    key: np.ndarray
    created_at: np.ndarray
    end_at: np.ndarray
    counts_from: np.ndarray
    window_micros: np.ndarray
    window_objects: np.ndarray
    k: np.ndarray
    kept: np.ndarray
    room: np.ndarray
    first_slot: np.ndarray
    status: np.ndarray
    size: np.ndarray
    threshold: np.ndarray
    limit: np.ndarray
    wakes_at: np.ndarray
    oldest: np.ndarray
    entry_value: np.ndarray
    entry_number: np.ndarray
    object_rows: np.ndarray
    number_slots: np.ndarray


class End(NamedTuple):
    """The end of a batch: `pststream.answers.contract.BatchEnd` without its number."""

    stream_time: int
    last_object: int
    windows: np.ndarray
    boundaries: np.ndarray


class Rows(NamedTuple):
    """Objects with their values, of n rows of the state, ascending: int64[n] but `value`, float32[n]."""

    row: np.ndarray
    object: np.ndarray
    ts: np.ndarray
    value: np.ndarray


class Ends(NamedTuple):
    """Ends of validity by deletions: rows of the state, ascending, and times; int64[d]."""

    row: np.ndarray
    at: np.ndarray


class Buffer(NamedTuple):
    """One buffer, with room for one entry more than the greatest `room` of the state.

    value    float32[]
    number   int64[]    number of the object in the state; -1 - place: of the candidate at this place
    """

    value: np.ndarray
    number: np.ndarray
