"""A table that is kept open equals one that is opened, whatever other programs did to it between two uses."""

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from pststream.base import names
from pststream.base.errors import RetryableError
from pststream.tables import open_tables
from pststream.tables.open_tables import latest_table, open_table, table_and_values, translate_delta_errors
from tests.conformance.counting_storage import PREFIX

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
@pytest.mark.parametrize("seed", range(4))
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


def test_a_table_made_again_is_opened(tmp_path: Path) -> None:
    address = str(tmp_path / "table")
    append(address, 0)
    assert_kept_equals_opened(address)
    make_again(address, 0)
    append(address, 7)
    assert_kept_equals_opened(address)


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


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_entries_that_are_removed_behind_a_checkpoint_are_not_read(
    tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version stays, so there is no later name."""
    monkeypatch.setitem(names.STORAGES, PREFIX, "tests.conformance.counting_storage")
    address = str(tmp_path / "table")
    append(address, 0)
    commit_transaction(address, 1)
    append(address, 2)
    with latest_table(prefix + address):
        pass
    remove_old_entries(address, 4)
    assert_kept_equals_opened(prefix + address)


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
