"""Steps of an upgrade: what the tables look like after it, also if it is killed at any point and run again."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pytest

from pststream import names
from pststream.delta_tables import open_dataset
from pststream.open_tables import open_table
from pststream.reports.views.definitions import VIEWS
from pststream.reports.views.dialects import DUCKDB
from pststream.settings import Settings
from pststream.state import upgrade as steps
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.deliveries import SinkProgress, read_progress
from pststream.state.home import APPEND_ONLY, BOUNDED_COLUMNS, FORMAT, OLDEST, Home
from pststream.state.slices import Slice, read_slices
from pststream.state.tables import ADDED_COLUMNS, TABLES
from tests.old_homes import unpacked


@pytest.fixture(scope="module")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("new") / "home")
    made.init()
    return made


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
def test_the_log_declares_what_that_of_a_new_home_does(format: int, new_home: Home, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    steps.upgrade(home)
    for name, table in TABLES.items():
        upgraded, new = (open_table(one.table(name)) for one in (home, new_home))
        fields, wanted = ({field.name: field for field in one.schema().fields} for one in (upgraded, new))
        assert fields == wanted
        for key in (APPEND_ONLY, BOUNDED_COLUMNS):
            assert upgraded.metadata().configuration.get(key) == new.metadata().configuration.get(key)
        rows = upgraded.to_pyarrow_table()
        for column in table.columns:
            assert fields[column.name].metadata == ({"comment": column.meaning} if column.meaning else {})
            assert fields[column.name].nullable is column.nullable
            assert column.nullable or not rows.column(column.name).null_count
        assert upgraded.protocol().min_writer_version == 2


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_columns_that_older_files_lack_are_declared_as_added(format: int, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    for table in TABLES.values():
        if not Path(home.table(table.name)).exists():
            continue
        stored = {field.name for field in open_table(home.table(table.name)).schema().fields}
        renamed = {**steps.RENAMED.get(table.name, {}), **steps.RENAMED_BEFORE.get(table.name, {})}
        lacking = {column.name for column in table.columns} - stored - set(renamed)
        assert lacking == {column.name for column in table.columns if column.since > format}


def test_an_upgraded_home_has_the_default_number_of_buckets(tmp_path: Path) -> None:
    home = Home(unpacked(FORMAT - 1, tmp_path).path)
    steps.upgrade(home)
    assert home.answer_buckets == Settings.answer_buckets
    more = Home(tmp_path / "more")
    more.init(answer_buckets=3)
    assert more.answer_buckets == 3


def test_added_columns_are_nullable_and_of_one_type() -> None:
    added = [column for table in TABLES.values() for column in table.columns if column.since]
    assert added and all(column.nullable and ADDED_COLUMNS[column.name] == column.type for column in added)


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_older_files_are_searched_by_the_new_bounds(format: int, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    before = open_table(home.table(names.OBJECTS)).to_pyarrow_table().to_pylist()
    steps.upgrade(home)
    table = open_table(home.table(names.OBJECTS))
    assert len(table.file_uris()) > 1 and pa.table(table.get_add_actions(flatten=True))["min.lon"].null_count == 0
    dataset = open_dataset(table)
    assert sorted(map(str, dataset.to_table().to_pylist())) == sorted(map(str, before))
    for row in before:
        for name in ("object_id", "lon", "lat"):
            wanted = sum(other[name] == row[name] for other in before)
            assert dataset.count_rows(filter=pds.field(name) == row[name]) == wanted


def test_rows_written_before_have_null(tmp_path: Path) -> None:
    home = Home(unpacked(5, tmp_path).path)
    steps.upgrade(home)
    columns = ["kind", "subscription_id", "request_key"]
    files = addresses_and_rows(home, names.REQUESTS, list_data_files(home, names.REQUESTS))
    batches = list(read_slices([Slice(path, 0, 2**62) for path, _ in files], columns))
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
    names_now = {"told": "position", "limit": "message_limit", "at": "written_at"}
    assert after == [{names_now.get(k, k): v for k, v in row.items()} for row in before] != []
    assert read_progress(home, "sent") == SinkProgress(1, 14, False, 0, 60, "down")


def as_now(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row of an older home with the names and types of this version."""
    earlier = {**steps.RENAMED.get(name, {}), **steps.RENAMED_BEFORE.get(name, {})}
    names_now = {old: new for new, old in earlier.items()}
    changed = {names_now.get(column, column): value for column, value in row.items()}
    if name == names.BATCHES and isinstance(changed["seconds_by_step"], str):
        changed["seconds_by_step"] = list(json.loads(changed["seconds_by_step"]).items())
    if name == names.QUALITY_RESULTS and isinstance(changed["results"], str):
        results = json.loads(changed["results"])
        numeric = [None if isinstance(one["value"], str) else float(one["value"]) for one in results]
        changed["results"] = [one | {"value": value} for one, value in zip(results, numeric)]
    return {column.name: changed.get(column.name) for column in TABLES[name].columns}


def stored_rows(home: Home, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_dataset(open_table(home.table(name))).to_table().to_pylist()
    return rows


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("format", range(OLDEST, FORMAT))
def test_all_rows_are_kept(format: int, tmp_path: Path) -> None:
    home = Home(unpacked(format, tmp_path).path)
    known = {name for name in TABLES if Path(home.table(name)).exists()}
    before = {name: stored_rows(home, name) for name in known}
    if format == 7:
        assert all(before[name] for name in steps.RENAMED), "the sample has rows in each table that is written again"
    versions = {name: open_table(home.table(name)).version() for name in known}
    steps.upgrade(home)
    for name in known:
        wanted = [as_now(name, row) for row in before[name]]
        assert comparable(stored_rows(home, name)) == comparable(wanted)
        assert open_table(home.table(name)).version() <= versions[name] + 4


def test_rows_written_again_are_searched_by_each_column(tmp_path: Path) -> None:
    home = Home(unpacked(7, tmp_path).path)
    steps.upgrade(home)
    for name in steps.RENAMED:
        dataset = open_dataset(open_table(home.table(name)))
        rows = dataset.to_table()
        for column in (field.name for field in rows.schema if not pa.types.is_nested(field.type)):
            values = rows.column(column).to_pylist()
            for value in set(values) - {None}:
                assert dataset.count_rows(filter=pds.field(column) == value) == values.count(value), (name, column)


def test_readers_of_a_stream_get_no_row_twice(tmp_path: Path) -> None:
    home = Home(unpacked(7, tmp_path).path)
    steps.upgrade(home)
    log = Path(home.table(names.REQUESTS), "_delta_log")
    actions = [json.loads(line) for line in sorted(log.glob("*.json"))[-1].read_text("utf-8").splitlines()]
    files = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    assert len(files) >= 2 and not any(file["dataChange"] for file in files)


def test_no_column_has_a_name_that_sql_reserves() -> None:
    columns = {column.name for table in TABLES.values() for column in table.columns}
    columns |= {
        column for view in VIEWS for column in re.findall(r"\w+", VIEWS[view](DUCKDB, str).partition("FROM")[0])
    }
    assert not columns & {"at", "limit"}


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
    written = {"upgrade.written_again"} if format < 8 else set()
    assert seen == {"upgrade.stepped", "upgrade.declared", "upgrade.column_added"} | written
    assert schemas(home) == schemas(whole)
    for name in TABLES:
        rows = [open_dataset(open_table(one.table(name))).to_table().to_pylist() for one in (home, whole)]
        assert rows[0] == rows[1]
