"""Compare the recorded matches and answers of batches with those of their replay; find the first pairs that differ.

Each row of `matches` is a set of pairs (batch, object, subscription, retracted or not). Tasks add up two 64-bit hashes
of each pair in buckets by object, in any order and in constant memory. If the sums and the counts of all buckets are
equal, the pairs are the same, each as many times, but for a chance of 2^-128. If not, the pairs of some differing
buckets are read and compared one by one.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.contract import OLD_CHANGES, remaining_rows
from pststream.base import names
from pststream.base.arrays import hash_integers
from pststream.base.arrow_columns import csr
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.engine.running_engine import get_engine
from pststream.pipeline.answers.log_rows import CHANGE
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import removed_rows
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks, whole_file
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction

COLUMNS = ["object_key", "subscription_keys", "retracted", "batch_id"]
BUCKETS = 256
MAX_BUCKETS = 4
"""Differing buckets whose pairs are compared one by one."""

Pair = tuple[int, int, int, bool]
"""Batch, object key, subscription key, whether the pair is retracted."""


@dataclass(frozen=True)
class Difference:
    """A pair that the recorded matches have and the replay does not (`missing`), or the other way round."""

    pair: Pair
    missing: bool


@dataclass
class _Sums:
    """Counts and sums of hashes of the pairs of each bucket: int64[BUCKETS], uint64[2, BUCKETS]."""

    counts: np.ndarray
    hashes: np.ndarray


def find_differences(
    home: Home, scratch: Home, settings: Settings, first: int, last: int, progress: Progress = no_progress
) -> list[Difference]:
    """Return pairs of the batches `first` to `last` that only one of the two homes has, in order; empty: none differs.

    Of many differences, those of the first MAX_BUCKETS buckets of objects are returned.
    """
    batches = KeyRange("batch_id", first - 1, last)
    recorded, replayed = (_sum_pairs(one, settings, batches, progress) for one in (home, scratch))
    same = (recorded.counts == replayed.counts) & (recorded.hashes == replayed.hashes).all(axis=0)
    differing = np.flatnonzero(~same)[:MAX_BUCKETS]
    if not len(differing):
        return []
    was, now = (_read_pairs(one, settings, batches, differing) for one in (home, scratch))
    differences = [Difference(pair, True) for pair in (was - now).elements()]
    differences += [Difference(pair, False) for pair in (now - was).elements()]
    return sorted(differences, key=lambda one: one.pair)


def _tasks(home: Home, batches: KeyRange) -> list[tuple[Slice, ...]]:
    files = batches.files(list_data_files(home, names.MATCHES))
    return split_into_tasks(addresses_and_rows(home, names.MATCHES, files))


def _sum_pairs(home: Home, settings: Settings, batches: KeyRange, progress: Progress) -> _Sums:
    total = _Sums(np.zeros(BUCKETS, np.int64), np.zeros((2, BUCKETS), np.uint64))
    tasks = _tasks(home, batches)
    counter = TaskCounter(progress, Counted("comparing the matches", "row", rows_of_tasks(tasks)))
    for part in get_engine(settings).run_tasks(tasks, partial(_sum_slices, batches), counter):
        total.counts += part.counts
        total.hashes += part.hashes
    return total


def _sum_slices(batches: KeyRange, slices: tuple[Slice, ...]) -> _Sums:
    sums = _Sums(np.zeros(BUCKETS, np.int64), np.zeros((2, BUCKETS), np.uint64))
    for batch, thing, subscription, retracted in _pairs_of(slices, batches):
        bucket = thing % BUCKETS
        sums.counts += np.bincount(bucket, minlength=BUCKETS)
        for salt in (0, 1):
            hashes = hash_integers(subscription, 2 * salt + 1)
            hashes = hash_integers(hashes ^ hash_integers(thing, 2 * salt + 2))
            hashes = hash_integers(hashes ^ hash_integers(2 * batch + retracted, salt))
            np.add.at(sums.hashes[salt], bucket, hashes)
    return sums


def _read_pairs(home: Home, settings: Settings, batches: KeyRange, buckets: np.ndarray) -> Counter[Pair]:
    """Return how many times each pair of these buckets occurs."""
    parts = get_engine(settings).run_tasks(_tasks(home, batches), partial(_read_slices, batches, buckets))
    return Counter(pair for part in parts for pair in part)


def _read_slices(batches: KeyRange, buckets: np.ndarray, slices: tuple[Slice, ...]) -> list[Pair]:
    pairs: list[Pair] = []
    for columns in _pairs_of(slices, batches):
        chosen = np.isin(columns[1] % BUCKETS, buckets)
        pairs += zip(*(column[chosen].tolist() for column in columns))
    return pairs


def _pairs_of(
    slices: tuple[Slice, ...], batches: KeyRange
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield batch, object key, subscription key and `retracted` of each pair, some at a time."""
    for rows in read_slices(slices, COLUMNS, batches):
        for part in (rows.slice(start, 8_192) for start in range(0, rows.num_rows, 8_192)):
            offsets, subscription = csr(part.column("subscription_keys"))
            row = np.repeat(np.arange(part.num_rows), np.diff(offsets))
            yield (
                part.column("batch_id").to_numpy()[row],
                part.column("object_key").to_numpy()[row],
                subscription,
                part.column("retracted").to_numpy(zero_copy_only=False)[row],
            )


