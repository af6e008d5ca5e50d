"""Upgrade a home of an older format to the current one, one step for each format (`pststream upgrade`).

A step is idempotent: after a crash it runs again, because the home's mark is written after it. Each change of a table
is one commit. tests/samples keeps a home of each older format.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from deltalake import Schema, write_deltalake

from pststream import names
from pststream.delta_tables import open_dataset
from pststream.open_tables import open_table, translate_delta_errors
from pststream.state.crash_points import crash_point
from pststream.state.data_files import additions, list_data_files, with_bounds
from pststream.state.home import APPEND_ONLY, BOUNDED_COLUMNS, FORMAT, MARK, OLDEST, Home, table_properties
from pststream.state.log_entries import commit_entry
from pststream.state.tables import TABLES


def upgrade(home: Home) -> dict[str, Any]:
    """Upgrade a home; returns its format before and after. Raises HomeError if it cannot be upgraded."""
    _mark(home)
    with home.locked():
        mark = _mark(home)
        before = mark["format"]
        for format in range(before, FORMAT):
            STEPS[format](home)
            crash_point("upgrade.stepped")
            home.write_mark(mark | {"format": format + 1})
    home.check()
    return {"format_before": before, "format": FORMAT}


def _mark(home: Home) -> dict[str, Any]:
    """Read the mark of a home that has this format or can be upgraded."""
    try:
        mark: dict[str, Any] = json.loads(home.files.read(MARK))
        upgradable = OLDEST <= mark["format"] < FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        upgradable = False
    if not upgradable:
        home.check()
    return mark


def _to_format_3(home: Home) -> None:
    """Add the tables of the landing gate and of the results of checks."""
    home.create_tables((names.QUARANTINE, names.QUALITY_RESULTS))


def _to_format_4(home: Home) -> None:
    """Add the tables of delivery."""
    home.create_tables((names.DELIVERIES, names.DEAD_LETTERS))


def _to_format_5(home: Home) -> None:
    """Add the columns of `plans` that name the plan which a newer plan retires."""
    _add_columns(home, 5)


def _to_format_6(home: Home) -> None:
    """Add the kind of a request, and rename the column `told` of `deliveries` to `position`."""
    _add_columns(home, 6)
    _rename_column(home, names.DELIVERIES, "told", "position")


def _to_format_7(home: Home) -> None:
    """Declare comments, NOT NULL, append-only tables and more bounded columns; no file changes."""
    for table in TABLES.values():
        stored = open_table(home.table(table.name))
        metadata = stored.metadata()
        wanted = metadata.configuration | {
            key: value
            for key, value in table_properties(table, home.table(table.name)).items()
            if key in (APPEND_ONLY, BOUNDED_COLUMNS)
        }
        declared = table.delta_schema  # an older home has its added columns at the end
        schema = Schema.from_arrow(pa.schema([declared.field(field.name) for field in stored.schema().fields]))
        if (schema, wanted) == (stored.schema(), metadata.configuration):
            continue
        changed = {
            "id": metadata.id, "name": metadata.name, "description": metadata.description,
            "format": {"provider": "parquet", "options": {}}, "schemaString": schema.to_json(),
            "partitionColumns": metadata.partition_columns, "createdTime": metadata.created_time,
            "configuration": wanted,
        }  # fmt: skip
        actions: list[dict[str, Any]] = [{"metaData": changed}]
        if wanted.get(BOUNDED_COLUMNS) != metadata.configuration.get(BOUNDED_COLUMNS):
            # delta-rs skips a file that has no bounds of a column which the property names.
            files = (with_bounds(home, table.name, file) for file in list_data_files(home, table.name))
            actions += additions(table.name, files, rows_change=False)
        commit_entry(home, table.name, stored, "CHANGE COLUMNS", actions)
        crash_point("upgrade.declared")


STEPS: dict[int, Callable[[Home], None]] = {
    2: _to_format_3,
    3: _to_format_4,
    4: _to_format_5,
    5: _to_format_6,
    6: _to_format_7,
}
"""Format to the step that upgrades it to the next."""


def _add_columns(home: Home, format: int) -> None:
    """Add the columns that formats up to this one declare and a stored table lacks; older rows get null."""
    for table in TABLES.values():
        declared = pa.schema([(c.name, c.type) for c in table.columns if 0 < c.since <= format])
        if not len(declared):
            continue
        stored = open_table(home.table(table.name))
        known = {field.name for field in stored.schema().fields}
        columns = [field for field in Schema.from_arrow(declared).fields if field.name not in known]
        if columns:
            with translate_delta_errors(home.table(table.name)):
                stored.alter.add_columns(columns, commit_properties=home.commit_properties(stored))
            crash_point("upgrade.column_added")
        _update_properties(home, table.name)


def _rename_column(home: Home, name: str, old: str, new: str) -> None:
    """Rename a column of a small table: rewrite the table in one commit, which delta-rs offers instead of a rename."""
    schema = TABLES[name].schema
    stored = open_table(home.table(name))
    if old in {field.name for field in stored.schema().fields}:
        columns = [old if column == new else column for column in schema.names]
        rows = (
            pa.RecordBatch.from_arrays(batch.columns, names=schema.names).cast(schema)
            for batch in open_dataset(stored).to_batches(columns=columns)
        )
        with translate_delta_errors(home.table(name)):
            write_deltalake(
                stored,
                pa.RecordBatchReader.from_batches(schema, rows),
                mode="overwrite",
                schema_mode="overwrite",
                commit_properties=home.commit_properties(stored),
            )
        crash_point("upgrade.column_renamed")
    _update_properties(home, name)


def _update_properties(home: Home, name: str) -> None:
    """Set the properties of a table that follow from its columns, where the table has them."""
    address = home.table(name)
    stored = open_table(address)
    wanted, current = table_properties(TABLES[name], address), stored.metadata().configuration
    changes = {
        key: value for key, value in wanted.items() if key == BOUNDED_COLUMNS and current.get(key, value) != value
    }
    if changes:
        with translate_delta_errors(address):
            stored.alter.set_table_properties(changes, commit_properties=home.commit_properties(stored))
