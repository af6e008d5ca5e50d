"""Joining the small files that each ingest and each batch leave in the large tables, by tasks, without changing a row.

Not by Delta's own OPTIMIZE: delta-rs rounds the greatest time of a file down to milliseconds, so that a reader that
skips files by it would miss rows; and tasks read row groups, which have a size of ours.
"""

from dataclasses import dataclass

from pststream import names
from pststream.pipeline.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, FileWriter, commit, data_files, located
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices
from pststream.state.tables import TABLES

ORDERED_BY = {
    names.OBJECTS: "object_key",
    names.REQUESTS: "request_key",
    names.REJECTS: "ingest_id",
    names.MATCHES: "batch_id",
}
"""The column that rises from file to file; neighbours are joined, so that its bounds stay narrow."""

MOST_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class Group:
    """Neighbouring files of a table that become one."""

    table: str
    root: str
    paths: tuple[str, ...]


def join_files(home: Home, settings: Settings) -> int:
    """Join neighbours into files of MOST_BYTES at most, in one commit a table; returns the files that are gone by that.

    Delta is told that no rows changed, so that who reads the table as a stream is told of none twice. The home is
    locked.
    """
    gone = 0
    for name, column in ORDERED_BY.items():
        groups = _groups(data_files(home, name), column)
        if not groups:
            continue
        tasks = [Group(name, home.table(name), tuple(path for path, _ in located(home, name, held))) for held in groups]
        added = [file for file in get_engine(settings).run_tasks(tasks, _joined) if file]
        removed = [file for held in groups for file in held]
        # A try that was killed has committed nothing.
        last = ledger_tables.last_transaction(home, name, "join")
        commit(home, name, added, removed, application="join", transaction=last + 1, rows_change=False)
        gone += len(removed) - len(added)
    return gone


def _groups(files: list[DataFile], column: str) -> list[list[DataFile]]:
    """Neighbours that are to be joined, two or more."""
    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted(files, key=lambda file: (file.low.get(column, -1), file.path)):
        if groups[-1] and size + file.bytes > MOST_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]


def _joined(group: Group) -> DataFile | None:
    writer = FileWriter(group.root, TABLES[group.table].schema)
    slices = [Slice(path, 0, names.NEVER_US) for path in group.paths]
    for rows in read_slices(slices, writer.schema.names):
        writer.write(rows)
    return writer.close()
