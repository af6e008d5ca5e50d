"""Types of ledger rows, and the latest row of each key."""

import datetime as dt
from types import UnionType
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.state.tables import COUNTS, SECONDS, TABLES
from pststream.tables.ledgers import BatchRow, FileRow, latest_rows, split_by_status

PYTHON_TYPES = {
    pa.int64(): int, pa.string(): str, TIME: dt.datetime,
    SECONDS: list[tuple[str, float]], COUNTS: list[tuple[str, int]],
}  # fmt: skip


def plain_type(hint: Any) -> Any:
    """The type of a hint without None."""
    return next(one for one in get_args(hint) if one is not type(None)) if isinstance(hint, UnionType) else hint


@pytest.mark.parametrize(("row", "table"), [(FileRow, names.FILES), (BatchRow, names.BATCHES)])
def test_row_types_are_those_of_the_declared_columns(row: type, table: str) -> None:
    declared = {column.name: PYTHON_TYPES[column.type] for column in TABLES[table].columns}
    assert {name: plain_type(hint) for name, hint in get_type_hints(row).items()} == declared


def test_of_one_key_the_row_done_counts() -> None:
    random = np.random.default_rng(3)
    keys = random.permutation(np.repeat(np.arange(40), 2))
    status = np.where(random.random(80) < 0.5, "done", "started")
    rows = pa.table({"key": keys, "status": status, "place": np.arange(80)})
    latest, (done, started) = latest_rows(rows, "key"), split_by_status(rows, "key")
    assert latest.column("key").to_pylist() == list(range(40))
    expected = {key: "done" if "done" in status[keys == key] else "started" for key in range(40)}
    assert dict(zip(latest.column("key").to_pylist(), latest.column("status").to_pylist())) == expected
    assert done.column("key").to_pylist() == [key for key in range(40) if expected[key] == "done"]
    assert started.column("key").to_pylist() == [key for key in range(40) if expected[key] == "started"]
    assert latest_rows(rows.slice(0, 0), "key").num_rows == 0
