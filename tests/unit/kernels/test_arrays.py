"""Sorting, searching, borrowed arrays, instructions, and the rules of the logs, against NumPy and plain Python."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels import intrinsics
from pststream.kernels.answers.fold_rows import rows_of_keys
from pststream.kernels.compile import kernel
from pststream.kernels.intrinsics import borrow
from pststream.kernels.log_rules import apply_request_rules, find_duplicate_objects, find_repeated
from pststream.kernels.sort_and_search import find_near, sort_values, sort_with
from tests.fuzz.cases import examples


class Parts(NamedTuple):
    values: np.ndarray
    table: np.ndarray
    number: int


@kernel
def double_all(parts):
    parts = borrow(parts)
    for i in range(len(parts.values)):
        parts.values[i] *= parts.number
        parts.table[i, 1] += parts.table[i, 0]
    return len(parts.values)


@kernel
def call_twice(size):
    parts = Parts(np.ones(size), np.ones((size, 2), np.int32), 2)
    double_all(parts)
    double_all(parts)
    return parts.values, parts.table


def test_writes_reach_the_array_of_the_caller():
    table = np.arange(10, dtype=np.int32).reshape(5, 2)
    parts = Parts(np.arange(10.0)[::2], table, 2)
    counts = sys.getrefcount(parts.values), sys.getrefcount(table)
    assert double_all(parts) == 5
    assert parts.values.tolist() == [0, 4, 8, 12, 16]
    assert table[:, 1].tolist() == [1, 5, 9, 13, 17]
    assert (sys.getrefcount(parts.values), sys.getrefcount(table)) == counts


def test_arrays_made_by_a_calling_kernel_live_until_it_drops_them():
    for _ in range(50):
        values, table = call_twice(1000)
        assert set(values) == {4.0}
        assert set(table[:, 1]) == {3}


WORDS = np.concatenate(
    [
        np.array([0, 1, 2, 2**63, 2**64 - 1, 2**64 - 2, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA], np.uint64),
        np.random.default_rng(1).integers(0, 2**64, 1_000, np.uint64),
        np.uint64(1) << np.arange(64, dtype=np.uint64),
    ]
)


@kernel
def _count_all(words):
    counts = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        counts[i] = intrinsics.count_bits(words[i])
    return counts


@kernel
def _sum_rows(rows, ahead):
    total = 0
    for i in range(len(rows)):
        intrinsics.prefetch(rows, min(i + ahead, len(rows) - 1))
        total += rows[i, 0]
    return total


def test_bits_are_counted_as_by_the_plain_twin_and_by_python() -> None:
    expected = [int(word).bit_count() for word in WORDS]
    assert _count_all(WORDS).tolist() == expected
    with np.errstate(over="ignore"):
        assert intrinsics.plain_count_bits(WORDS).tolist() == expected


def test_prefetching_rows_of_any_strides_changes_nothing() -> None:
    rows = np.arange(400, dtype=np.int64).reshape(100, 4)
    assert _sum_rows(rows, 16) == rows[:, 0].sum()
    assert _sum_rows(rows[::3, 1:], 16) == rows[::3, 1].sum()
    assert intrinsics.plain_prefetch(rows, 99) is None


SIZES = (0, 1, 2, 5_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("low", "high"), [(30, 64), (0, 11), (7, 29)])
def test_values_are_sorted_by_some_of_their_bits(size: int, low: int, high: int) -> None:
    values = np.random.default_rng(size).integers(0, 2**64, size, np.uint64)
    values[: size // 2] >>= np.uint64(20)
    digits = (values >> np.uint64(low)) & np.uint64((1 << (high - low)) - 1)
    expected = values[np.argsort(digits, kind="stable")]
    assert sort_values(values, low, high).tolist() == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [1, 12, 61])
def test_numbers_follow_their_keys_and_equal_keys_keep_their_order(size: int, bits: int) -> None:
    keys = np.random.default_rng(size).integers(0, 1 << bits, size)
    keys[: size // 3] = keys[size // 3 : 2 * (size // 3)]
    order = np.argsort(keys, kind="stable")
    found, numbers = sort_with(keys.copy(), np.arange(size, dtype=np.int32), bits)
    assert found.tolist() == keys[order].tolist() and numbers.tolist() == order.tolist()


SPREADS = {
    "even": lambda rng, size: rng.integers(0, 20 * size + 1, size),
    "dense": lambda rng, size: np.arange(size) + (1 << 40),
    "far_last": lambda rng, size: np.append(rng.integers(0, 20 * size + 1, size), 2**63 - 1),
    "two_heaps": lambda rng, size: np.append(np.arange(size), np.arange(size) + (1 << 61)),
}


@pytest.mark.parametrize("low", [0, 3, 8])
def test_the_first_position_is_found_from_every_guess(low: int) -> None:
    values = np.array([2, 2, 3, 7, 7, 7, 9, 30])
    for wanted in range(1, 32):
        expected = low + np.searchsorted(values[low:], wanted)
        assert all(find_near(values, low, guess, wanted) == expected for guess in range(low - 1, len(values)))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [0, 1, 2, 3_000])
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_rows_of_keys_are_found_however_keys_are_spread(spread: str, size: int, share: float) -> None:
    rng = np.random.default_rng(size)
    keys = np.unique(SPREADS[spread](rng, size))
    most = int(keys.max(initial=5))
    wanted = np.sort(np.concatenate([keys[rng.random(len(keys)) < share], rng.integers(0, most, 50), [0, most, most]]))
    row_of = {key: row for row, key in enumerate(keys.tolist())}
    assert rows_of_keys(keys, wanted).tolist() == [row_of.get(key, -1) for key in wanted.tolist()]


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
