"""Columns of Arrow, sorted keys, and the imbalance of workers, against plain Python."""

import random

import numpy as np
import pyarrow as pa

from pststream.base.arrays import distinct_values, find_among, is_among, look_up
from pststream.base.arrow_columns import TIME, csr, integers, lists, micros, one_array, sum_column
from pststream.plans.imbalance import MAX_IMBALANCE, finite_imbalance, imbalance_of, imbalance_text, read_imbalance


def in_chunks(values: list[object], type_: pa.DataType, rnd: random.Random) -> pa.ChunkedArray:
    """Cut the values into chunks, some of them empty; without values there may be no chunk."""
    cuts = sorted(rnd.randrange(len(values) + 1) for _ in range(rnd.randrange(4)))
    parts = [values[start:end] for start, end in zip([0, *cuts], [*cuts, len(values)])]
    return pa.chunked_array([pa.array(part, type_) for part in parts if part or rnd.random() < 0.5], type_)


def test_chunks_become_one_array() -> None:
    rnd = random.Random(3)
    for type_ in (pa.int64(), pa.string(), pa.list_(pa.int64())):
        assert one_array(pa.chunked_array([], type_)).equals(pa.array([], type_))
        for _ in range(50):
            numbers = [rnd.randrange(9) for _ in range(rnd.randrange(6))]
            values = [[n] * n if pa.types.is_list(type_) else str(n) if type_ == pa.string() else n for n in numbers]
            assert one_array(in_chunks(values, type_, rnd)).equals(pa.array(values, type_))


def test_lists_become_offsets_and_values_and_lists_again() -> None:
    column = pa.array([[7], [1, 2], None, [], [3]], pa.list_(pa.int64()))
    for start in range(len(column)):
        part = column.slice(start)
        offsets, values = csr(part)
        expected = [one or [] for one in part.to_pylist()]
        assert offsets.dtype == np.int64 and offsets[0] == 0
        assert [values[a:b].tolist() for a, b in zip(offsets, offsets[1:])] == expected
        assert lists(offsets, values).to_pylist() == expected


def test_times_become_microseconds() -> None:
    times = pa.array([-1, 0, 1_800_000_000_000_000]).cast(TIME)
    assert micros(times).tolist() == [-1, 0, 1_800_000_000_000_000]
    rows = pa.table({"ts": pa.array([5, None]).cast(TIME), "rank": pa.array([None, 2], pa.int32())})
    assert integers(rows, "ts", -9).tolist() == [5, -9] and integers(rows, "rank").tolist() == [0, 2]


def test_the_sum_of_a_column_leaves_nulls_out() -> None:
    rows = pa.table({"rows": pa.array([3, None, 4]), "bytes": pa.array([None] * 3, pa.int64())})
    assert (sum_column(rows, "rows"), sum_column(rows, "bytes"), sum_column(rows.slice(3), "rows")) == (7, 0, 0)


def test_values_are_found_as_in_a_dictionary() -> None:
    rnd = random.Random(1)
    for _ in range(200):
        numbers = {key: rnd.randrange(100) for key in sorted(rnd.sample(range(30), rnd.randrange(6)))}
        keys = np.array(list(numbers), np.int64)
        values = [rnd.randrange(-1, 31) for _ in range(rnd.randrange(8))]
        place, is_key = find_among(np.array(values, np.int64), keys)
        assert is_key.tolist() == [value in numbers for value in values]
        assert [int(keys[at]) for at in place[is_key]] == [value for value in values if value in numbers]
        assert is_among(np.array(values, np.int64), keys).tolist() == is_key.tolist()
        found = look_up(np.array(values, np.int64), keys, np.array(list(numbers.values()), np.int64), -7)
        assert found.tolist() == [numbers.get(value, -7) for value in values]


def test_distinct_values_are_those_of_a_set() -> None:
    rnd = random.Random(2)
    for _ in range(100):
        values = [rnd.randrange(-4, 4) for _ in range(rnd.randrange(9))]
        assert distinct_values(np.array(values, np.int64)).tolist() == sorted(set(values))
    assert distinct_values(np.array([[2.5, -1.0], [2.5, 0.0]])).tolist() == [-1.0, 0.0, 2.5]


def test_the_greatest_load_over_the_least() -> None:
    assert imbalance_of([2.0, 3.0, 2.0]) == 1.5
    assert imbalance_of([]) == imbalance_of([0.0, 0.0]) == 1.0


def test_an_idle_worker() -> None:
    idle = imbalance_of([3.0, 0.0])
    assert idle == imbalance_of([1.0, 1e-300]) == MAX_IMBALANCE
    assert finite_imbalance(idle) is finite_imbalance(idle, None) is None
    assert read_imbalance(finite_imbalance(idle)) == idle
    assert imbalance_text(idle) == imbalance_text(None) == "infinite (idle worker)"


def test_a_number() -> None:
    assert finite_imbalance(4 / 3) == 1.3333
    assert finite_imbalance(4 / 3, 2) == 1.33
    assert read_imbalance(finite_imbalance(4 / 3, None)) == 4 / 3
    assert imbalance_text(4 / 3) == "1.33"
