"""Read the matched pairs of finished batches, without retracted pairs, as a stream or as Arrow tables.

For `export` and Python; look-ups and delivery use parts of it.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, find_among, is_among
from pststream.base.arrow_columns import TIME, sum_column
from pststream.base.errors import PstError
from pststream.storage.registry import files_at
from pststream.tables.delta_tables import AnyHome, TableReader, last_transaction
from pststream.tables.ledgers import done_batches_filter, read_done_batches
from pststream.tables.open_tables import latest_table


def gold_table(home: AnyHome) -> str:
    """Return the address of the table of pairs that `pststream pairs` keeps."""
    return f"{home.path}/{names.GOLD}/{names.PAIRS}"


def has_gold_table(home: AnyHome) -> bool:
    """Whether `pststream pairs` has made its table."""
    return names.PAIRS in files_at(home.path).tables(names.GOLD)


def gold_batch(home: AnyHome) -> int:
    """Return the last batch whose pairs are in the table that `pststream pairs` keeps; 0: none, or no table."""
    return max(0, last_transaction(gold_table(home), names.PAIRS)) if has_gold_table(home) else 0


def count_gold_rows(home: AnyHome) -> int:
    """Return the number of rows of the table that `pststream pairs` keeps, by its log."""
    with latest_table(gold_table(home)) as table:
        return sum_column(pa.table(table.get_add_actions()), "num_records")


ROW_COLUMNS = ("object_id", "ts", "batch_id", "plan_version")
_ROWS = 8_192
_MAX_PAIRS = 262_144
_MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class InsertedSubscriptions:
    """Owner, id and payload of each inserted subscription, by ascending key.

    keys int64[n]; owners, ids, payloads large_string[n], a payload may be null; bytes int64[n]: length of the three
    texts together.
    """

    keys: np.ndarray
    owners: pa.Array
    ids: pa.Array
    payloads: pa.Array
    bytes: np.ndarray

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Return the positions of given keys in `self.keys`, int64; raises PstError for a key that no insertion has."""
        positions = np.searchsorted(self.keys, keys)
        known = positions < len(self.keys)
        known[known] = self.keys[positions[known]] == keys[known]
        if not known.all():
            raise PstError(
                f"`matches` names subscription key {keys[~known][0]}, which is not in `requests`",
                "the tables do not belong together: restore them from one backup",
            )
        return positions


@dataclass(frozen=True)
class Pairs:
    """Some pairs: positions in `rows` (ROW_COLUMNS, attributes) and in InsertedSubscriptions, row and subscription
    int64[n].
    """

    rows: pa.RecordBatch
    row: np.ndarray
    subscription: np.ndarray


class RetractedPairs:
    """A set of retracted pairs, 8 bytes each; there are few."""

    def __init__(self, objects: np.ndarray, subscriptions: np.ndarray) -> None:
        self._objects = distinct_values(objects)
        self._subscriptions = distinct_values(subscriptions)
        self._pairs = distinct_values(
            np.searchsorted(self._objects, objects) * len(self._subscriptions)
            + np.searchsorted(self._subscriptions, subscriptions)
        )

    def __len__(self) -> int:
        return len(self._pairs)

    def affects(self, objects: np.ndarray) -> bool:
        """Whether a pair of one of these objects was retracted."""
        return bool(is_among(objects, self._objects).any())

    def contains(self, objects: np.ndarray, subscriptions: np.ndarray) -> np.ndarray:
        """Which of the pairs were retracted: bool, same length."""
        object_place, object_known = find_among(objects, self._objects)
        place, known = find_among(subscriptions, self._subscriptions)
        return object_known & known & is_among(object_place * len(self._subscriptions) + place, self._pairs)


def read_inserted_subscriptions(reader: TableReader) -> InsertedSubscriptions:
    """Read key, owner, id and payload of every insertion in the log; an export keeps these in memory."""
    columns = ("subscription_key", "owner", "subscription_id", "payload")
    rows = reader.read(names.REQUESTS, columns, pds.field("op") == "insert")
    keys = rows.column("subscription_key").to_numpy()
    texts = (rows.column(name).cast(pa.large_string()).chunks for name in columns[1:])  # may be larger than 2 GiB
    read = [pa.concat_arrays(chunks or [pa.array([], pa.large_string())]) for chunks in texts]
    if len(keys) and (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, read = keys[order], [column.take(pa.array(order)) for column in read]
    lengths = [pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) for column in read]
    owners, ids, payloads = read
    return InsertedSubscriptions(keys, owners, ids, payloads, np.sum(lengths, axis=0))


