"""Log the boundaries of the count windows of a bucket, and read those of an earlier batch back.

A boundary can be computed again from the stored objects only while none of them is erased. An answer before a batch has
to be the one that the batch before has logged, so its boundaries are logged too: rows of part `window`.
"""

import numpy as np
import pyarrow as pa

from pststream.answers.contract import BatchEnd
from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.base.sorted_keys import find_among
from pststream.pipeline.answers.log_rows import slices_of
from pststream.search.object_snapshot import LAST_KEY
from pststream.state.data_files import DataFile, FileWriter, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices
from pststream.state.tables import TABLES

SCHEMA = TABLES[names.ANSWER_LOG].schema
WINDOW, BOUNDARY = "window", "boundary"
COLUMNS = ["batch_id", "bucket", "object_key", "ts", "count"]


def write_boundaries(home: Home, bucket: int, end: BatchEnd) -> list[DataFile]:
    """Write the boundaries at the end of a batch as a data file of `answer_log`, which the caller commits."""
    lengths = len(end.windows)
    ts, key = end.boundaries.reshape(-1, 2).T
    reaches_all = ts == names.NO_TIME
    given = {
        "batch_id": pa.array(np.full(lengths, end.batch_id)),
        "bucket": pa.array(np.full(lengths, bucket)),
        "event": pa.array([BOUNDARY] * lengths, pa.string()),
        "subscription_key": pa.array(np.full(lengths, -1)),
        "object_key": pa.array(key, mask=reaches_all),
        "ts": pa.array(ts, mask=reaches_all).cast(TIME),
        "count": pa.array(end.windows),
    }
    writer = FileWriter(home.table(names.ANSWER_LOG), SCHEMA, {"part": WINDOW})
    nulls = {field.name: pa.nulls(lengths, field.type) for field in writer.schema if field.name not in given}
    writer.write(pa.RecordBatch.from_pydict(given | nulls))
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
        place, is_asked = find_among(length, end.windows)
        boundaries[place[is_asked]] = np.column_stack([ts, key])[is_asked]
    return end._replace(boundaries=boundaries)
