"""Read the matched pairs of a home as Arrow tables with a row for each pair, for `export` and for Python."""

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa

from pststream import names
from pststream.delta_tables import AnyHome, TableReader
from pststream.domain.arrow_columns import TIME, sum_column
from pststream.ledgers.history import read_done_batches
from pststream.reports.reading.pairs import InsertedSubscriptions, Pairs, read_inserted_subscriptions, stream_pairs

PAIR_SCHEMA = pa.schema(
    [
        ("object_id", pa.string()), ("subscription_id", pa.string()), ("ts", TIME),
        ("batch_id", pa.int64()), ("plan_version", pa.int64()), ("payload", pa.string()),
    ]
)  # fmt: skip


class PairStream:
    """The pairs of finished batches without retracted ones, of the versions of the tables when this was created.

    inserted  the subscriptions that the pairs point to
    since     only objects with ts >= this
    """

    def __init__(self, home: AnyHome, since: dt.datetime | None = None) -> None:
        self._reader = TableReader(home)
        for name in (names.BATCHES, names.MATCHES, names.REQUESTS):
            self._reader.dataset(name)
        self.inserted = read_inserted_subscriptions(self._reader)
        self._since = since

    def count_all(self) -> int:
        """Count the pairs of finished batches without retracted ones, of objects of any time, by the ledger."""
        batches = read_done_batches(self._reader, ("matches", "retractions"))
        return sum_column(batches, "matches") - sum_column(batches, "retractions")

    def __iter__(self) -> Iterator[Pairs]:
        return stream_pairs(self._reader, self.inserted, self._since)


def encoded_pairs(pairs: Pairs, inserted: InsertedSubscriptions) -> pa.Table:
    """Return some pairs as a table with the columns of PAIR_SCHEMA; its dictionaries are objects and subscriptions."""
    row, place = pa.array(pairs.row), pa.array(pairs.subscription)
    subscriptions = {"subscription_id": inserted.ids, "payload": inserted.payloads}
    columns = [
        pa.DictionaryArray.from_arrays(place, subscriptions[name], safe=False)
        if name in subscriptions
        else pa.DictionaryArray.from_arrays(row, pairs.rows.column(name), safe=False)
        for name in PAIR_SCHEMA.names
    ]
    return pa.Table.from_arrays(columns, names=PAIR_SCHEMA.names)


def pair_table(pairs: Pairs, inserted: InsertedSubscriptions) -> pa.Table:
    """Return some pairs as a table of PAIR_SCHEMA."""
    return encoded_pairs(pairs, inserted).cast(PAIR_SCHEMA)
