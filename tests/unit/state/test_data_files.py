"""Data files: what a task writes is what readers see, once it is committed, once; slices are read by key and time."""

import datetime as dt
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.base.errors import RetryableError
from pststream.state import data_files as files
from pststream.state.data_files import (
    DataFiles,
    FileWriter,
    addresses_and_rows,
    append_rows,
    commit_files,
    list_data_files,
)
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.state.tables import TABLES
from pststream.storage.parquet_files import open_parquet
from pststream.tables.delta_tables import open_dataset

SCHEMA = TABLES[names.OBJECTS].schema


def rows(first: int, count: int) -> pa.RecordBatch:
    """Objects with keys from `first` on, a microsecond apart."""
    keys = np.arange(first, first + count)
    values = {
        "object_key": keys,
        "object_id": [str(key) for key in keys],
        "ts": pa.array(keys + 1_700_000_000_000_000).cast(pa.timestamp("us", tz="UTC")),
        "lon": np.zeros(count),
        "lat": np.zeros(count),
        "text": [""] * count,
        "text_breaks": [None for key in keys],
        "terms": [[int(key)] for key in keys],
        "attributes": [None] * count,
        "ingest_id": np.ones(count, np.int64),
    }
    return pa.RecordBatch.from_pydict(values, schema=SCHEMA)


def written(home: Home, *batches: pa.RecordBatch) -> files.DataFile:
    writer = FileWriter(home.table(names.OBJECTS), SCHEMA)
    for batch in batches:
        writer.write(batch)
    file = writer.close()
    assert file is not None
    return file


@pytest.mark.parametrize("end", ["", "b", chr(sys.maxunicode), chr(sys.maxunicode) * 3 + "b"])
def test_bounds_of_long_ids_are_cut(hand_home: Home, end: str) -> None:
    ids = ["a" * 100, "b" * files.MAX_BOUND_LENGTH + end]
    file = written(hand_home, rows(1, 2).set_column(1, "object_id", pa.array(ids)))
    least, greatest = file.low["object_id"], file.high["object_id"]
    assert least <= ids[0] and greatest >= ids[1]
    assert (len(least), len(greatest)) <= (files.MAX_BOUND_LENGTH, files.MAX_BOUND_LENGTH + 4)
    commit_files(hand_home, names.OBJECTS, [file], application="t", transaction=1)
    dataset = open_dataset(DeltaTable(hand_home.table(names.OBJECTS)))
    assert [dataset.count_rows(filter=pds.field("object_id") == one) for one in [*ids, "c"]] == [1, 1, 0]


def test_readers_skip_files_by_place_id_and_time(hand_home: Home) -> None:
    day = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    for number in range(3):
        days = pa.array([day + dt.timedelta(days=number, seconds=row) for row in range(5)], SCHEMA.field("ts").type)
        batch = rows(10 * number + 1, 5).set_column(2, "ts", days)
        moved = batch.set_column(3, "lon", pa.array([10.0 * number] * 5))
        commit_files(hand_home, names.OBJECTS, [written(hand_home, moved)], application="t", transaction=number)
    dataset = open_dataset(DeltaTable(hand_home.table(names.OBJECTS)))
    last_day = pds.field("ts") >= pa.scalar(day + dt.timedelta(days=2), SCHEMA.field("ts").type)
    for wanted in (pds.field("lon") > 15, pds.field("object_id") > "3", pds.field("lon") == 20.0, last_day):
        assert len(list(dataset.get_fragments(filter=wanted))) == 1
        assert dataset.count_rows(filter=wanted) > 0


def test_an_append_only_table_refuses_a_deletion(hand_home: Home) -> None:
    commit_files(hand_home, names.OBJECTS, [written(hand_home, rows(1, 2))], application="t", transaction=1)
    with pytest.raises(DeltaError, match="append"):
        DeltaTable(hand_home.table(names.OBJECTS)).delete("object_key = 1")


def test_lists_of_files_that_are_kept_are_those_of_the_table(hand_home: Home) -> None:
    expected: list[str] = []
    for number in range(3):
        file = written(hand_home, rows(10 * number + 1, 5))
        commit_files(hand_home, names.OBJECTS, [file], application="t", transaction=number)
        expected = sorted([*expected, file.path])
        for _ in range(2):
            listed = list_data_files(hand_home, names.OBJECTS)
            assert [one.path for one in listed] == expected
    assert [one.rows for one in list_data_files(hand_home, names.OBJECTS)] == [5, 5, 5]
    shutil.rmtree(hand_home.path)
    hand_home.init()
    assert not list_data_files(hand_home, names.OBJECTS)


