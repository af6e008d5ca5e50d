"""Walking the log of one id after another: what is judged by the rows before."""

import numpy as np

from pststream.kernels.compile import kernel

ACCEPTED, ALREADY_LIVE, UNKNOWN, BEFORE_INSERTION = 0, 1, 2, 3


@kernel
def duplicate_objects(starts, keys, ts, horizon, row_bits):
    """Whether each object repeats an id: bool[n]; rows of an id stand together, in the order of the log.

    starts int64[ids+1]: rows of each id; keys int64[n]: position in the log; ts int64[n]; horizon int64[n]: watermark
    of the row's file less the lateness. A row is a duplicate of an accepted one before it in the same file, or in an
    earlier file if that one's ts is not before the horizon. Rows of earlier ingests were accepted: with a horizon that
    no ts reaches they stay so.
    """
    duplicate = np.zeros(len(keys), np.bool_)
    for group in range(len(starts) - 1):
        greatest_before = np.int64(-(2**63))
        greatest_here = np.int64(-(2**63))
        file = np.int64(-1)
        accepted_here = False
        for i in range(starts[group], starts[group + 1]):
            if keys[i] >> row_bits != file:
                file = keys[i] >> row_bits
                greatest_before = max(greatest_before, greatest_here)
                greatest_here = np.int64(-(2**63))
                accepted_here = False
            some_before = greatest_before > np.int64(-(2**63))
            if accepted_here or (some_before and greatest_before >= horizon[i]):
                duplicate[i] = True
            else:
                accepted_here = True
                greatest_here = max(greatest_here, ts[i])
    return duplicate


@kernel
def judge_operations(starts, keys, deletes, at, expires):
    """Outcome of each request: int8[n] code and int64[n] key of the insertion concerned (-1 if none).

    starts int64[ids+1]: rows of each id, in the order of the log; deletes bool[n]; at, expires int64[n] microseconds.
    """
    outcome = np.zeros(len(keys), np.int8)
    concerned = np.full(len(keys), -1, np.int64)
    for group in range(len(starts) - 1):
        live = np.int64(-1)
        created = np.int64(0)
        end = np.int64(0)
        for i in range(starts[group], starts[group + 1]):
            if not deletes[i]:
                if live >= 0 and end > at[i]:
                    outcome[i] = ALREADY_LIVE
                    continue
                live, created, end = keys[i], at[i], expires[i]
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
