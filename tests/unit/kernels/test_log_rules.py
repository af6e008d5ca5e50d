"""The rules of the logs against the same rules in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.log_rules import apply_request_rules, find_duplicate_objects, find_repeated
from tests.fuzz.cases import examples

BITS = 32


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1).map(lambda n: n // 16 * 16), max_size=80))
def test_repeated_hashes(hashes):
    """Multiples of 16 share their slot in a small table."""
    repeated = find_repeated(np.array(hashes, np.int64))
    assert repeated.tolist() == [hashes.count(one) > 1 for one in hashes]


def slow_duplicates(rows):
    accepted, marks = [], []
    for file, ts, horizon in rows:
        repeat = any(f == file or t >= horizon for f, t in accepted)
        marks.append(repeat)
        if not repeat:
            accepted.append((file, ts))
    return marks


@examples(300)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9))
def test_duplicates(rows):
    horizons = {file: horizon for file, _, horizon in rows}
    rows = sorted((file, number, ts) for number, (file, ts, _) in enumerate(rows))
    known = [(file, ts, horizons[file]) for file, _, ts in rows]
    keys = np.array([(file << BITS) + number for file, number, _ in rows], np.int64)
    ts, horizon = (np.array(values, np.int64) for values in zip(*[(t, h) for _, t, h in known], strict=True))
    duplicates = find_duplicate_objects(np.array([0, len(rows)], np.int64), keys, ts, horizon, BITS)
    assert duplicates.tolist() == slow_duplicates(known)


@examples(300)
@given(st.data())
def test_objects_of_earlier_ingests_stay_accepted(data):
    """Any of them may be left out if they are before the horizon of each new file."""
    rows = data.draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(0, 9)), max_size=9))
    stored = data.draw(st.integers(1, 3))
    horizons = {file: horizon for file, _, horizon in rows}
    log = [(file, ts, horizons[file]) for file, ts in sorted((file, ts) for file, ts, _ in rows)]
    verdicts = slow_duplicates(log)
    new = [(row, verdict) for row, verdict in zip(log, verdicts, strict=True) if row[0] > stored]
    least = min((horizon for (_, _, horizon), _ in new), default=0)
    read = [
        (file, ts, 2**62)
        for (file, ts, _), verdict in zip(log, verdicts, strict=True)
        if file <= stored and not verdict and (ts >= least or data.draw(st.booleans()))
    ]
    given_rows = [*read, *(row for row, _ in new)]
    keys = np.array([(file << BITS) + at for at, (file, _, _) in enumerate(given_rows)], np.int64)
    ts, horizon = (np.array([row[at] for row in given_rows], np.int64) for at in (1, 2))
    duplicates = find_duplicate_objects(np.array([0, len(given_rows)], np.int64), keys, ts, horizon, BITS)
    assert duplicates.tolist() == [False] * len(read) + [verdict for _, verdict in new]


def slow_operations(rows):
    live, outcome = None, []
    for key, (delete, at, expires) in enumerate(rows):
        if not delete:
            if live and live["end"] > at:
                outcome.append((1, -1))
                continue
            live = {"key": key, "at": at, "end": expires}
        elif live is None:
            outcome.append((2, -1))
            continue
        elif at <= live["at"]:
            outcome.append((3, -1))
            continue
        elif live["end"] <= at:
            outcome.append((2, -1))
            continue
        else:
            live["end"] = at
        outcome.append((0, live["key"]))
    return outcome


@examples(300)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(5, 15)), min_size=1, max_size=9))
def test_operations(rows):
    delete, at, expires = (np.array(values) for values in zip(*rows, strict=True))
    keys = np.arange(len(rows), dtype=np.int64)
    outcome, key = apply_request_rules(np.array([0, len(rows)], np.int64), keys, delete, at, expires)
    assert list(zip(outcome.tolist(), key.tolist(), strict=True)) == slow_operations(rows)


def test_groups_do_not_touch():
    keys, zero = np.array([(1 << BITS) + 1, (1 << BITS) + 2], np.int64), np.zeros(2, np.int64)
    assert find_duplicate_objects(np.array([0, 1, 2], np.int64), keys, zero, zero, BITS).tolist() == [False, False]
    assert find_duplicate_objects(np.array([0, 2], np.int64), keys, zero, zero, BITS).tolist() == [False, True]
