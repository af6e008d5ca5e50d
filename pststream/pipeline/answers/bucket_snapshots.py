"""Write the snapshots and window boundaries of buckets of answers, and build the state of a bucket from a snapshot.

`maintain` writes the snapshots of all buckets to `answers` in one commit, whose transaction id is their batch. A node
without the file of a bucket builds it from the last snapshot; `answer_log` has what changed after that.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.bucket_file import BucketState, build_bucket, unite_objects
from pststream.answers.contract import BatchEnd, Logged, Subscriptions, Thresholds, Values
from pststream.answers.fold import with_ends
from pststream.base import names
from pststream.base.arrays import find_among
from pststream.base.arrow_columns import TIME, integers
from pststream.base.utc_times import to_micros
from pststream.pipeline.answers.log_rows import SCHEMA as LOG_SCHEMA
from pststream.pipeline.answers.log_rows import complete_rows, of_batches, slices_of, split_keys
from pststream.pipeline.answers.standing_queries import StandingQueries
from pststream.search.object_snapshot import LAST_KEY
from pststream.state.data_files import DataFile, FileWriter, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import read_batches

SCHEMA = TABLES[names.ANSWERS].schema

TRANSACTIONS = "snapshots"
"""The application of the commits' transaction ids, which are numbers of batches."""

EVERY_KEY = KeyRange("subscription_key", -1, names.MAX_INT64)

WRITTEN_ROWS = 131_072
"""Rows that are converted at a time."""


def last_snapshot(home: Home) -> int:
    """Return the batch of the last snapshot of all buckets; 0: there is none."""
    return max(last_transaction(home.table(names.ANSWERS), TRANSACTIONS), 0)


def write_snapshot(home: Home, batch_id: int, bucket: int, buffers: Iterable[Logged]) -> DataFile | None:
    """Write the snapshot of a bucket after a batch as a data file, which the caller commits; None if it has no rows.

    buffers: of all live subscriptions, by ascending key, as `read_parts` yields them
    """
    writer = FileWriter(home.table(names.ANSWERS), SCHEMA)
    for entries, limits, _ in buffers:
        for rows in _part_rows(batch_id, bucket, entries, limits):
            writer.write(rows)
    return writer.close()


