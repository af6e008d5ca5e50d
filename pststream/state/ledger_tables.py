"""Append to, compact, trim and vacuum Delta tables on the driver; write withdrawals; describe lineage datasets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.base.errors import RetryableError
from pststream.base.lineage import LineageDataset
from pststream.base.utc_times import from_micros, utc_now
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, append_rows, commit_files, commit_latest, list_data_files
from pststream.state.delta_log import write_checkpoint
from pststream.state.home import Home
from pststream.state.log_entries import WRITER_IDS, describe_writer, metadata_action
from pststream.state.slices import read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.storage.parquet_files import file_sizes
from pststream.tables.delta_tables import greatest_value, last_transaction
from pststream.tables.ledgers import Ledger
from pststream.tables.open_tables import latest_table, translate_delta_errors

COMPACTED_BYTES = 1024 * 1024
"""While batches run, only files below this size are compacted, so that compaction stays fast as the table grows."""

COMPACT_EVERY = 8
"""Batches, or files of questions, after which the small files of their ledgers are compacted."""

MAX_FILE_BYTES = 128 * 1024 * 1024
"""Greatest size of the files that `maintain` compacts to."""

FILES_KEPT = "delta.deletedFileRetentionDuration"
FILES_KEPT_DEFAULT = "interval 7 days"

COMPACTION, DELETION = "join", "delete"
"""Application ids of the commits that compact a control table, and of those that delete versions."""

ROW_GROUP = 8_192
"""Rows of a row group in compacted files: a reader of the end of a ledger reads one or two."""


def append(home: Home, name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> None:
    """Append rows, given as dicts or as a table with the declared columns, in one commit."""
    schema = TABLES[name].schema
    table = (
        rows.select(schema.names).cast(schema)
        if isinstance(rows, pa.Table)
        else pa.Table.from_pylist(list(rows), schema=schema)
    )
    with translate_delta_errors(home.table(name)):
        append_rows(home, name, table, _writer_of(table))


def _writer_of(rows: pa.Table) -> dict[str, str]:
    bounds = {name: pc.min_max(rows.column(name)).as_py() for name in WRITER_IDS if name in rows.schema.names}
    return describe_writer({name: (both["min"], both["max"]) for name, both in bounds.items()})


def oldest_version(home: Home, name: str) -> int:
    """Return the oldest Delta version that a table can be opened at: `maintain` removes old entries of its log.

    A version needs a checkpoint at or before it, or the first entry of the log, and all entries from there on.
    """
    files = [file.rpartition("/")[2] for file in home.files.names(f"tables/{name}/{names.DELTA_LOG}")]
    entries = {int(file.split(".")[0]) for file in files if file[:1].isdigit() and file.endswith(".json")}
    checkpoints = {int(file.split(".")[0]) for file in files if file[:1].isdigit() and file.endswith(".parquet")}
    oldest = newest = max(entries | checkpoints)
    for start in sorted(checkpoints | {0}, reverse=True):
        if not set(range(start + (start in checkpoints), newest + 1)) <= entries:
            break
        oldest = start
    return oldest


def compact(home: Home, name: str, max_bytes: int = COMPACTED_BYTES) -> None:
    """Compact the small files of a control table into files of at most `max_bytes`; each append writes a small file.

    Does nothing if another process compacts the table: two that compact the same files would both commit, which doubles
    their rows (delta-rs 1.x does not detect the conflict). Delivery compacts without the lock of the home, so there is
    a lock for each table.
    """
    if not _small_files(home, name, max_bytes):
        return  # without the lock, which costs three requests in a bucket
    try:
        with home.locked(f"compact-{name}"):
            groups = _small_files(home, name, max_bytes)
            if groups:
                added = [file for group in groups for file in _rewrite(home, name, group)]
                removed = [file for group in groups for file in group]
                last = last_transaction(home.table(name), COMPACTION)
                commit_files(
                    home, name, added, removed, application=COMPACTION, transaction=last + 1, rows_change=False
                )
    except RetryableError:
        return


def _small_files(home: Home, name: str, max_bytes: int) -> list[list[DataFile]]:
    """Return groups of files that one file each shall replace; none if nothing is to be compacted."""
    small = [file for file in list_data_files(home, name) if file.bytes < max_bytes]
    small.sort(key=lambda file: [file.low.get(column, -1) for column in WRITER_IDS])
    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in small:
        if size >= max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]


def _rewrite(home: Home, name: str, files: Iterable[DataFile], kept: pc.Expression | None = None) -> list[DataFile]:
    """Write the rows of files to a new file, or only some of them; no file if there are no rows."""
    schema = TABLES[name].schema
    writer = FileWriter(home.table(name), schema, row_group=ROW_GROUP)
    slices = [whole_file(f"{home.table(name)}/{file.path}") for file in files]
    for rows in read_slices(slices, schema.names):
        writer.write(rows if kept is None else rows.filter(kept))
    written = writer.close()
    return [written] if written else []


def trim_log(home: Home, name: str, days: int) -> None:
    """Remove entries of a table's log that are older than its retention.

    days: how long `vacuum` keeps removed files. A checkpoint must list removed files for as long, or `vacuum` goes
    by the age of the files instead. A table that nothing was committed to since it was made has no entry to remove, and
    gets no checkpoint.
    """
    kept = f"interval {days} days"
    with latest_table(home.table(name)) as table:
        properties, is_new = table.metadata().configuration, table.version() == 0
    if properties.get(FILES_KEPT, FILES_KEPT_DEFAULT) != kept:
        commit_latest(
            home,
            name,
            "SET TBLPROPERTIES",
            lambda table: [metadata_action(table, {**table.metadata().configuration, FILES_KEPT: kept})],
        )
    elif is_new:
        return
    write_checkpoint(home.table(name))


def vacuum(home: Home, name: str, days: int) -> int:
    """Remove files that no version of the last `days` lists: compacted files, and files of killed tasks.

    Returns the number of removed files. A file that a task is still writing is younger than `days`.
    """
    root = home.table(name)
    with latest_table(root) as table, translate_delta_errors(root):
        # A dry run, as delta-rs would also commit that it has run, and flush nothing.
        unlisted = table.vacuum(24 * days, dry_run=True, enforce_retention_duration=False, full=True)
    # The dry run also lists files that an earlier vacuum removed.
    sizes = file_sizes([f"{root}/{path}" for path in unlisted])
    present = [f"tables/{name}/{path}" for path, size in zip(unlisted, sizes) if size is not None]
    home.check_locks()  # files of a next holder, which the table that was opened lacks, are not among them
    home.files.delete(present)
    return len(present)


def delete_versions(home: Home, name: str, column: str, first: int, last: int = names.MAX_INT64) -> None:
    """Delete the rows with a value of `column` in [first, last] in one commit; the column is a plan or index version.

    Files that also have other rows are written again without these.
    """
    removed = [
        file
        for file in list_data_files(home, name)
        if first <= file.partition.get(column, first) <= last and file.may_contain(column, first, last)
    ]
    if removed:
        kept = (pc.field(column) < first) | (pc.field(column) > last)
        mixed = [file for file in removed if column not in file.partition]
        added = [new for file in mixed for new in _rewrite(home, name, [file], kept)]
        transaction = last_transaction(home.table(name), DELETION) + 1
        commit_files(home, name, added, removed, application=DELETION, transaction=transaction, edited=0)


_SQL_TYPES = {
    pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double", pa.float32(): "float",
    pa.string(): "string", pa.bool_(): "boolean", TIME: "timestamp",
}  # fmt: skip


def lineage_table(home: Home, name: str, rows: str | None = None) -> LineageDataset:
    """Return the dataset of a table; `rows` is the figure of a run that counts the rows it writes."""
    return LineageDataset(home.table(name), _columns(name), rows)


@cache
def _columns(name: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((column.name, _sql_type(column.type), column.meaning) for column in TABLES[name].columns)


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_sql_type(kind.key_type)}, {_sql_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_sql_type(field.type)}' for field in kind)}>"
    return _SQL_TYPES[kind]


PATH = "withdrawal"
"""Path of a withdrawal in `files`."""


def append_withdrawal(
    home: Home, ledger: Ledger, keys: np.ndarray, watermark: int | None, options: Mapping[str, Any], rejected: int = 0
) -> int:
    """Write the keys of the objects, then the row of `files` that makes the withdrawal count; return its number.

    keys: int64[n], ascending
    watermark: after the withdrawal, microseconds; None: no object is left
    options: why, for the ledger
    rejected: rejects that the caller writes
    """
    withdrawal_id = name_withdrawn(home, keys)
    row = {
        "file_seq": ledger.next_file_seq, "ingest_id": ledger.next_ingest_id, "kind": names.OBJECTS, "path": PATH,
        "sha256": "", "bytes": 0, "options": json.dumps({"objects": len(keys), **options}), "status": "done", "rows": 1,
        "accepted": 0, "rejected": rejected, "watermark": ledger.watermark(), "min_ts": None,
        "max_ts": None if watermark is None else from_micros(watermark), "started_at": utc_now(),
        "withdrawal_id": withdrawal_id,
    }  # fmt: skip
    append(home, names.FILES, [row])
    crash_point("withdraw.done")
    return withdrawal_id


def name_withdrawn(home: Home, keys: np.ndarray) -> int:
    """Write the keys of the rows of a withdrawal, which does not count yet: int64[n]; return its number."""
    withdrawal_id: int = greatest_value(home.table(names.WITHDRAWALS), "withdrawal_id") + 1
    ids = pa.array(np.full(len(keys), withdrawal_id, np.int64))
    append(home, names.WITHDRAWALS, pa.table({"withdrawal_id": ids, "log_key": keys}))
    crash_point("withdraw.named")
    return withdrawal_id
