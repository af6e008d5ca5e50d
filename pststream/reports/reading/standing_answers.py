"""Read the answers of subscriptions with memory, and what each batch changed in them, from `answer_log`.

The changes of all batches add up to the answers: a row of an answer is an object that entered and has not left. Only
batches that are done count.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.answers.contract import IDENTIFYING, OLD_CHANGES, as_numbers, remaining_rows
from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import TIME
from pststream.base.utc_times import to_micros
from pststream.queries.kinds.registry import ranked_answers
from pststream.tables.delta_tables import TableReader
from pststream.tables.owners import ID_COLUMNS

RESULT_COLUMNS = [
    *[("rank", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("distance_m", pa.float64())],
    *[("score", pa.float64()), ("term", pa.string()), ("count", pa.int64()), ("as_of", TIME)],
    ("attributes", pa.string()),
]
ANSWERS = pa.schema([("owner", pa.string()), ("subscription_id", pa.string()), ("kind", pa.string()), *RESULT_COLUMNS])
"""Columns of answers; those that the kind does not have are null. Attributes are JSON."""

CHANGES = pa.schema(
    [
        *[("batch_id", pa.int64()), ("owner", pa.string()), ("subscription_id", pa.string())],
        *[("kind", pa.string()), ("change", pa.string())],
        *RESULT_COLUMNS,
    ]
)
"""Columns of changes; `change` is entered or left."""

SUBSCRIPTION_COLUMNS = ("request_key", "k", "step_us", "effective_at", "expires_at")
LOG_COLUMNS = ("batch_id", "event", "subscription_key", "object_key", "ts", "value", "rank", "term", "count")
_ROWS = 1_048_576

MOST_READ = 262_144
"""Subscriptions whose answers are read at a time, at most, unless more rows are asked for."""

_RECENT_STEPS = 24
"""Reports of ticks within so many of the longest step before stream time are read together, and older ones."""


class StandingAnswers:
    """The changes of answers by the batches that are done, of the versions of the tables when this was created."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        columns = ("batch_id", "stream_time", "requests_to")
        done = reader.read(names.BATCHES, columns, pds.field("status") == "done")
        done = done.sort_by("batch_id")
        self._batches, self._times = done.column("batch_id").to_numpy(), done.column("stream_time").combine_chunks()
        self._requests_to = done.column("requests_to")[-1].as_py() if done.num_rows else -1
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

    def answers(self) -> Iterator[pa.Table]:
        """Yield all answers (ANSWERS) in the order in which their subscriptions were inserted, MOST_READ at a time."""
        answers = map(self.answers_of, in_parts(self.subscriptions(), MOST_READ))
        yield from (rows for rows in answers if rows.num_rows)

    def subscriptions(self, subscription_id: str | None = None, owner: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the subscriptions with memory that ever were (SUBSCRIPTION_COLUMNS), in the order of insertion."""
        wanted = pds.field("k").is_valid()
        for column, value in zip(ID_COLUMNS, (owner, subscription_id), strict=True):
            if value is not None:
                wanted &= pds.field(column) == value
        for _, file in self._reader.files(names.REQUESTS, "request_key", wanted):
            yield from self._reader.batches_of(names.REQUESTS, file, SUBSCRIPTION_COLUMNS, wanted)

    def answers_of(self, subscriptions: pa.Table) -> pa.Table:
        """Return the answers (ANSWERS) of some subscriptions (SUBSCRIPTION_COLUMNS) in the order of their insertion.

        Reads the last snapshot and the changes after it, and the report of the last tick of each subscription.
        """
        has_reports, parts = pc.is_valid(subscriptions.column("step_us")), list[pa.Table]()
        of_objects, of_terms = subscriptions.filter(pc.invert(has_reports)), subscriptions.filter(has_reports)
        if of_objects.num_rows:
            snapshot = self._last_snapshot()
            parts.append(self._read_snapshot(of_objects, snapshot))
            parts.append(self._read_log(of_objects.column("request_key"), pds.field("batch_id") > snapshot))
        if of_terms.num_rows:
            parts += self._last_reports(of_terms)
        if not parts:
            return ANSWERS.empty_table()
        rows = pa.concat_tables(parts)
        rows = rows.take(pa.array(remaining_rows(rows)))
        order, rank = _ranked(rows)
        rows = rows.take(pa.array(order))
        rows = rows.set_column(rows.schema.get_field_index("rank"), "rank", pa.array(rank))
        return self._named(rows, ANSWERS) if rows.num_rows else ANSWERS.empty_table()

    def _last_snapshot(self) -> int:
        """Return the batch of the last snapshot of answers after which the log has all changes; 0: there is none."""
        files = pa.table(self._reader.table(names.ANSWERS).get_add_actions(flatten=True))
        batches = files.column("max.batch_id").to_pylist() if files.num_rows else []
        return max((one for one in batches if self.complete_from - 1 <= one <= self._last_batch), default=0)

    def _read_snapshot(self, subscriptions: pa.Table, batch_id: int) -> pa.Table:
        """Return the answers after a batch as changes (LOG_COLUMNS) that enter: the k best entries of each buffer."""
        columns = ["batch_id", "subscription_key", "object_key", "ts", "value"]
        keys = subscriptions.column("request_key")
        wanted = _among(keys) & (pds.field("batch_id") == batch_id) & pds.field("object_key").is_valid()
        rows = self._reader.read(names.ANSWERS, columns, wanted)
        k = subscriptions.column("k").take(pc.index_in(rows.column("subscription_key"), keys.combine_chunks()))
        order, rank = _ranked(rows)
        best = rows.take(pa.array(order)).filter(pc.less_equal(pa.array(rank), k.take(pa.array(order))))
        given = {"event": pa.repeat("entered", best.num_rows)} | {name: best.column(name) for name in columns}
        empty = {name: pa.nulls(best.num_rows) for name in LOG_COLUMNS if name not in given}
        stored = self._reader.dataset(names.ANSWER_LOG).schema
        schema = pa.schema([stored.field(name) for name in LOG_COLUMNS])
        return pa.table(given | empty).select(schema.names).cast(schema)

    def _read_log(self, keys: pa.ChunkedArray, which: pds.Expression) -> pa.Table:
        """Return those changes (LOG_COLUMNS) of some subscriptions."""
        return self._reader.read(names.ANSWER_LOG, LOG_COLUMNS, self._is_counted & _among(keys) & which)

    def _last_reports(self, subscriptions: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows (LOG_COLUMNS) of the report of the last tick of each `frequent_terms` subscription."""
        newest = self._times[-1].as_py() if len(self._times) else None
        if newest is None:
            return
        keys, ticks = self._last_ticks(subscriptions, to_micros(newest))
        is_recent = ticks > to_micros(newest) - _RECENT_STEPS * pc.max(subscriptions["step_us"]).as_py()
        for some in (is_recent, ~is_recent):
            if some.any():
                yield self._read_reports(keys[some], ticks[some])

    def _last_ticks(self, subscriptions: pa.Table, stream_time: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the subscriptions that have reached a tick while they lived, and the last one (microseconds)."""
        keys, step, created = (
            as_numbers(subscriptions.column(name)) for name in ("request_key", "step_us", "effective_at")
        )
        end = subscriptions.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US).to_numpy().copy()
        own = subscriptions.column("request_key").combine_chunks()
        ends = (pds.field("op") == "delete") & pds.field("subscription_key").isin(own)
        ends = (ends | pds.field("replaced_key").isin(own)) & (pds.field("request_key") <= self._requests_to)
        ended = self._reader.read(names.REQUESTS, ("replaced_key", "subscription_key", "effective_at"), ends)
        ended_key = as_numbers(pc.coalesce(ended.column("replaced_key"), ended.column("subscription_key")))
        order = np.argsort(keys)
        place = order[np.searchsorted(keys[order], ended_key)]
        np.minimum.at(end, place, as_numbers(ended.column("effective_at")))
        ticks = np.minimum(stream_time // step, -(-end // step) - 1) * step
        lives = ticks >= created
        return keys[lives], ticks[lives]

    def _read_reports(self, keys: np.ndarray, ticks: np.ndarray) -> pa.Table:
        """Return the words of the report of each subscription (int64[n]) at its tick (int64[n], microseconds)."""
        moments, ts = pa.array(distinct_values(ticks)).cast(TIME), pds.field("ts")
        which = (ts >= moments[0]) & (ts <= moments[-1]) & ts.isin(moments)
        rows = self._read_log(pa.chunked_array([pa.array(keys)]), which & (pds.field("count") > 0))
        order = np.argsort(keys)
        place = order[np.searchsorted(keys[order], as_numbers(rows.column("subscription_key")))]
        return rows.filter(pa.array(ticks[place] == as_numbers(rows.column("ts"))))

    @property
    def complete_from(self) -> int:
        """The first batch with all of its changes; of earlier ones, `maintain` keeps those that answers still need."""
        removed = self._reader.table(names.ANSWER_LOG).transaction_version(OLD_CHANGES)
        return 1 if removed is None else int(removed) + 1

    @property
    def _is_counted(self) -> pds.Expression:
        """The changes by the batches that are done."""
        return (pds.field("part") == "change") & (pds.field("batch_id") <= self._last_batch)

    @property
    def _last_batch(self) -> int:
        return int(self._batches[-1]) if len(self._batches) else 0

    def _rows_of_batches(self, since_batch: int) -> Iterator[pa.Table]:
        """Yield all changes of some batches from `since_batch` on, then those of the next ones; the log is read once.

        Memory holds the changes of one batch, or of several small ones, and row groups that later batches are in too.
        """
        wanted = self._is_counted & (pds.field("batch_id") >= since_batch)
        waiting, size, least = list[pa.RecordBatch](), 0, names.MAX_INT64
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
        requests = self._look_up(names.REQUESTS, "request_key", (*ID_COLUMNS, "kind"), rows["subscription_key"])
        is_known = pc.is_valid(requests.column("subscription_id"))
        rows, requests = rows.filter(is_known), requests.filter(is_known)
        objects = self._look_up(names.OBJECTS, "object_key", ("object_id",), rows["object_key"])
        kind, of_term = requests.column("kind"), pc.is_null(rows.column("object_key"))
        if "batch_id" in schema.names:
            position = np.searchsorted(self._batches, rows.column("batch_id").to_numpy())
        else:
            position = np.full(rows.num_rows, len(self._batches) - 1)
        columns = {
            "batch_id": rows.column("batch_id"),
            **{name: requests.column(name) for name in ID_COLUMNS},
            "kind": kind,
            "change": rows.column("event"),
            "rank": rows.column("rank"),
            "object_id": objects.column("object_id"),
            "ts": pc.if_else(of_term, pa.scalar(None, TIME), rows.column("ts")),
            **_value_columns(kind, rows.column("value").cast(pa.float64())),
            "term": rows.column("term"),
            "count": rows.column("count"),
            "as_of": pc.if_else(of_term, rows.column("ts"), self._times.take(pa.array(position))),
            "attributes": self._reader.attributes(rows.column("object_key").fill_null(-1).to_numpy()),
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


def in_parts(subscriptions: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yield subscriptions in parts, the first of `size`; later ones are greater, up to MOST_READ, since the log is
    searched for each.
    """
    waiting = list[pa.RecordBatch]()
    for batch in subscriptions:
        waiting.append(batch)
        while sum(one.num_rows for one in waiting) >= size:
            rows = pa.Table.from_batches(waiting)
            yield rows.slice(0, size)
            waiting, size = rows.slice(size).to_batches(), min(4 * size, max(size, MOST_READ))
    if waiting:
        yield pa.Table.from_batches(waiting)


def _value_columns(kind: pa.ChunkedArray, value: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return the values of rows as the columns that show them, null in rows of kinds without the column."""
    columns = {name: pa.nulls(len(value), pa.float64()) for name in ("distance_m", "score")}
    for name, answers in ranked_answers().items():
        if answers.value_column:
            shown = value if answers.sign > 0 else pc.negate(value)
            columns[answers.value_column] = pc.if_else(pc.equal(kind, name), shown, columns[answers.value_column])
    return columns


def _ranked(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of rows of answers by subscription, the best first, and their ranks in it: int64[n] each.

    The best: the greatest count, then the least word; or the least value, then the newest.
    """
    subscription, object_key, ts = (as_numbers(rows.column(name)) for name in IDENTIFYING[1:4])
    value, term = pc.fill_null(rows.column("value"), 0).to_numpy(), np.zeros(rows.num_rows, np.int64)
    if "term" in rows.column_names:
        term = as_numbers(rows.column("term"))
        value = np.where(object_key < 0, -as_numbers(rows.column("count")), value)
    order = np.lexsort((term, -object_key, -ts, value, subscription))
    subscription = subscription[order]
    return order, np.arange(len(order)) - np.searchsorted(subscription, subscription) + 1


def _among(keys: pa.ChunkedArray) -> pds.Expression:
    """The rows of these subscriptions."""
    key, bounds = pds.field("subscription_key"), pc.min_max(keys)
    return key.isin(keys.combine_chunks()) & (key >= bounds["min"]) & (key <= bounds["max"])
