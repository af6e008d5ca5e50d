"""Build the messages of a finished batch from the tables, in the order of delivery, for sink_sender.py to send.

Order: batches by number; in a batch the matches (`pair_messages.py`), then the changes of answers
(`answer_messages.py`). The messages of a batch and their order depend only on the tables and the limit, so a delivery
position is a number of messages.

In memory: what the sources keep, and, with a limit, 16 bytes for each subscription with a message within its time.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delivery.change_messages import ChangeBatch
from pststream.delivery.rate_limit import MessageLimiter
from pststream.delta_tables import TableReader
from pststream.pipeline.delivery.answer_messages import AnswerMessages
from pststream.pipeline.delivery.message_source import CountedSource
from pststream.pipeline.delivery.pair_messages import PairMessages
from pststream.settings import LONGEST_SECONDS
from pststream.sinks.contract import Message
from pststream.state.home import Home
from pststream.utc_times import iso, to_micros

LOG_RANGE = ("objects_after", "objects_to", "requests_after", "requests_to")
COLUMNS = ["batch_id", "started_at", "matches", "retractions", "changes", "stream_time", *LOG_RANGE]


@dataclass(frozen=True)
class Limit:
    """At most `messages` to a subscription from the batches that started in one window of `seconds`; 0: no limit."""

    messages: int = 0
    seconds: int = 1


class Outbox:
    """The messages of the batches that were finished when it was made. Safe for use by several threads.

    first            the first batch that is not completely delivered to every sink, or an earlier one
    window_seconds   the longest time over which a sink limits its messages; batches before `first` count in it
    """

    def __init__(self, home: Home, first: int = 0, window_seconds: int = 0) -> None:
        self._reader = TableReader(home)
        rows = _with_stream_before(self._finished(pds.field("batch_id") >= first - 1))
        rows = rows.filter(pc.field("batch_id") >= first)
        if first and window_seconds and rows.num_rows:
            window = dt.timedelta(seconds=min(window_seconds, LONGEST_SECONDS))
            since = pc.min(rows.column("started_at")).as_py() - window
            earlier = self._finished((pds.field("batch_id") < first) & (pds.field("started_at") >= since))
            rows = pa.concat_tables([_with_stream_before(earlier), rows])
        self._rows = rows
        self.batches: np.ndarray = rows.column("batch_id").to_numpy()
        self._started = rows.column("started_at").cast(pa.int64()).to_numpy() // 1_000_000
        pairs = rows.column("matches").to_numpy() + rows.column("retractions").to_numpy()
        changes = _sum_of_each(rows.column("changes"))
        self._sources = (
            CountedSource(PairMessages(self._reader), pairs > 0),
            CountedSource(AnswerMessages(self._reader), changes > 0),
        )
        for name in (names.MATCHES, names.OBJECTS, names.REQUESTS, *([names.ANSWER_LOG] if changes.any() else [])):
            self._reader.dataset(name)

    def _finished(self, filter: pds.Expression) -> pa.Table:
        rows = self._reader.read(names.BATCHES, COLUMNS, (pds.field("status") == "done") & filter)
        return rows.sort_by("batch_id")

    def messages(self, batch_id: int, limit: Limit, skip: int = 0) -> Iterator[Message]:
        """Yield the messages of a batch, without the first `skip`."""
        place = int(np.searchsorted(self.batches, batch_id))
        for counted in self._sources:
            if not counted.has_messages[place]:
                continue
            limiter = self._limiter(counted, place, limit) if limit.messages else None
            for block in counted.source.blocks(self._batch(place), limiter):
                yield from block.make(skip)
                skip = max(0, skip - block.count)

    def _limiter(self, counted: CountedSource, place: int, limit: Limit) -> MessageLimiter:
        """Return a limiter that has counted the earlier batches within the limit's time.

        Each source has its own: the subscriptions of a kind with answers have no matches.
        """
        limiter = MessageLimiter(limit.messages)
        window = self._started // limit.seconds
        is_earlier = (np.arange(len(window)) < place) & (window == window[place]) & counted.has_messages
        for earlier in self.batches[is_earlier].tolist():
            for keys in counted.source.limited_keys(earlier):
                limiter.count(keys)
        return limiter

    def _batch(self, place: int) -> ChangeBatch:
        (row,) = self._rows.slice(place, 1).to_pylist()
        before = row["stream_before"]
        reported_until = names.NO_TIME if before is None else to_micros(before)
        covered = {name: row[name] for name in LOG_RANGE}
        return ChangeBatch(row["batch_id"], **covered, as_of=iso(row["stream_time"]), reported_until=reported_until)


def _with_stream_before(batches: pa.Table) -> pa.Table:
    """Add the stream time after the batch before, which is the row before; null in the first row."""
    times = batches.column("stream_time")
    before = pa.chunked_array([pa.nulls(1, times.type), *times.chunks]).slice(0, batches.num_rows)
    return batches.append_column("stream_before", before)


def _sum_of_each(maps: pa.ChunkedArray) -> np.ndarray:
    """Return the sum of the numbers in each map, whose keys do not count: int64[n]; 0 for null."""
    column = maps.combine_chunks()
    sums = np.append(0, np.cumsum(column.items.to_numpy()))
    return np.diff(sums[column.offsets.to_numpy()])
