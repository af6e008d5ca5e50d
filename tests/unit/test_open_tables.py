"""A table that is kept open, and its kept rows, equal one that is opened, whatever other programs did to it."""

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from pyarrow.fs import LocalFileSystem, PyFileSystem

from pststream.base import names
from pststream.base.errors import RetryableError
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables import delta_tables, open_tables
from pststream.tables.delta_tables import open_dataset, read_table
from pststream.tables.open_tables import latest_table, open_table, table_and_values, translate_delta_errors
from tests.conformance.counting_storage import PREFIX
from tests.fuzz.cases import seeds

SECRET = "s3cr3t"
SCHEMA = pa.schema([("number", pa.int64()), ("word", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"number": list(numbers), "word": [f"w{n}" for n in numbers]}, schema=SCHEMA)


def state(table: DeltaTable) -> dict[str, Any]:
    """All that the program asks a table for."""
    actions = sorted(pa.table(table.get_add_actions(flatten=True)).to_pylist(), key=lambda action: action["path"])
    return {
        "version": table.version(),
        "files": actions,
        "transaction": table.transaction_version("app"),
        "properties": table.metadata().configuration,
        "schema": pa.schema(table.schema()),
        "rows": table.to_pyarrow_dataset().to_table().sort_by("number").to_pylist(),
    }


def assert_kept_equals_opened(address: str) -> None:
    with latest_table(address) as table:
        assert state(table) == state(open_table(address))


def append(address: str, number: int) -> None:
    write_deltalake(address, rows(number, number + 1), mode="append")


def append_kept(address: str, number: int) -> None:
    with latest_table(address) as table:
        write_deltalake(table, rows(number), mode="append")


def commit_transaction(address: str, number: int) -> None:
    properties = CommitProperties(app_transactions=[Transaction("app", number)])
    write_deltalake(address, rows(number), mode="append", commit_properties=properties)


def compact(address: str, number: int) -> None:
    open_table(address).optimize.compact()


def delete(address: str, number: int) -> None:
    open_table(address).delete(f"number < {number // 2}")


def set_property(address: str, number: int) -> None:
    open_table(address).alter.set_table_properties({"delta.checkpointInterval": str(number % 7 + 2)})


def make_checkpoint(address: str, number: int) -> None:
    open_table(address).create_checkpoint()


def remove_old_entries(address: str, number: int) -> None:
    """As `maintain` does, with a retention of nothing: of the entries only the last one stays."""
    if number % 2:
        append(address, number)
    table = open_table(address)
    table.create_checkpoint()
    for entry in Path(address, "_delta_log").glob("*.json"):
        if int(entry.stem) < table.version():
            entry.unlink()


def make_again(address: str, number: int) -> None:
    """Delete the table and make another at its place, with as many versions."""
    last = open_table(address).version()
    shutil.rmtree(address)
    for version in range(last + 1):
        write_deltalake(address, rows(version), mode="append")


STEPS = (append, append_kept, commit_transaction, compact, delete, set_property, make_checkpoint, remove_old_entries)


@pytest.mark.parametrize("prefix", ["", PREFIX])
@seeds(4)
def test_random_changes(tmp_path: Path, seed: int, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder, and in a storage that lists objects."""
    monkeypatch.setitem(names.STORAGES, PREFIX, "tests.conformance.counting_storage")
    address, draw = str(tmp_path / "table"), random.Random(seed)
    append(address, 0)
    for number in range(1, 30):
        step = draw.choice((*STEPS, append, make_again) if number % 10 else (make_again,))
        step(address, number)
        if draw.random() < 0.7:
            assert_kept_equals_opened(prefix + address)


def test_a_log_without_later_names_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "table")
    append(address, 0)
    assert_kept_equals_opened(address)
    with monkeypatch.context() as patch:
        patch.delattr(DeltaTable, "update_incremental")
        assert_kept_equals_opened(address)
        append(address, 7)
        with pytest.raises(AttributeError), latest_table(address):
            pass


def test_a_later_version_may_have_only_a_checkpoint(tmp_path: Path) -> None:
    """As between two removals of upkeep, if the later entry goes first."""
    address = str(tmp_path / "table")
    append(address, 0)
    assert_kept_equals_opened(address)
    append(address, 7)
    make_checkpoint(address, 0)
    Path(address, "_delta_log", f"{1:020}.json").unlink()
    assert_kept_equals_opened(address)


@pytest.mark.parametrize("change", [append, append_kept, make_again])
def test_values_are_those_of_the_version(tmp_path: Path, change: Callable[[str, int], None]) -> None:
    address = str(tmp_path / "table")
    append(address, 0)
    for _ in range(2):
        with table_and_values(address) as (table, values):
            assert values.setdefault("files", table.file_uris()) == table.file_uris()
    assert values
    change(address, 1)
    with table_and_values(address) as (table, values):
        assert not values


def test_a_block_that_fails_closes_the_table(tmp_path: Path) -> None:
    address = str(tmp_path / "table")
    append(address, 0)
    with latest_table(address) as first:
        pass
    with latest_table(address) as second:
        assert second is first
    with pytest.raises(ValueError, match="in between"), latest_table(address):
        raise ValueError("in between")
    with latest_table(address) as third:
        assert third is not first


def test_only_one_thread_has_the_table(tmp_path: Path) -> None:
    address, seen = str(tmp_path / "table"), []
    append(address, 0)

    def use() -> None:
        with latest_table(address) as table:
            seen.append(table.version())

    with latest_table(address) as table:
        other = threading.Thread(target=use)
        other.start()
        append(address, 1)
        other.join(0.2)
        assert other.is_alive() and table.version() == 0, "the block keeps its version"
    other.join()
    assert seen == [1]


def test_an_error_of_the_store_shows_no_secret_of_its_address() -> None:
    quoted = f"Generic S3 error: GET http://user:{SECRET}@127.0.0.1:1/a?X-Amz-Signature={SECRET} failed\n{SECRET}"
    with pytest.raises(RetryableError, match="Generic S3 error") as caught, translate_delta_errors("s3://bucket/table"):
        raise DeltaError(quoted)
    assert SECRET not in str(caught.value)


def test_few_tables_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_tables, "MAX_TABLES", 2)
    monkeypatch.setattr(open_tables, "_kept", {})
    for name in "abc":
        append(str(tmp_path / name), 0)
        assert_kept_equals_opened(str(tmp_path / name))
    assert list(open_tables._kept) == [str(tmp_path / "b"), str(tmp_path / "c")]


TABLE = names.VOCABULARY


def append_words(home: Home, number: int, rows: int = 2) -> None:
    one = {"plan_version": number, "objects": number, "subscriptions": 1}
    words = [f"{number}-{row}" for row in range(rows)]
    ledger_tables.append(home, TABLE, [one | {"term_id": row, "term": word} for row, word in enumerate(words)])


def files_of(home: Home) -> list[Path]:
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
        append_words(hand_home, number)
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
    append_words(hand_home, 1)
    before = read_table(hand_home.table(TABLE))
    [path] = files_of(hand_home)
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
    append_words(hand_home, 1)
    assert read_table(hand_home.table(TABLE)).num_rows == 2
    [path] = files_of(hand_home)
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(pa.ArrowInvalid):
        read_table(hand_home.table(TABLE))


READ_AND_END = """
import sys
from deltalake import DeltaTable
from pststream.tables.delta_tables import open_dataset
data = open_dataset(DeltaTable(sys.argv[1]))
for _ in range(3):
    assert sum(rows.num_rows for rows in data.to_batches(batch_size=1000)) == 12
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of four files, in a folder whose name has to be escaped in a URL."""
    path = str(tmp_path / "Tür und #Tor")
    for file in range(4):
        rows = pa.table({"number": range(3 * file, 3 * file + 3), "kind": ["x y", "é%", "x y"]})
        write_deltalake(path, rows, mode="append", partition_by=["kind"])
    return path


def test_rows_are_those_of_the_table(path: str) -> None:
    data = open_dataset(DeltaTable(path))
    assert sorted(data.to_table().column("number").to_pylist()) == list(range(12))
    found = data.to_table(columns=["number"], filter=(pds.field("kind") == "é%") & (pds.field("number") > 2))
    assert sorted(found.column(0).to_pylist()) == [4, 7, 10]


def test_an_old_version(path: str) -> None:
    assert open_dataset(DeltaTable(path, version=1)).count_rows() == 6


def test_no_thread_of_arrow_needs_the_interpreter(path: str) -> None:
    # A file system written in Python aborts processes that end while Arrow closes a file.
    system = open_dataset(DeltaTable(path)).filesystem
    assert not isinstance(system.base_fs, PyFileSystem)
    assert isinstance(system.base_fs, LocalFileSystem)


def test_processes_that_read_end_in_peace(path: str) -> None:
    started = [subprocess.Popen([sys.executable, "-c", READ_AND_END, path]) for _ in range(6)]
    assert [process.wait(300) for process in started] == [0] * 6
