"""Read the answers of subscriptions with memory, and what each batch changed in them, from `answer_log`.

The changes of all batches add up to the answers: a row of an answer is an object that entered and has not left. Only
batches that are done count.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.answers.remaining_rows import IDENTIFYING, OLD_CHANGES, as_numbers, remaining_rows
from pststream.kinds.registry import ranked_answers
from pststream.reports.reading.table_reader import ANY_VALUE, TableReader

TIME = pa.timestamp("us", tz="UTC")
RESULT_COLUMNS = [
    *[("rank", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("distance_m", pa.float64())],
    *[("score", pa.float64()), ("term", pa.string()), ("count", pa.int64()), ("as_of", TIME)],
]
ANSWERS = pa.schema([("subscription_id", pa.string()), ("kind", pa.string()), *RESULT_COLUMNS])
"""Columns of answers; those that the kind does not have are null."""

CHANGES = pa.schema(
    [
        *[("batch_id", pa.int64()), ("subscription_id", pa.string()), ("kind", pa.string()), ("change", pa.string())],
        *RESULT_COLUMNS,
    ]
)
"""Columns of changes; `change` is entered or left."""

LOG_COLUMNS = ("batch_id", "event", "subscription_key", "object_key", "ts", "value", "rank", "term", "count")
_ROWS = 1_048_576


class StandingAnswers:
    """The changes of answers by the batches that are done, of the versions of the tables when this was created."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        done = reader.read(names.BATCHES, ("batch_id", "stream_time"), pds.field("status") == "done")
        done = done.sort_by("batch_id")
        self._batches, self._times = done.column("batch_id").to_numpy(), done.column("stream_time").combine_chunks()
        for name in (names.ANSWER_LOG, names.OBJECTS, names.REQUESTS):
            reader.dataset(name)

    def changes(self, since_batch: int = 0) -> Iterator[pa.Table]:
        """Yield the changes (CHANGES) by the batches from `since_batch` on, in their order."""
        for rows in self._rows_of_batches(since_batch):
            event = rows.column("event").to_numpy()
            order = np.lexsort(
                (rows.column("rank"), event == "entered", rows.column("subscription_key"), rows.column("batch_id"))
            )
            yield self._named(rows.take(pa.array(order)), CHANGES)

    def answers(self, subscription_keys: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """Yield the answers (ANSWERS), a bucket of subscriptions after the other; None: of all subscriptions."""
        wanted = self._is_change & (pds.field("batch_id") <= self._last_batch)
        if subscription_keys is not None:
            wanted &= pds.field("subscription_key").isin(pa.array(subscription_keys, pa.int64()))
        buckets = self._reader.read(names.ANSWER_LOG, ["bucket"], wanted).column("bucket").unique().to_pylist()
        for bucket in sorted(buckets):
            rows = self._reader.read(names.ANSWER_LOG, LOG_COLUMNS, wanted & (pds.field("bucket") == bucket))
            rows = _remaining(rows)
            if rows.num_rows:
                yield self._named(rows, ANSWERS)

    @property
    def complete_from(self) -> int:
        """The first batch with all of its changes; of earlier ones, `maintain` keeps those that answers still need."""
        removed = self._reader.table(names.ANSWER_LOG).transaction_version(OLD_CHANGES)
        return 1 if removed is None else int(removed) + 1

    @property
    def _is_change(self) -> pds.Expression:
        return pds.field("part") == "change"

    @property
    def _last_batch(self) -> int:
        return int(self._batches[-1]) if len(self._batches) else 0

    def _rows_of_batches(self, since_batch: int) -> Iterator[pa.Table]:
        """Yield all changes of some batches from `since_batch` on, then those of the next ones; the log is read once.

        Memory holds the changes of one batch, or of several small ones, and row groups that later batches are in too.
        """
        wanted = self._is_change & (pds.field("batch_id") >= since_batch) & (pds.field("batch_id") <= self._last_batch)
        waiting, size, least = list[pa.RecordBatch](), 0, ANY_VALUE
        for first, part in self._row_groups(wanted):
            if size >= _ROWS and least < first:
                rows = pa.Table.from_batches(waiting)
                is_complete = pc.less(rows.column("batch_id"), first)
                yield rows.filter(is_complete)
                rows = rows.filter(pc.invert(is_complete))
                waiting, size, least = rows.to_batches(), rows.num_rows, first
            for batch in self._reader.batches_of(names.ANSWER_LOG, part, LOG_COLUMNS, wanted):
                waiting.append(batch)
                size, least = size + batch.num_rows, min(least, first)
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _row_groups(self, wanted: pds.Expression) -> list[tuple[int, pds.Fragment]]:
        """Return the row groups of the log that may have wanted rows, by the first batch that each is of."""
        parts = []
        for _, file in self._reader.files(names.ANSWER_LOG, "batch_id", wanted):
            for part in file.split_by_row_group(wanted, self._reader.dataset(names.ANSWER_LOG).schema):
                bounds = part.row_groups[0].statistics.get("batch_id", {"min": 0})
                parts.append((bounds["min"], part))
        return sorted(parts, key=lambda part: part[0])

    def _named(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows of the log, in their order, with ids in place of keys; without erased subscriptions."""
        requests = self._look_up(names.REQUESTS, "request_key", ("subscription_id", "kind"), rows["subscription_key"])
        is_known = pc.is_valid(requests.column("subscription_id"))
        rows, requests = rows.filter(is_known), requests.filter(is_known)
        objects = self._look_up(names.OBJECTS, "object_key", ("object_id",), rows["object_key"])
        kind, of_term = requests.column("kind"), pc.is_null(rows.column("object_key"))
        if "batch_id" in schema.names:
            place = np.searchsorted(self._batches, rows.column("batch_id").to_numpy())
        else:
            place = np.full(rows.num_rows, len(self._batches) - 1)
        columns = {
            "batch_id": rows.column("batch_id"),
            "subscription_id": requests.column("subscription_id"),
            "kind": kind,
            "change": rows.column("event"),
            "rank": rows.column("rank"),
            "object_id": objects.column("object_id"),
            "ts": pc.if_else(of_term, pa.scalar(None, TIME), rows.column("ts")),
            **_value_columns(kind, rows.column("value").cast(pa.float64())),
            "term": rows.column("term"),
            "count": rows.column("count"),
            "as_of": pc.if_else(of_term, rows.column("ts"), self._times.take(pa.array(place))),
        }
        return pa.table({field.name: columns[field.name] for field in schema}).cast(schema)

    def _look_up(self, name: str, key: str, columns: tuple[str, ...], keys: pa.ChunkedArray) -> pa.Table:
        """Return columns of the rows with these keys, in their order; null for rows that were erased."""
        wanted = keys.unique()
        bounds = pc.min_max(wanted.drop_null())
        within = (pds.field(key) >= bounds["min"]) & (pds.field(key) <= bounds["max"])
        rows = self._reader.read(name, (key, *columns), within & pds.field(key).isin(wanted))
        place = pc.index_in(keys.combine_chunks(), rows.column(key).combine_chunks())
        return rows.select(list(columns)).take(place)


def _value_columns(kind: pa.ChunkedArray, value: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return the values of rows as the columns that show them, null in rows of kinds without the column."""
    columns = {name: pa.nulls(len(value), pa.float64()) for name in ("distance_m", "score")}
    for name, answers in ranked_answers().items():
        if answers.value_column:
            shown = value if answers.sign > 0 else pc.negate(value)
            columns[answers.value_column] = pc.if_else(pc.equal(kind, name), shown, columns[answers.value_column])
    return columns


def _remaining(rows: pa.Table) -> pa.Table:
    """Return the rows that entered and have not left, with their ranks, by subscription and rank.

    Of `frequent_terms`, whose `ts` is a tick, only the report of the last tick is the answer.
    """
    last = remaining_rows(rows)
    # The best first: the greatest count, then the least word; or the least value, then the newest.
    chosen = rows.take(pa.array(last))
    subscription, object_key, ts, term = (as_numbers(chosen.column(name)) for name in IDENTIFYING[1:])
    value = np.where(
        object_key < 0, -as_numbers(chosen.column("count")), chosen.column("value").fill_null(0).to_numpy()
    )
    order = np.lexsort((term, -object_key, -ts, value, subscription))
    subscription = subscription[order]
    rank = np.arange(len(order)) - np.searchsorted(subscription, subscription) + 1
    ranked = chosen.take(pa.array(order))
    return ranked.set_column(ranked.schema.get_field_index("rank"), "rank", pa.array(rank))
