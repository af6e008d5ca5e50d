"""Convert what a batch changes in a bucket to rows of `answer_log`, and read the rows of committed batches back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.contract import Folded, Logged, Thresholds, Values
from pststream.base import names
from pststream.base.arrays import distinct_values, look_up
from pststream.base.arrow_columns import TIME
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, whole_file
from pststream.state.tables import TABLES

SCHEMA = TABLES[names.ANSWER_LOG].schema
STATE, CHANGE = "state", "change"
ENTRY, THRESHOLD, RESET, ENTERED, LEFT = "entry", "threshold", "reset", "entered", "left"
STATE_COLUMNS = ["batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "value"]

WRITTEN_ROWS = 131_072
"""Rows that are converted at a time."""

READ_ROWS = 1_000_000
"""About the number of rows of state that a task has in memory, each some 200 bytes with all copies."""


class FoldedWriter:
    """Writes what a batch changes in a bucket as data files of `answer_log`, which the caller commits."""

    def __init__(self, home: Home, batch_id: int, bucket: int) -> None:
        self._batch_id, self._bucket = batch_id, bucket
        self._state, self._change = (
            FileWriter(home.table(names.ANSWER_LOG), SCHEMA, {"part": part}) for part in (STATE, CHANGE)
        )

    def write(self, folded: Folded) -> None:
        """Add the rows of some subscriptions, all rows of each."""
        for writer, rows in ((self._state, state_rows(folded)), (self._change, change_rows(folded))):
            for batch in rows.to_batches(WRITTEN_ROWS):
                count = batch.num_rows
                of_bucket = {"batch_id": np.full(count, self._batch_id), "bucket": np.full(count, self._bucket)}
                writer.write(complete_rows(dict(zip(batch.schema.names, batch.columns)) | of_bucket, writer.schema))

    def close(self) -> list[DataFile]:
        """Finish the files and return them; a file without rows does not exist."""
        return [file for writer in (self._state, self._change) if (file := writer.close()) is not None]


def state_rows(folded: Folded) -> pa.Table:
    """Return the entries and limits of a batch: event, subscription_key, object_key, ts, value."""
    entries, limits = folded.entries, folded.thresholds
    infinite = limits.object < 0
    return pa.table(
        {
            "event": pa.concat_arrays(
                [pa.repeat(pa.scalar(ENTRY), len(entries.subscription)), _choose(limits.reset, RESET, THRESHOLD)]
            ),
            "subscription_key": np.concatenate([entries.subscription, limits.subscription]),
            "object_key": pa.array(
                np.concatenate([entries.object, limits.object]), mask=_mask(len(entries.object), infinite)
            ),
            "ts": pa.array(np.concatenate([entries.ts, limits.ts]), mask=_mask(len(entries.ts), infinite)).cast(TIME),
            "value": np.concatenate([entries.value, limits.value]).astype(np.float32),
        }
    )


def change_rows(folded: Folded) -> pa.Table:
    """Return the changes of a batch: event, subscription_key, object_key, ts, value, rank."""
    changes = folded.changes
    return pa.table(
        {
            "event": _choose(changes.entered, ENTERED, LEFT),
            "subscription_key": changes.subscription,
            "object_key": changes.object,
            "ts": pa.array(changes.ts).cast(TIME),
            "value": changes.value.astype(np.float32),
            "rank": changes.rank.astype(np.int32),
        }
    )


def _choose(chosen: np.ndarray, one: str, other: str) -> pa.Array:
    return pc.if_else(pa.array(chosen), pa.scalar(one), pa.scalar(other))


def _mask(entries: int, infinite: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(entries, bool), infinite])


def complete_rows(columns: Mapping[str, pa.Array | np.ndarray], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows that have these columns of a schema; the other columns are null."""
    count = len(next(iter(columns.values())))
    nulls = {field.name: pa.nulls(count, field.type) for field in schema if field.name not in columns}
    return pa.RecordBatch.from_pydict({**columns, **nulls}, schema=schema)


def list_state_files(home: Home, after: int, up_to: int) -> list[DataFile]:
    """Return the files with the state rows of the batches after < batch_id <= up_to."""
    files = KeyRange("batch_id", after, up_to).files(list_data_files(home, names.ANSWER_LOG))
    return [file for file in files if file.partition["part"] == STATE]


