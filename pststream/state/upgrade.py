"""Upgrade a home of an older format to the current one, one step for each format (`pststream upgrade`).

A step is idempotent: after a crash it runs again, because the home's mark is written after it. Each change of a table
is one commit. tests/samples keeps a home of each older format.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from pststream import names
from pststream.open_tables import open_table
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import (
    DataFile,
    FileWriter,
    additions,
    addresses_and_rows,
    list_data_files,
    removals,
    with_bounds,
)
from pststream.state.home import APPEND_ONLY, BOUNDED_COLUMNS, FORMAT, OLDEST, Home, table_properties
from pststream.state.log_entries import commit_entry, metadata_action
from pststream.state.slices import read_slices, whole_file
from pststream.state.table_types import RESULTS, SECONDS, Table
from pststream.state.tables import TABLES
from pststream.storage.parquet_files import flush_names


def upgrade(home: Home) -> dict[str, Any]:
    """Upgrade a home; returns its format before and after. Raises HomeError if it cannot be upgraded."""
    _mark(home)
    with home.locked():
        mark = _mark(home)
        before = mark["format"]
        home.create_tables(LATER_TABLES)
        for format in range(before, FORMAT):
            STEPS[format](home)
            crash_point("upgrade.stepped")
            home.write_mark({"answer_buckets": Settings.answer_buckets, **mark, "format": format + 1})
    home.check()
    return {"format_before": before, "format": FORMAT}


def _mark(home: Home) -> dict[str, Any]:
    """Read the mark of a home that has this format or can be upgraded."""
    try:
        mark: dict[str, Any] = json.loads(home.files.read(names.HOME_MARK))
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
    """Add the kind of a request."""
    _add_columns(home, 6)


def _to_format_7(home: Home) -> None:
    """Declare comments, NOT NULL, append-only tables and more bounded columns; no file changes."""
    for table in TABLES.values():
        if table.name not in RENAMED:
            _declare(home, table)


def _to_format_8(home: Home) -> None:
    """Rename columns that SQL reserves, and give columns of JSON the types of their values; declare new comments."""
    for table in TABLES.values():
        if table.name in RENAMED:
            _write_again(home, table)
        _declare(home, table)


def _to_format_9(home: Home) -> None:
    """Add the columns for withdrawals and for rejects that can be ingested again; declare comments."""
    _add_columns(home, 9)
    for table in TABLES.values():
        _declare(home, table)


def _to_format_10(home: Home) -> None:
    """Add the column for changes of the term statistics; declare comments."""
    _add_columns(home, 10)
    for table in TABLES.values():
        _declare(home, table)


def _to_format_11(home: Home) -> None:
    """Add the columns for subscriptions with memory; declare comments."""
    _add_columns(home, 11)
    for table in TABLES.values():
        _declare(home, table)


STEPS: dict[int, Callable[[Home], None]] = {
    2: _to_format_3,
    3: _to_format_4,
    4: _to_format_5,
    5: _to_format_6,
    6: _to_format_7,
    7: _to_format_8,
    8: _to_format_9,
    9: _to_format_10,
    10: _to_format_11,
}
"""Format to the step that upgrades it to the next."""

LATER_TABLES = (
    names.ERASURES,
    names.WITHDRAWALS,
    names.TERM_STATISTICS,
    names.QUESTION_FILES,
    names.QUESTION_ANSWERS,
    names.QUESTIONS,
    names.ANSWER_LOG,
    names.ANSWERS,
    names.PLACEMENT_COUNTS,
    names.PLACEMENTS,
    names.PLACEMENT_AREAS,
    names.PLAN_NODES,
    names.TOPK_PLANS,
)
"""Tables of formats 8 and later: the steps from 7 on look at all tables."""

RENAMED = {
    names.REQUESTS: {"effective_at": "at"},
    names.FILES: {"started_at": "at"},
    names.MIGRATIONS: {"decided_at": "at"},
    names.BATCHES: {"seconds_by_step": "seconds"},
    names.QUARANTINE: {"written_at": "at"},
    names.QUALITY_RESULTS: {"checked_at": "at"},
    names.DELIVERIES: {"written_at": "at", "message_limit": "limit"},
    names.DEAD_LETTERS: {"written_at": "at"},
}
"""By table that format 8 writes again, the earlier names of columns."""

RENAMED_BEFORE = {names.DELIVERIES: {"position": "told"}}
"""The same of format 6."""


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
            schema = Schema([*stored.schema().fields, *columns])
            action = metadata_action(stored, stored.metadata().configuration, schema)
            commit_entry(home, table.name, stored, "ADD COLUMN", [action])
            crash_point("upgrade.column_added")


def _declare(home: Home, table: Table) -> None:
    """Declare comments, NOT NULL and properties of a table whose columns have their names and types."""
    stored = open_table(home.table(table.name))
    declared = table.delta_schema  # an older home has its added columns at the end
    schema = Schema.from_arrow(pa.schema([declared.field(field.name) for field in stored.schema().fields]))
    before, wanted = stored.metadata().configuration, _properties(home, table, stored)
    if (schema, wanted) == (stored.schema(), before):
        return
    actions: list[dict[str, Any]] = []
    if wanted.get(BOUNDED_COLUMNS) != before.get(BOUNDED_COLUMNS):
        # delta-rs skips a file that has no bounds of a column which the property names.
        files = (with_bounds(home, table.name, file) for file in list_data_files(home, table.name))
        actions = additions(table.name, files, rows_change=False)
    _commit_columns(home, table, stored, schema, actions)
    crash_point("upgrade.declared")


def _write_again(home: Home, table: Table) -> None:
    """Write the rows of a table into new files with the declared columns; one commit replaces files and columns.

    A rename in the log alone is column mapping, which many readers do not know.
    """
    stored, schema = open_table(home.table(table.name)), Schema.from_arrow(table.delta_schema)
    columns = {field.name: field.type for field in stored.schema().fields}
    if columns == {field.name: field.type for field in schema.fields}:
        return
    earlier = {**RENAMED[table.name], **RENAMED_BEFORE.get(table.name, {})}
    sources = {c.name: earlier[c.name] if earlier.get(c.name) in columns else c.name for c in table.columns}
    files = list_data_files(home, table.name)
    written = [_write_file_again(home, table, sources, file) for file in files]
    added = additions(table.name, (file for file in written if file), rows_change=False)
    flush_names([f"{home.table(table.name)}/{file.path}" for file in written if file])
    _commit_columns(home, table, stored, schema, [*removals(files, rows_change=False), *added])
    crash_point("upgrade.written_again")


def _write_file_again(home: Home, table: Table, sources: dict[str, str], file: DataFile) -> DataFile | None:
    """Write a file with the declared columns; sources: the column of the file for each. Reads a batch at a time."""
    writer = FileWriter(home.table(table.name), table.schema)
    ((address, _),) = addresses_and_rows(home, table.name, [file])
    for rows in read_slices([whole_file(address)], list(sources.values())):
        columns = [PARSERS.get(new, _unchanged)(rows.column(old)) for new, old in sources.items()]
        writer.write(pa.RecordBatch.from_arrays(columns, names=list(sources)))
    return writer.close()


def _parse_seconds(texts: pa.Array) -> pa.Array:
    """Return the map of seconds that each JSON text has; null for null."""
    parsed = (None if text is None else json.loads(text) for text in texts.to_pylist())
    return pa.array([None if one is None else list(one.items()) for one in parsed], SECONDS)


def _parse_results(texts: pa.Array) -> pa.Array:
    """Return the results of expectations that each JSON text has, without values that are texts."""
    parsed = [json.loads(text) for text in texts.to_pylist()]
    numeric = [[one | {"value": None if isinstance(one["value"], str) else one["value"]} for one in p] for p in parsed]
    return pa.array(numeric, RESULTS)


def _unchanged(values: pa.Array) -> pa.Array:
    return values


PARSERS: dict[str, Callable[[pa.Array], pa.Array]] = {"seconds_by_step": _parse_seconds, "results": _parse_results}
"""By column, what reads the JSON that format 7 has in it."""


def _properties(home: Home, table: Table, stored: DeltaTable) -> dict[str, str]:
    """Return the properties of a table with those that follow from its declaration."""
    declared = table_properties(table, home.table(table.name))
    changed = {key: value for key, value in declared.items() if key in (APPEND_ONLY, BOUNDED_COLUMNS)}
    return {**stored.metadata().configuration, **changed}


def _commit_columns(
    home: Home, table: Table, stored: DeltaTable, schema: Schema, actions: Iterable[dict[str, Any]]
) -> None:
    """Commit the columns and the properties of a table, together with actions on its files."""
    changed = metadata_action(stored, _properties(home, table, stored), schema)
    commit_entry(home, table.name, stored, "CHANGE COLUMNS", [changed, *actions])
