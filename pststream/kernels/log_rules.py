"""Apply the log rules at ingest, id by id in log order: mark duplicate objects, accept or reject requests."""

import numpy as np

from pststream.kernels.compile import kernel

ACCEPTED, ALREADY_LIVE, UNKNOWN, BEFORE_INSERTION = 0, 1, 2, 3


@kernel
def find_repeated(hashes: np.ndarray) -> np.ndarray:
    """Return whether each of the hashes int64[n] occurs more than once: bool[n]."""
    size = 16
    while size < 2 * len(hashes):
        size *= 2
    # A hash table of open addressing: the position of the first row of a hash, -1 where a slot is free.
    table = np.full(size, -1, np.int32)
    repeated = np.zeros(len(hashes), np.bool_)
    for row in range(len(hashes)):
        slot = hashes[row] & (size - 1)
        while table[slot] >= 0 and hashes[table[slot]] != hashes[row]:
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = row
        else:
            repeated[row] = repeated[table[slot]] = True
    return repeated


@kernel
def find_duplicate_objects(starts, keys, ts, horizon, row_bits):
    """Mark the objects that repeat an accepted id: bool[n].

    starts    int64[ids+1]  slice of the rows of each id; the rows of an id are in the order of the log
    keys      int64[n]      position of each row in the log
    ts        int64[n]      microseconds
    horizon   int64[n]      watermark of the file of the row, less the lateness
    row_bits  int           bits of a key that number the row in its file
    A row is a duplicate if an accepted row before it has the same id and is in the same file, or is in an earlier file
    and its ts is not before the horizon. Rows of earlier ingests are already accepted: their horizon is later than
    any ts.
    """
    duplicate = np.zeros(len(keys), np.bool_)
    for group in range(len(starts) - 1):
        greatest_before = np.int64(-(2**63))
        greatest_here = np.int64(-(2**63))
        file = np.int64(-1)
        accepted_here = False
        for i in range(starts[group], starts[group + 1]):
            # A new file: its rows are compared with the greatest accepted ts of the files before.
            if keys[i] >> row_bits != file:
                file = keys[i] >> row_bits
                greatest_before = max(greatest_before, greatest_here)
                greatest_here = np.int64(-(2**63))
                accepted_here = False
            # A row that repeats no accepted row is accepted.
            some_before = greatest_before > np.int64(-(2**63))
            if accepted_here or (some_before and greatest_before >= horizon[i]):
                duplicate[i] = True
            else:
                accepted_here = True
                greatest_here = max(greatest_here, ts[i])
    return duplicate


@kernel
def apply_request_rules(starts, keys, deletes, at, expires):
    """Accept or reject each request: outcome int8[n], and key of the insertion concerned int64[n] (-1 if none).

    starts       int64[ids+1]  slice of the rows of each id; the rows of an id are in the order of the log
    keys         int64[n]      position of each row in the log
    deletes      bool[n]       whether the request deletes
    at, expires  int64[n]      microseconds: when the request takes effect, when an insertion ends
    """
    outcome = np.zeros(len(keys), np.int8)
    concerned = np.full(len(keys), -1, np.int64)
    for group in range(len(starts) - 1):
        live = np.int64(-1)
        created = np.int64(0)
        end = np.int64(0)
        for i in range(starts[group], starts[group + 1]):
            # An insertion is rejected while a subscription with the same id is live.
            if not deletes[i]:
                if live >= 0 and end > at[i]:
                    outcome[i] = ALREADY_LIVE
                    continue
                live, created, end = keys[i], at[i], expires[i]
            # A deletion needs an insertion that is live at its time.
            elif live < 0:
                outcome[i] = UNKNOWN
                continue
            elif at[i] <= created:
                outcome[i] = BEFORE_INSERTION
                continue
            elif end <= at[i]:
                outcome[i] = UNKNOWN
                continue
            else:
                end = at[i]
            concerned[i] = live
    return outcome, concerned