def read_retracted_pairs(reader: TableReader, wanted: pds.Expression) -> RetractedPairs:
    """Read the pairs of the retractions among the `wanted` rows."""
    objects, keys = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    columns = ("object_key", "subscription_keys")
    for batch in reader.batches(names.MATCHES, columns, wanted & pds.field("retracted")):
        row, subscriptions = flatten_lists(batch.column("subscription_keys"))
        objects.append(batch.column("object_key").to_numpy()[row])
        keys.append(subscriptions)
    return RetractedPairs(np.concatenate(objects), np.concatenate(keys))


def flatten_lists(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Row and value of each entry of a list<int64> array: two int64 arrays."""
    row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return row, pc.list_flatten(lists).to_numpy(zero_copy_only=False)


def _pairs_of(
    batch: pa.RecordBatch, attributes: pa.Array, inserted: InsertedSubscriptions, retracted: RetractedPairs
) -> Iterator[Pairs]:
    """Yield the pairs of some rows, a bounded number of bytes at a time."""
    row, keys = flatten_lists(batch.column("subscription_keys"))
    objects = batch.column("object_key").to_numpy()
    if retracted.affects(objects):
        kept = ~retracted.contains(objects[row], keys)
        row, keys = row[kept], keys[kept]
    subscription = inserted.places(keys)
    rows = batch.select(list(ROW_COLUMNS)).append_column("attributes", attributes)
    lengths = pc.add(pc.binary_length(rows.column("object_id")), pc.fill_null(pc.binary_length(attributes), 0))
    id_bytes = lengths.to_numpy(zero_copy_only=False)
    weight = np.cumsum(inserted.bytes[subscription] + id_bytes[row] + _MAX_BYTES // _MAX_PAIRS)
    start = 0
    while start < len(row):
        before = weight[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(weight, before + _MAX_BYTES, "right")))
        yield Pairs(rows, row[start:stop], subscription[start:stop])
        start = stop


PAIR_SCHEMA = pa.schema(
    [
        ("object_id", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()), ("ts", TIME),
        ("batch_id", pa.int64()), ("plan_version", pa.int64()), ("payload", pa.string()),
        ("attributes", pa.string()),
    ]
)  # fmt: skip


class PairStream:
    """The pairs of finished batches without retracted ones, of the versions of the tables when this was created.

    inserted  the subscriptions that the pairs point to
    since     only objects with ts >= this
    """

    def __init__(self, home: AnyHome, since: dt.datetime | None = None) -> None:
        self._reader = TableReader(home)
        for name in (names.BATCHES, names.MATCHES, names.REQUESTS, names.OBJECTS):
            self._reader.dataset(name)
        self.inserted = read_inserted_subscriptions(self._reader)
        self._since = since

    def count_all(self) -> int:
        """Count the pairs of finished batches without retracted ones, of objects of any time, by the ledger."""
        batches = read_done_batches(self._reader, ("matches", "retractions"))
        return sum_column(batches, "matches") - sum_column(batches, "retractions")

    def __iter__(self) -> Iterator[Pairs]:
        """Yield the pairs: files are ordered by their first batch, and rows keep their order in a file."""
        wanted = done_batches_filter(self._reader)
        if self._since is not None:
            wanted = wanted & (pds.field("ts") >= pa.scalar(self._since, TIME))
        retracted = read_retracted_pairs(self._reader, wanted)
        wanted = wanted & ~pds.field("retracted")
        columns = ("object_key", *ROW_COLUMNS, "subscription_keys")
        for _, file in self._reader.files(names.MATCHES, "batch_id", wanted):
            for batch in self._reader.batches_of(names.MATCHES, file, columns, wanted, _ROWS):
                attributes = self._reader.attributes(batch.column("object_key").to_numpy())
                yield from _pairs_of(batch, attributes, self.inserted, retracted)


def encoded_pairs(pairs: Pairs, inserted: InsertedSubscriptions) -> pa.Table:
    """Return some pairs as a table with the columns of PAIR_SCHEMA; its dictionaries are objects and subscriptions."""
    row, position = pa.array(pairs.row), pa.array(pairs.subscription)
    columns = {name: (row, pairs.rows.column(name)) for name in pairs.rows.schema.names}
    columns["owner"] = (position, inserted.owners)
    columns |= {"subscription_id": (position, inserted.ids), "payload": (position, inserted.payloads)}
    encoded = [pa.DictionaryArray.from_arrays(*columns[name], safe=False) for name in PAIR_SCHEMA.names]
    return pa.Table.from_arrays(encoded, names=PAIR_SCHEMA.names)


def pair_table(pairs: Pairs, inserted: InsertedSubscriptions) -> pa.Table:
    """Return some pairs as a table of PAIR_SCHEMA."""
    return encoded_pairs(pairs, inserted).cast(PAIR_SCHEMA)
