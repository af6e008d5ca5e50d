"""Rows of small data files, which a process keeps, are those of the table, whatever has been committed since."""

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables import delta_tables, open_tables
from pststream.tables.delta_tables import open_dataset, read_table

TABLE = names.VOCABULARY


def append(home: Home, number: int, rows: int = 2) -> None:
    one = {"plan_version": number, "objects": number, "subscriptions": 1}
    words = [f"{number}-{row}" for row in range(rows)]
    ledger_tables.append(home, TABLE, [one | {"term_id": row, "term": word} for row, word in enumerate(words)])


def files(home: Home) -> list[Path]:
    return sorted(Path(home.table(TABLE)).glob("*.parquet"))


def in_order(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


@pytest.mark.parametrize("kept_bytes", [open_tables.KEPT_BYTES, 400])
def test_rows_are_those_of_the_table_after_each_commit(
    hand_home: Home, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    """Also where few rows can be kept; most files are then too large to be kept."""
    monkeypatch.setattr(open_tables, "KEPT_BYTES", kept_bytes)
    rnd, address = random.Random(7), hand_home.table(TABLE)
    for number in range(20):
        append(hand_home, number)
        if rnd.randrange(4) == 0:
            ledger_tables.compact(hand_home, TABLE)
        if rnd.randrange(6) == 0:
            ledger_tables.delete_versions(hand_home, TABLE, "plan_version", number - 3, number - 2)
        data = open_dataset(DeltaTable(address))
        found, chosen = read_table(address), pds.field("plan_version") > number - 5
        assert found.schema.equals(data.schema) and in_order(found) == in_order(data.to_table())
        few = read_table(address, ["term", "term_id"], chosen)
        assert few.schema.names == ["term", "term_id"]
        assert in_order(few) == in_order(data.to_table(columns=["term", "term_id"], filter=chosen))
    assert 0 < found.num_rows < 40


def test_a_table_without_rows_has_its_columns(hand_home: Home) -> None:
    assert read_table(hand_home.table(TABLE)).schema.equals(open_dataset(DeltaTable(hand_home.table(TABLE))).schema)
    assert read_table(hand_home.table(TABLE), ["term"]).schema.names == ["term"]


def test_a_file_is_read_once_and_again_if_it_has_changed(hand_home: Home) -> None:
    append(hand_home, 1)
    before = read_table(hand_home.table(TABLE))
    [path] = files(hand_home)
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read_table(hand_home.table(TABLE)).equals(before)
    os.utime(path)
    with pytest.raises(pa.ArrowInvalid):
        read_table(hand_home.table(TABLE))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_table(hand_home.table(TABLE))


def test_large_files_are_not_kept(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_tables, "SMALL_BYTES", 1)
    append(hand_home, 1)
    assert read_table(hand_home.table(TABLE)).num_rows == 2
    [path] = files(hand_home)
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(pa.ArrowInvalid):
        read_table(hand_home.table(TABLE))
