"""Columns of Arrow are converted to the arrays that plain Python makes of their values, in any chunks."""

import random

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import TIME, csr, integers, lists, micros, one_array, sum_column


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