def describe_differences(home: Home, differences: list[Difference]) -> list[dict[str, object]]:
    """Return differences with the ids of their objects and subscriptions, as `pststream replay --json` prints them."""
    objects = _ids(home, names.OBJECTS, "object_key", "object_id", {one.pair[1] for one in differences})
    subscriptions = _ids(home, names.REQUESTS, "request_key", "subscription_id", {one.pair[2] for one in differences})
    return [
        {
            "batch_id": batch,
            "object_id": objects.get(thing),
            "subscription_id": subscriptions.get(subscription),
            "retracted": retracted,
            "only_in": "recorded" if one.missing else "replayed",
        }
        for one in differences
        for batch, thing, subscription, retracted in (one.pair,)
    ]


def _ids(home: Home, name: str, key: str, column: str, wanted: set[int]) -> dict[int, str]:
    """Return the id of each key in a log."""
    keys = pa.array(sorted(wanted), pa.int64())
    files = [file for file in list_data_files(home, name) if file.may_contain(key, keys[0].as_py(), keys[-1].as_py())]
    ids: dict[int, str] = {}
    for slices in split_into_tasks(addresses_and_rows(home, name, files)):
        for rows in read_slices(slices, [key, column]):
            chosen = rows.filter(pc.is_in(rows.column(key), keys))
            ids |= dict(zip(chosen.column(0).to_pylist(), chosen.column(1).to_pylist()))
    return ids


ANSWER_COLUMNS = ["batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "value", "term"]
SCHEMA = pa.schema([TABLES[names.ANSWER_LOG].schema.field(name) for name in ANSWER_COLUMNS])
IDENTIFYING = ("subscription_key", "object_key", "ts", "value")


_Side = tuple[tuple[DataFile, Slice], ...]
"""The data files of `answer_log` of one of the homes, with changes."""


def compare_answers(home: Home, scratch: Home, settings: Settings, last: int) -> dict[str, bool | None]:
    """Return {"answers_equal": whether both homes have the same answers after the batch `last`}; empty without answers.

    None: the recorded answers are unknown, as rows or changes that they were made of were removed since.

    Compares the sums of all changes: a scratch home begins without a state, so its changes are other ones. Reports of
    `frequent_terms` are not compared: the scratch home logs only what a batch changes in them.
    """
    if not list_data_files(home, names.ANSWER_LOG):
        return {}
    removed = set(removed_rows(home).column("table_name").to_pylist())
    is_summed = last < last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES)
    if is_summed or removed & {names.OBJECTS, names.REQUESTS}:
        return {"answers_equal": None}
    recorded, replayed = (_list_changes(one, last) for one in (home, scratch))
    compare = partial(_count_differences, recorded, replayed, last)
    return {"answers_equal": not sum(get_engine(settings).run_tasks(range(home.answer_buckets), compare))}


def _list_changes(home: Home, last: int) -> _Side:
    files = KeyRange("batch_id", -1, last).files(list_data_files(home, names.ANSWER_LOG))
    files = [file for file in files if file.partition["part"] == CHANGE]
    slices = (whole_file(path, rows) for path, rows in addresses_and_rows(home, names.ANSWER_LOG, files))
    return tuple(zip(files, slices, strict=True))


def _count_differences(recorded: _Side, replayed: _Side, last: int, bucket: int) -> int:
    """Count the rows of answers of a bucket that only one side has."""
    sides = [_read_answers(side, last, bucket) for side in (recorded, replayed)]
    columns = [np.concatenate(both) for both in zip(*sides, strict=True)]
    order = np.lexsort(columns)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    return len(order) - 2 * int(same.sum())


def _read_answers(side: _Side, last: int, bucket: int) -> list[np.ndarray]:
    """Return the columns IDENTIFYING of the answers of a bucket, an object a row."""
    slices = [one for file, one in side if file.may_contain("bucket", bucket, bucket)]
    parts = []
    for batch in read_slices(slices, ANSWER_COLUMNS, KeyRange("batch_id", -1, last)):
        chosen = pc.and_(pc.equal(batch.column("bucket"), bucket), pc.is_valid(batch.column("object_key")))
        parts.append(batch.filter(chosen).cast(SCHEMA))
    changes = pa.Table.from_batches(parts, SCHEMA)
    present = changes.take(pa.array(remaining_rows(changes)))
    present = present.set_column(SCHEMA.get_field_index("ts"), "ts", present.column("ts").cast(pa.int64()))
    return [present.column(name).to_numpy() for name in IDENTIFYING]
