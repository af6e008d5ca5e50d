"""Run `pststream maintain`: remove old rows, compact the index and all tables, trim Delta logs, delete unused files."""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType

from pststream.answers.bucket_file import read_parts
from pststream.base import names
from pststream.base.arrow_columns import count_terms
from pststream.base.progress import Counted, Progress, StepCounter, TaskCounter, no_progress
from pststream.base.utc_times import utc_now
from pststream.engine.running_engine import get_engine
from pststream.input.data_docs import delete_old_docs
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.bucket_snapshots import TRANSACTIONS, last_snapshot, list_boundary_files, write_snapshot
from pststream.pipeline.answers.fold_bucket import open_previous_state
from pststream.pipeline.answers.log_rows import READ_ROWS, list_state_files
from pststream.pipeline.index.compact_index import compact_index
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.pipeline.ingest import retry_rejects
from pststream.pipeline.questions.question_ledger import commit_waiting_answers
from pststream.pipeline.upkeep.old_rows import remove_old
from pststream.pipeline.upkeep.pairs_table import check_gold, compact_pairs
from pststream.pipeline.upkeep.term_statistics import drop_old_statistics
from pststream.search.open_snapshot import discard_segments, list_segments, object_cache
from pststream.settings import Settings
from pststream.state import ledger_tables, quarantine, scratch
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import delete_older_indexes, index_files
from pststream.state.plans import current_version, index_version
from pststream.state.slices import read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.storage.array_cache import Paths
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import Ledger

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

COMPACTIONS = "join"
"""The application of the transaction ids of compactions, in the tables' Delta logs."""


def compact_tables(home: Home, settings: Settings) -> int:
    """Rewrite neighbouring files as files of at most MAX_BYTES, in one commit a table; the home is locked.

    Returns the number of files before, minus the number of files after.
    The commits declare that they change no data, so that a reader of the table as a stream gets no row twice. Delta's
    own OPTIMIZE is not used: delta-rs rounds the greatest time of a file down to milliseconds, so a reader that skips
    files by it would miss rows. Besides, tasks read row groups, whose size PSTStream chooses.
    """
    fewer = 0
    for name, column in ORDERED_BY.items():
        groups = _neighbours(list_data_files(home, name), column)
        if not groups:
            continue
        tasks = [
            ([path for path, _ in addresses_and_rows(home, name, files)], dict(files[0].partition)) for files in groups
        ]
        write = partial(_write_compacted, home.table(name), TABLES[name].schema)
        added = [file for written in get_engine(settings, home).run_tasks(tasks, write) for file in written]
        removed = [file for files in groups for file in files]
        # A compaction that was killed has committed nothing, so each try has a transaction id of its own.
        last = last_transaction(home.table(name), COMPACTIONS)
        commit_files(home, name, added, removed, application=COMPACTIONS, transaction=last + 1, rows_change=False)
        fewer += len(removed) - len(added)
    return fewer


def _neighbours(files: Iterable[DataFile], column: str) -> list[list[DataFile]]:
    """Return groups of two or more neighbours in a partition, of MAX_BYTES together at most.

    Files with equal values in `column` are in the order of their rows.
    """

    def order(file: DataFile) -> tuple[str, int, int, int, str]:
        bounds = file.low.get(column, -1), file.high.get(column, -1), file.low.get("row", -1)
        return str(file.partition), *bounds, file.path

    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted(files, key=order):
        last = groups[-1]
        if last and (size + file.bytes > MAX_BYTES or file.partition != last[0].partition):
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]


def _write_compacted(root: str, schema: pa.Schema, task: tuple[list[str], dict[str, Any]]) -> list[DataFile]:
    """Write the rows of files to one file, or to several of about MAX_FILE_TERMS at most."""
    paths, partition = task
    writer, written, terms = FileWriter(root, schema, partition), list[DataFile | None](), 0
    for rows in read_slices(map(whole_file, paths), writer.schema.names):
        writer.write(rows)
        terms += count_terms(rows)
        if terms >= names.MAX_FILE_TERMS:
            written.append(writer.close())
            writer, terms = FileWriter(root, schema, partition), 0
    return [file for file in (*written, writer.close()) if file is not None]


def delete_old_outcomes(home: Home, days: float) -> int:
    """Delete the outcomes that were written more than `days` ago; return how many."""
    system, path = home.storage.file_system(f"{home.path}/{names.OUTCOMES}")
    oldest = utc_now() - timedelta(days=days)
    infos = system.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    old = [info.path for info in infos if info.type == FileType.File and info.mtime < oldest]
    home.files.delete([f"{names.OUTCOMES}/{file.removeprefix(path).lstrip('/')}" for file in old])
    return len(old)