def slices_of(home: Home, files: Iterable[DataFile], name: str = names.ANSWER_LOG) -> list[Slice]:
    """Return the whole files of a table as slices."""
    return [whole_file(path, rows) for path, rows in addresses_and_rows(home, name, files)]


def read_state(home: Home, bucket: int, after: int, up_to: int, keys: Sequence[np.ndarray]) -> Iterator[Logged]:
    """Read the entries and the last limits of a bucket that the batches after < batch_id <= up_to have logged.

    Entries that a later reset makes void are left out.

    keys: int64[n] each, of about the subscriptions that the rows are of; they divide many rows into parts
    """
    files = [file for file in list_state_files(home, after, up_to) if file.may_contain("bucket", bucket, bucket)]
    schema = pa.schema([SCHEMA.field(name) for name in STATE_COLUMNS])
    slices, batches = slices_of(home, files), KeyRange("batch_id", after, up_to)
    for part in split_keys(keys, files):
        read = (of_batches(rows, bucket, batches) for rows in read_slices(slices, STATE_COLUMNS, part))
        rows = pa.Table.from_batches((rows.cast(schema) for rows in read), schema).combine_chunks()
        yield Logged(*_last_state(rows), part.up_to)


def split_keys(keys: Sequence[np.ndarray], files: Iterable[DataFile]) -> Iterator[KeyRange]:
    """Yield ranges of all subscription keys, in order, so that each has about READ_ROWS of the rows of a bucket.

    keys: int64[n] each, of the subscriptions that have the rows, in any order
    """
    count = sum(map(len, keys))
    rows = sum(file.rows // (1 + file.high.get("bucket", 0) - file.low.get("bucket", 0)) for file in files)
    parts = min(-(-rows // READ_ROWS), count)
    borders: list[int] = []
    if parts > 1:  # most batches have one part, and a bucket may have a million keys
        borders = distinct_values(np.sort(np.concatenate(keys))[np.arange(1, parts) * count // parts] - 1).tolist()
    return (KeyRange("subscription_key", after, up_to) for after, up_to in pairwise([-1, *borders, names.MAX_INT64]))


def _last_state(rows: pa.Table) -> tuple[Values, Thresholds]:
    """Return the entries that no later reset makes void, and the last limits of subscriptions."""
    batch = rows.column("batch_id").to_numpy()
    key, object_key = (rows.column(name).fill_null(-1).to_numpy() for name in ("subscription_key", "object_key"))
    ts = rows.column("ts").cast(pa.int64()).fill_null(names.NO_TIME).to_numpy()
    value, is_entry, is_reset = rows.column("value").to_numpy(), is_event(rows, ENTRY), is_event(rows, RESET)
    # Each subscription's last reset, and its last limit.
    limits = np.flatnonzero(~is_entry)
    limits = limits[np.lexsort((batch[limits], key[limits]))]
    last = limits[np.append(key[limits][1:] != key[limits][:-1], True)[: len(limits)]]
    resets = limits[is_reset[limits]]
    last_reset = resets[np.append(key[resets][1:] != key[resets][:-1], True)[: len(resets)]]
    reset_keys = key[last_reset]
    entries = np.flatnonzero(is_entry)
    entries = entries[batch[entries] >= look_up(key[entries], reset_keys, batch[last_reset], -1)]
    return (
        Values(key[entries], object_key[entries], ts[entries], value[entries]),
        Thresholds(key[last], value[last], ts[last], object_key[last], np.isin(key[last], reset_keys)),
    )


def is_event(rows: pa.RecordBatch | pa.Table, event: str) -> np.ndarray:
    """Return which rows of `answer_log` are of an event: bool[rows]."""
    return np.asarray(pc.equal(rows.column("event"), event))


def of_batches(rows: pa.RecordBatch, bucket: int, batches: KeyRange) -> pa.RecordBatch:
    """Return the rows of a bucket and of batches in a range."""
    batch = rows.column("batch_id").to_numpy()
    chosen = (rows.column("bucket").to_numpy() == bucket) & (batch > batches.after) & (batch <= batches.up_to)
    return rows if chosen.all() else rows.filter(pa.array(chosen))
