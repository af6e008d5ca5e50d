"""Steps of an upgrade: what the tables look like after it, also if it is killed at any point and run again."""

from pathlib import Path

import pytest

from pststream import names
from pststream.delta_tables import open_dataset
from pststream.open_tables import open_table
from pststream.state import upgrade as steps
from pststream.state.deliveries import SinkProgress, read_progress
from pststream.state.home import FORMAT, OLDEST, Home
from pststream.state.slices import Slice, read_slices
from pststream.state.tables import ADDED_COLUMNS, TABLES
from tests.old_homes import unpacked


class Killed(Exception):
    """Raised in place of the end of the process."""


def schemas(home: Home) -> dict[str, set[tuple[str, str]]]:
    """Names and types of the stored columns of each table."""
    return {
        name: {(field.name, str(field.type)) for field in open_dataset(open_table(home.table(name))).schema}
        for name in TABLES
    }


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_all_declared_columns_are_there(format: int, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    steps.upgrade(home)
    (tmp_path / "new").mkdir()
    new = Home(tmp_path / "new" / "home")
    new.init()
    assert schemas(home) == schemas(new)


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_columns_that_older_files_lack_are_declared_as_added(format: int, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    for table in TABLES.values():
        if not Path(home.table(table.name)).exists():
            continue
        stored = {field.name for field in open_table(home.table(table.name)).schema().fields}
        lacking = {column.name for column in table.columns} - stored - {"position"}
        assert lacking == {column.name for column in table.columns if column.since > format}


def test_added_columns_are_nullable_and_of_one_type() -> None:
    added = [column for table in TABLES.values() for column in table.columns if column.since]
    assert added and all(column.nullable and ADDED_COLUMNS[column.name] == column.type for column in added)


def test_rows_written_before_have_null(tmp_path: Path) -> None:
    home = Home(unpacked(5, tmp_path).path)
    steps.upgrade(home)
    paths = sorted(Path(home.table(names.REQUESTS)).glob("*.parquet"))
    columns = ["kind", "subscription_id", "request_key"]
    batches = list(read_slices([Slice(str(path), 0, 2**62) for path in paths], columns))
    assert sum(batch.num_rows for batch in batches) == 56
    for batch in batches:
        assert batch.schema.names == columns
        assert batch.column("kind").null_count == batch.num_rows
        assert batch.column("subscription_id").null_count == 0


def test_the_delivery_position_is_kept(tmp_path: Path) -> None:
    home = Home(unpacked(5, tmp_path).path)
    before = open_dataset(open_table(home.table(names.DELIVERIES))).to_table().to_pylist()
    steps.upgrade(home)
    after = open_dataset(open_table(home.table(names.DELIVERIES))).to_table().to_pylist()
    assert after == [{"position" if k == "told" else k: v for k, v in row.items()} for row in before] != []
    assert read_progress(home, "sent") == SinkProgress(1, 14, False, 0, 60, "down")


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_killed_at_each_point_and_run_again(format: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "whole").mkdir()
    whole = Home(unpacked(format, tmp_path / "whole").path)
    steps.upgrade(whole)
    (tmp_path / "killed").mkdir()
    home = Home(unpacked(format, tmp_path / "killed").path)
    seen: set[str] = set()

    def die_once(point: str) -> None:
        if point not in seen:
            seen.add(point)
            raise Killed

    monkeypatch.setattr(steps, "crash_point", die_once)
    for _ in range(10):
        try:
            steps.upgrade(home)
            break
        except Killed:
            continue
    renamed = {"upgrade.column_renamed"} if format >= 4 else set()  # older homes get the table in its new form
    assert seen == {"upgrade.stepped", "upgrade.column_added"} | renamed
    assert schemas(home) == schemas(whole)
    for name in TABLES:
        rows = [open_dataset(open_table(one.table(name))).to_table().to_pylist() for one in (home, whole)]
        assert rows[0] == rows[1]
