"""Rewrite neighbouring files of the tables that grow with the data as larger files, without changing a row.

`maintain` calls this, as each ingest and each batch leaves small files. Delta's own OPTIMIZE is not used: delta-rs
rounds the greatest time of a file down to milliseconds, so a reader that skips files by it would miss rows. Besides,
tasks read row groups, whose size PSTStream chooses.
"""

from dataclasses import dataclass
from typing import Any

from pststream.base import names
from pststream.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.slices import read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction

ORDERED_BY = {
    names.OBJECTS: "object_key",
    names.REQUESTS: "request_key",
    names.REJECTS: "ingest_id",
    names.MATCHES: "batch_id",
    names.QUESTION_ANSWERS: "question_file",
    names.QUESTIONS: "question_file",
    names.ANSWER_LOG: "batch_id",
}
"""By table, the column that rises from file to file. Neighbours are compacted together, so files have narrow ranges."""

MAX_BYTES = 128 * 1024 * 1024

TRANSACTIONS = "join"
"""The application of the transaction ids of compactions, in the tables' Delta logs."""


@dataclass(frozen=True)
class FileGroup:
    """Neighbouring files of a partition of a table that become one; root: the folder of the table."""

    table: str
    root: str
    paths: tuple[str, ...]
    partition: tuple[tuple[str, Any], ...] = ()


def compact_tables(home: Home, settings: Settings) -> int:
    """Rewrite neighbouring files as files of at most MAX_BYTES, in one commit a table; the home is locked.

    Returns the number of files before, minus the number of files after.
    The commits declare that they change no data, so that a reader of the table as a stream gets no row twice.
    """
    fewer = 0
    for name, column in ORDERED_BY.items():
        groups = [
            group for files in _split_partitions(list_data_files(home, name)) for group in _neighbours(files, column)
        ]
        if not groups:
            continue
        tasks = [
            FileGroup(
                name,
                home.table(name),
                tuple(path for path, _ in addresses_and_rows(home, name, files)),
                tuple(files[0].partition.items()),
            )
            for files in groups
        ]
        added = [file for file in get_engine(settings).run_tasks(tasks, _write_compacted) if file]
        removed = [file for files in groups for file in files]
        # A compaction that was killed has committed nothing, so each try has a transaction id of its own.
        last = last_transaction(home.table(name), TRANSACTIONS)
        commit_files(home, name, added, removed, application=TRANSACTIONS, transaction=last + 1, rows_change=False)
        fewer += len(removed) - len(added)
    return fewer


def _split_partitions(files: list[DataFile]) -> list[list[DataFile]]:
    """Return the files of each partition."""
    partitions: dict[tuple[tuple[str, Any], ...], list[DataFile]] = {}
    for file in files:
        partitions.setdefault(tuple(file.partition.items()), []).append(file)
    return list(partitions.values())


def _neighbours(files: list[DataFile], column: str) -> list[list[DataFile]]:
    """Return groups of two or more neighbours of MAX_BYTES together at most."""
    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted(files, key=lambda file: _order(file, column)):
        if groups[-1] and size + file.bytes > MAX_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]


def _order(file: DataFile, column: str) -> tuple[int, int, int, str]:
    """Return the sort key of a file among those of its table; files of one number are in the order of their rows."""
    return file.low.get(column, -1), file.high.get(column, -1), file.low.get("row", -1), file.path


def _write_compacted(group: FileGroup) -> DataFile | None:
    writer = FileWriter(group.root, TABLES[group.table].schema, dict(group.partition))
    slices = [whole_file(path) for path in group.paths]
    for rows in read_slices(slices, writer.schema.names):
        writer.write(rows)
    return writer.close()