BOUND = st.none() | st.integers(-3000, 3000)


@given(st.lists(st.tuples(BOUND, BOUND, BOUND, BOUND), max_size=6), st.integers(-3000, 3000), st.integers(0, 3000))
def test_files_are_selected_as_each_of_them_would_be(
    bounds: list[tuple[int | None, ...]], least: int, more: int
) -> None:
    """A bound may be unknown, and that of a time finer than Delta's milliseconds."""
    low, high, first, last = (list(column) for column in zip(*bounds)) if bounds else ([], [], [], [])
    size = pa.array([1] * len(bounds), pa.int64())
    columns = {"path": pa.array(map(str, range(len(bounds))), pa.string()), "size_bytes": size, "num_records": size}
    columns |= {"min.object_key": pa.array(low, pa.int64()), "max.object_key": pa.array(high, pa.int64())}
    columns |= {"min.ts": pa.array(first, TIME), "max.ts": pa.array(last, TIME)}
    listed = DataFiles(pa.table(columns))
    for column in ("object_key", "ts", "lon"):
        expected = [file.path for file in listed if file.may_contain(column, least, least + more)]
        assert [file.path for file in listed.select(listed.may_contain(column, least, least + more))] == expected


def test_rows_come_back_with_their_bounds(hand_home: Home) -> None:
    file = written(hand_home, rows(10, 5), rows(15, 3))
    assert commit_files(hand_home, names.OBJECTS, [file], application="t", transaction=1)
    (listed,) = list_data_files(hand_home, names.OBJECTS)
    assert (listed.path, listed.rows, listed.bytes) == (file.path, 8, file.bytes)
    assert (listed.low["object_key"], listed.high["object_key"]) == (10, 17)
    assert (listed.low["object_id"], listed.high["object_id"]) == ("10", "17")
    assert (listed.low["lon"], listed.high["lat"], listed.nulls["lat"]) == (0.0, 0.0, 0)
    assert not {"text", "terms"} & set(listed.low)
    # Times are bounded outwards, in milliseconds.
    assert listed.low["ts"] <= 1_700_000_000_000_010 and listed.high["ts"] >= 1_700_000_000_000_017
    table = pa.table(DeltaTable(hand_home.table(names.OBJECTS)).to_pyarrow_table()).cast(SCHEMA)
    assert table.sort_by("object_key").equals(pa.Table.from_batches([rows(10, 8)]))


def test_a_filter_on_any_column_finds_its_rows(hand_home: Home) -> None:
    """Readers must not take a column without bounds for one without values."""
    commit_files(hand_home, names.OBJECTS, [written(hand_home, rows(1, 4))], application="t", transaction=1)
    table = DeltaTable(hand_home.table(names.OBJECTS))
    assert table.to_pyarrow_table(filters=[("object_id", "=", "3")]).num_rows == 1
    assert table.to_pyarrow_table(filters=[("lon", "=", 0.0)]).num_rows == 4
    late = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC) + dt.timedelta(microseconds=3)
    assert table.to_pyarrow_table(filters=[("ts", ">=", late)]).num_rows == 2


def test_files_are_replaced_in_one_commit(hand_home: Home) -> None:
    first = written(hand_home, rows(1, 2))
    commit_files(hand_home, names.OBJECTS, [first], application="t", transaction=1)
    before = DeltaTable(hand_home.table(names.OBJECTS)).version()
    commit_files(hand_home, names.OBJECTS, [written(hand_home, rows(5, 1))], [first], application="t", transaction=2)
    assert DeltaTable(hand_home.table(names.OBJECTS)).version() == before + 1
    assert [file.low["object_key"] for file in list_data_files(hand_home, names.OBJECTS)] == [5]


def test_no_file_where_no_row_comes(hand_home: Home) -> None:
    writer = FileWriter(hand_home.table(names.OBJECTS), SCHEMA)
    writer.write(rows(1, 0))
    assert writer.close() is None and not Path(writer.address).exists()