def snapshot_answers(home: Home, settings: Settings, progress: Progress) -> dict[str, int] | None:
    """Write the snapshots after the last batch and drop what is older; the home is locked, no batch is unfinished.

    Returns {"batch_id", "rows", "bytes"} of the snapshots, None if the batch has them already or there are no answers.
    """
    last, snapshot = Ledger(home).last_batch, None
    if last is None or not has_standing_queries(home, last["requests_to"]):
        return None
    before = last_snapshot(home)
    if before < last["batch_id"]:
        counted = Counted("writing the snapshot of answers", "bucket", home.answer_buckets)
        write = partial(_snapshot_bucket, context_after(home, settings, last))
        counter = TaskCounter(progress, counted)
        written = get_engine(settings, home).run_tasks(range(home.answer_buckets), write, counter)
        older = [file for file in list_data_files(home, names.ANSWERS) if file.high["batch_id"] < before]
        crash_point("maintain.snapshot_written")
        files = [file for file in written if file is not None]
        commit_files(home, names.ANSWERS, files, older, application=TRANSACTIONS, transaction=last["batch_id"])
        crash_point("maintain.snapshot")
        sizes = {name: sum(getattr(file, name) for file in files) for name in ("rows", "bytes")}
        snapshot = {"batch_id": last["batch_id"], **sizes}
    # State rows and boundaries up to the batch of the last snapshot but one. Whole files are dropped, since `maintain`
    # compacts only rows after that batch.
    batches = {file.high["batch_id"] for file in list_data_files(home, names.ANSWERS)}
    bound = max((batch for batch in batches if batch < last["batch_id"]), default=0)
    files = [*list_state_files(home, -1, bound), *list_boundary_files(home, -1, bound)]
    unneeded = [file for file in files if file.high["batch_id"] <= bound]
    if unneeded:
        commit_files(home, names.ANSWER_LOG, [], unneeded, application=TRANSACTIONS, transaction=bound)
        crash_point("maintain.state_dropped")
    return snapshot


def _snapshot_bucket(context: AnswerContext, bucket: int) -> DataFile | None:
    with open_previous_state(context, bucket, context.queries()) as state:
        return write_snapshot(Home(context.home), context.previous.batch_id, bucket, read_parts(state, READ_ROWS))


def maintain(home: Home, settings: Settings, progress: Progress = no_progress) -> dict[str, Any]:
    """Compact the index and all tables of a home, and delete data that no command needs any more.

    Writes the snapshots of answers of subscriptions with memory, and drops what they make unnecessary. Finishes an
    erasure that was interrupted, and removes rows that are older than the setting `keep` allows. Applies
    deletions to the index and drops subscriptions that ended before every object still to be matched; compacts the
    tables; deletes old log entries, data files that their table has not listed for `retention_days`, outcomes of jobs
    that are as old, copies of files that have left the quarantine, old Data Docs, term statistics that no later batch
    or question reads, and this node's segments of objects in files that were removed or compacted. The index and the
    answers are left as they are while a batch is unfinished: its late subscriptions must still meet stored objects.

    Returns {"plan_version", "dropped_rows" (of the index), "files_before", "files_after" (of the index), "files_joined"
    (by how many files the tables were compacted), "files_removed", "rows_expired": {table: rows older than `keep`},
    "answer_snapshot": {"batch_id", "rows", "bytes"}, None if none was written}.
    """
    home.check()
    check_gold(home, settings)
    with home.locked():
        segments = _segment_groups(home, settings)
        idle = Ledger(home).unfinished_batch() is None
        snapshot = snapshot_answers(home, settings, progress) if idle else None
        expired = remove_old(home, settings, progress)
        commit_waiting_answers(home)  # otherwise their files, which no table lists, may be deleted below
        version = current_version(home)
        before = len(index_files(home, version))
        if idle:
            delete_older_indexes(home, index_version(home, version))
        dropped = compact_index(home, settings, version) if before and idle else 0
        compacted = compact_tables(home, settings)
        drop_old_statistics(home)
        if names.OBJECTS in expired:
            object_cache(settings.cache_dir, settings.cache_bytes).clear_objects()
        else:
            discard_segments(settings, segments.difference(_segment_groups(home, settings)))
        for table in TABLES.values():
            if table.writer == "control":
                ledger_tables.compact(home, table.name, ledger_tables.MAX_FILE_BYTES)
            ledger_tables.trim_log(home, table.name, settings.retention_days)
        removed = _delete_unused_files(home, settings.retention_days, progress)
        compact_pairs(home, settings)
        return {
            "plan_version": version,
            "dropped_rows": dropped,
            "files_before": before,
            "files_after": len(index_files(home, version)),
            "files_joined": compacted,
            "files_removed": removed,
            "rows_expired": expired,
            "answer_snapshot": snapshot,
        }


def _segment_groups(home: Home, settings: Settings) -> set[Paths]:
    """Return the groups of data files of `objects` that are segments of stored objects now."""
    return set(list_segments(home, settings.cache_dir, settings.cache_bytes).groups)


def _delete_unused_files(home: Home, retention_days: int, progress: Progress) -> int:
    """Delete files that nothing needs any more; return how many of tables and of outcomes of jobs were deleted."""
    quarantine.remove_unneeded_copies(home)
    retry_rejects.remove_unneeded_files(home)
    delete_old_docs(home.files)
    scratch.remove_left_folders(home)
    removed = delete_old_outcomes(home, retention_days)
    counter = StepCounter(progress, "deleting unused files", "table", len(TABLES))
    for table in TABLES.values():
        removed += ledger_tables.vacuum(home, table.name, retention_days)
        counter.add(1)
    return removed