def _part_rows(batch_id: int, bucket: int, entries: Values, limits: Thresholds) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some subscriptions: of entries, then one for each subscription without entries."""
    owner = np.searchsorted(limits.subscription, entries.subscription)
    for first in range(0, len(owner), WRITTEN_ROWS):
        some = slice(first, first + WRITTEN_ROWS)
        columns = {
            "object_key": entries.object[some],
            "ts": pa.array(entries.ts[some]).cast(TIME),
            "value": entries.value[some],
        }
        yield _rows(batch_id, bucket, limits, owner[some], columns)
    is_empty = np.ones(len(limits.subscription), bool)
    is_empty[owner] = False
    empty = np.flatnonzero(is_empty)
    for first in range(0, len(empty), WRITTEN_ROWS):
        yield _rows(batch_id, bucket, limits, empty[first : first + WRITTEN_ROWS], {})


def _rows(
    batch_id: int, bucket: int, limits: Thresholds, owner: np.ndarray, columns: dict[str, pa.Array | np.ndarray]
) -> pa.RecordBatch:
    """Return rows of `answers` of the subscriptions at the positions `owner`; columns that are not given are null."""
    infinite = limits.object[owner] < 0
    given = columns | {
        "batch_id": np.full(len(owner), batch_id),
        "bucket": np.full(len(owner), bucket),
        "subscription_key": limits.subscription[owner],
        "threshold": limits.value[owner],
        "limit_object_key": pa.array(limits.object[owner], mask=infinite),
        "limit_ts": pa.array(limits.ts[owner], mask=infinite).cast(TIME),
    }
    return complete_rows(given, SCHEMA)


def read_snapshot(home: Home, batch_id: int, bucket: int) -> Logged:
    """Read the buffers and the limits of a bucket from the snapshot after a batch; none if it has no rows."""
    return _read_keys(home, _files_of_bucket(home, batch_id, bucket), batch_id, bucket, EVERY_KEY)


def read_snapshot_parts(home: Home, batch_id: int, bucket: int, keys: np.ndarray) -> Iterator[Logged]:
    """Yield what `read_snapshot` returns in parts of bounded size, by ascending key.

    keys: int64[n], of about the subscriptions of the bucket
    """
    files = _files_of_bucket(home, batch_id, bucket)
    for part in split_keys([keys], files):
        yield _read_keys(home, files, batch_id, bucket, part)


def _files_of_bucket(home: Home, batch_id: int, bucket: int) -> list[DataFile]:
    files = KeyRange("batch_id", batch_id - 1, batch_id).files(list_data_files(home, names.ANSWERS))
    return [file for file in files if file.may_contain("bucket", bucket, bucket)]


def _read_keys(home: Home, files: list[DataFile], batch_id: int, bucket: int, keys: KeyRange) -> Logged:
    of_batch = KeyRange("batch_id", batch_id - 1, batch_id)
    read = read_slices(slices_of(home, files, names.ANSWERS), SCHEMA.names, keys)
    rows = pa.Table.from_batches((of_batches(part, bucket, of_batch).cast(SCHEMA) for part in read), SCHEMA)
    known, first = np.unique(rows.column("subscription_key").to_numpy(), return_index=True)
    limits = rows.take(pa.array(first))
    rows = rows.filter(pc.is_valid(rows.column("object_key")))
    return Logged(
        Values(integers(rows, "subscription_key"), integers(rows, "object_key"), integers(rows, "ts"),
               rows.column("value").to_numpy()),
        Thresholds(known, limits.column("threshold").to_numpy(), integers(limits, "limit_ts", names.NO_TIME),
                   integers(limits, "limit_object_key", -1), np.zeros(len(known), np.bool_)),
        keys.up_to,
    )  # fmt: skip


def build_state(home: Home, path: Path, queries: StandingQueries, bucket: int, batch_id: int) -> BucketState:
    """Build the file of a bucket as its state was after the snapshot of a batch; 0: before the first batch."""
    batch = read_batches(home, batch_id - 1, batch_id)[0] if batch_id else None
    requests_to = batch["requests_to"] if batch else 0
    inserted = queries.insertions(-1, requests_to, bucket, home.answer_buckets)
    subscriptions = with_ends(inserted, queries.deletions(-1, requests_to))
    latest = batch["stream_time"] if batch else None
    stream_time = names.NO_TIME if latest is None else to_micros(latest)
    lives = stream_time < subscriptions.end_at
    subscriptions = Subscriptions(*(array[lives] for array in subscriptions))
    read = partial(read_snapshot_parts, home, batch_id, bucket, subscriptions.key)
    state = build_bucket(path, subscriptions, unite_objects(read()), read(), batch_id)
    if batch:
        state.mark_clean(batch_id, stream_time, to_micros(batch["started_at"]))
    return state


WINDOW, BOUNDARY = "window", "boundary"
COLUMNS = ["batch_id", "bucket", "object_key", "ts", "count"]


def write_boundaries(home: Home, bucket: int, end: BatchEnd) -> list[DataFile]:
    """Write the boundaries of count windows at the end of a batch as a data file of `answer_log`, for the caller to
    commit. Once objects are erased, they cannot be computed again.
    """
    lengths = len(end.windows)
    ts, key = end.boundaries.reshape(-1, 2).T
    reaches_all = ts == names.NO_TIME
    given = {
        "batch_id": np.full(lengths, end.batch_id),
        "bucket": np.full(lengths, bucket),
        "event": pa.repeat(BOUNDARY, lengths),
        "subscription_key": np.full(lengths, -1),
        "object_key": pa.array(key, mask=reaches_all),
        "ts": pa.array(ts, mask=reaches_all).cast(TIME),
        "count": end.windows,
    }
    writer = FileWriter(home.table(names.ANSWER_LOG), LOG_SCHEMA, {"part": WINDOW})
    writer.write(complete_rows(given, writer.schema))
    file = writer.close()
    return [] if file is None else [file]


def list_boundary_files(home: Home, after: int, up_to: int) -> list[DataFile]:
    """Return the files with the boundaries of the batches after < batch_id <= up_to."""
    files = KeyRange("batch_id", after, up_to).files(list_data_files(home, names.ANSWER_LOG))
    return [file for file in files if file.partition["part"] == WINDOW]


def with_logged_boundaries(home: Home, bucket: int, end: BatchEnd) -> BatchEnd:
    """Return the end of a batch with the boundaries that the batch has logged; others stay."""
    if not len(end.windows):
        return end
    of_batch, boundaries = KeyRange("batch_id", end.batch_id - 1, end.batch_id), end.boundaries.copy()
    files = list_boundary_files(home, of_batch.after, of_batch.up_to)
    files = [one for one in files if one.may_contain("bucket", bucket, bucket)]
    for rows in read_slices(slices_of(home, files), COLUMNS, of_batch):
        mine = rows.filter(pa.array(rows.column("bucket").to_numpy() == bucket))
        length = mine.column("count").to_numpy()
        ts = mine.column("ts").cast(pa.int64()).fill_null(names.NO_TIME).to_numpy()
        key = mine.column("object_key").fill_null(LAST_KEY).to_numpy()
        position, is_asked = find_among(length, end.windows)
        boundaries[position[is_asked]] = np.column_stack([ts, key])[is_asked]
    return end._replace(boundaries=boundaries)