def test_tasks_read_each_row_group_once(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROW_GROUP", 10)
    file = written(hand_home, rows(0, 95))
    small = written(hand_home, rows(200, 3))
    tasks = split_into_tasks(addresses_and_rows(hand_home, names.OBJECTS, [file, small]), rows=20)
    assert len(tasks) == 5
    found = [key for task in tasks for batch in read_slices(task, ["object_key"]) for key in batch[0].to_pylist()]
    assert sorted(found) == [*range(95), 200, 201, 202]


def test_a_batch_is_within_a_row_group(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group ends early if its rows are large, so that a batch of them stays small."""
    monkeypatch.setattr(files, "BUFFERED_BYTES", 10 * rows(0, 10).nbytes)
    writer = FileWriter(hand_home.table(names.OBJECTS), SCHEMA)
    for first in range(0, 200, 10):
        writer.write(rows(first, 10))
    file = writer.close()
    assert file is not None
    (task,) = split_into_tasks(addresses_and_rows(hand_home, names.OBJECTS, [file]))
    batches = list(read_slices(task, ["object_key"]))
    assert [key for batch in batches for key in batch[0].to_pylist()] == list(range(200))
    assert max(len(batch) for batch in batches) <= 120


def test_a_range_reads_only_its_rows(hand_home: Home) -> None:
    file = written(hand_home, rows(0, 50))
    wanted = KeyRange("object_key", 10, 13)
    commit_files(hand_home, names.OBJECTS, [file], application="t", transaction=1)
    listed = list_data_files(hand_home, names.OBJECTS)
    (slices,) = split_into_tasks(addresses_and_rows(hand_home, names.OBJECTS, wanted.files(listed)))
    assert [key for batch in read_slices(slices, ["object_key"], wanted) for key in batch[0].to_pylist()] == [
        11,
        12,
        13,
    ]
    assert not KeyRange("object_key", 49, 99).files(listed)
    assert isinstance(slices[0], Slice)


def test_a_file_that_only_its_node_sees_is_not_committed(hand_home: Home) -> None:
    kept, elsewhere = written(hand_home, rows(0, 3)), written(hand_home, rows(3, 3))
    Path(hand_home.table(names.OBJECTS), elsewhere.path).unlink()
    with pytest.raises(RetryableError, match="all nodes mount"):
        commit_files(hand_home, names.OBJECTS, [kept, elsewhere], application="ingest", transaction=1)
    assert not list_data_files(hand_home, names.OBJECTS)
    assert commit_files(hand_home, names.OBJECTS, [kept], application="ingest", transaction=1)


def test_rows_are_not_appended_to_a_table_with_partitions(hand_home: Home) -> None:
    empty = TABLES[names.WORKER_INDEX].schema.empty_table()
    with pytest.raises(ValueError, match="worker_index has partitions"):
        append_rows(hand_home, names.WORKER_INDEX, empty, {})


def test_a_process_that_commits_what_another_has_committed_deletes_nothing(hand_home: Home) -> None:
    file, other = written(hand_home, rows(1, 3)), written(hand_home, rows(1, 3))
    assert commit_files(hand_home, names.OBJECTS, [file], application="t", transaction=1)
    assert not commit_files(hand_home, names.OBJECTS, [file, other], application="t", transaction=1)
    present = [Path(address).exists() for address, _ in addresses_and_rows(hand_home, names.OBJECTS, [file, other])]
    assert present == [True, False], "the table lists the first file"


SLICE_SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])

ROWS, GROUP = 200, 10
BEGIN = dt.datetime(2026, 3, 1, 12, 30, 0, 1, tzinfo=dt.UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000 + 1


@pytest.fixture(scope="module")
def sliced_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, np.ndarray]]:
    """A file of 20 row groups, in the order of its keys; times rise with them, each up to 5 rows late."""
    writer = FileWriter(str(tmp_path_factory.mktemp("table")), SLICE_SCHEMA, row_group=GROUP)
    values = {"key": np.arange(ROWS) * 3}
    values["ts"] = BEGIN_US + np.arange(ROWS) * 7 - np.random.default_rng(1).integers(0, 36, ROWS)
    columns = [pa.array(values[field.name]).cast(field.type) for field in SLICE_SCHEMA]
    writer.write(pa.RecordBatch.from_arrays(columns, schema=SLICE_SCHEMA))
    writer.close()
    return writer.address, values


@pytest.mark.parametrize("column", ["key", "ts"])
def test_rows_in_a_range(sliced_file: tuple[str, dict[str, np.ndarray]], column: str) -> None:
    address, values = sliced_file
    with open_parquet(address) as stored:
        assert stored.metadata.num_row_groups == ROWS // GROUP
    rnd = np.random.default_rng(2)
    for _ in range(40):
        low, high = np.sort(rnd.choice(values[column], 2)) + rnd.integers(-1, 2, 2)
        found = list(read_slices([Slice(address, 0, ROWS)], ["key", column], KeyRange(column, int(low), int(high))))
        keys = [key for batch in found for key in batch.column("key").to_pylist()]
        is_inside = (values[column] > low) & (values[column] <= high)
        assert keys == values["key"][is_inside].tolist()
        # A row group whose bounds meet the range may have no such row.
        assert len(found) <= len(np.unique(np.flatnonzero(is_inside) // GROUP)) + 2
