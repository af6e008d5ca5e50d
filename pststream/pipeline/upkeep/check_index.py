"""Compare the worker index with the request log, and count rows that are missing, misplaced, doubled or altered.

Each live subscription must be at exactly the workers that its plan states. Those with memory are left out: their pieces
follow their thresholds, and older ones stay until they are not needed. The rows of both tables meet by subscription
key in a shuffle, and are compared as arrays. The workers of an index row are computed from the clause that the row
itself puts first, since the term frequencies of an older plan may have chosen that clause. The subscription keys are
split into rounds, so that the memory of a task is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, hash_integers, is_among, look_up, sum_slices
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import dispatch_index
from pststream.input.expectations import FIGURES
from pststream.matching.segments import merge_deletions
from pststream.pipeline.index.build_index import PIECES, make_pieces, read_requests, select_deletions, workers_by_row
from pststream.plans.pieces import IDENTITY, nested_lists
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import NO_FILES, IndexFiles, index_files, migration_application
from pststream.state.plans import current_version, index_version
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.tables.delta_tables import last_transaction
from pststream.tables.log_events import WithdrawnRows, withdrawn_requests

if TYPE_CHECKING:
    from pandas import DataFrame

ROUND_ROWS = 4_000_000
"""Rows of some 80 bytes that a task compares at a time, about."""

REQUESTED, DELETED, STORED, STORED_DELETED = 0, 1, 2, 3
"""Tags of sent rows: pieces and deletions that the requests ask for; pieces and deletions that the index has."""

KEY = pa.field("subscription_key", pa.int64())
BOX = [*(pa.field(side, pa.float64()) for side in SIDES), *(pa.field(n, pa.int64()) for n in ("created_at", "end_at"))]
END = pa.schema([KEY, pa.field("end_at", pa.int64())])
COLUMNS = {
    REQUESTED: pa.schema([KEY, *BOX, pa.field("terms", pa.int64()), pa.field("verified", pa.int64())]),
    DELETED: END,
    STORED: pa.schema(
        [
            KEY,
            *BOX,
            *(pa.field(name, pa.int64()) for name in ("terms", "verified", "posted", "worker", "workers")),
            pa.field("mine", pa.bool_()),
        ]
    ),
    STORED_DELETED: END,
}
"""Columns of the rows of each tag.

terms    sum of the ids of all terms of the row
verified hash of the verified clauses and the phrases of the row
posted   sum of the ids of the terms in the clause that the row is posted under
workers  number of workers that must have the row
mine     whether `worker` is one of these workers
"""

EXAMPLES = 3
"""Subscription keys that are reported for each figure, at most."""

PARTS_PER_TASK = 2
"""Parts of a round, for each task that runs at the same time."""


@dataclass(frozen=True)
class IndexCheck:
    """The index to check: its files, and the last request and batch that it must include.

    bound     subscriptions that ended at this time (microseconds) or before may be in the index or not
    migrated  whether workers may have rows that a migration, finished or killed, has left there
    withdrawn requests that were set aside, which are not in the index
    """

    home: str
    files: IndexFiles
    requests_to: int
    batch_id: int
    bound: int
    migrated: bool
    withdrawn: WithdrawnRows


def count_placement_faults(
    home: Home, settings: Settings, requests_to: int, batch_id: int, bound: int, progress: Progress
) -> tuple[dict[str, int | None], dict[str, list[int]]]:
    """Return the figures of the check `placement` (input/expectations.py), and some subscription keys for each
    that is not zero.

    The index is compared with the requests up to the key `requests_to`, as of the batch `batch_id`.
    """
    version = current_version(home)
    files = index_files(home, version) if version else NO_FILES
    # A killed migration has added pieces to the index of a plan, but made no plan.
    index = index_version(home, version)
    has_migrated = last_transaction(home.table(names.WORKER_INDEX), migration_application(index)) >= 0
    is_migrated = index != version or has_migrated
    check = IndexCheck(home.path, files, requests_to, batch_id, bound, is_migrated, withdrawn_requests(home))
    requests = list_data_files(home, names.REQUESTS)
    wanted = addresses_and_rows(home, names.REQUESTS, KeyRange("request_key", 0, requests_to).files(requests))
    tasks = [(REQUESTED, slices) for slices in split_into_tasks(wanted)]
    tasks += [(STORED, slices) for slices in split_into_tasks((file.path, file.rows) for file in files)]
    engine = get_engine(settings, home)
    parts = PARTS_PER_TASK * engine.parallelism
    rows = sum(file.rows for file in requests) + sum(file.rows for file in files)
    rounds = 1 + rows // (ROUND_ROWS * parts)
    counts: dict[str, int | None] = dict.fromkeys(FIGURES["placement"], 0)
    examples: dict[str, list[int]] = {figure: [] for figure in counts}
    # Before the shuffle `_send_rows` runs on each group of slices; after it `_compare_part` runs on each part of the
    # subscription keys.
    sizes = rows_of_tasks(slices for _, slices in tasks)
    for ordinal in range(rounds):
        of_round = f"placement, round {ordinal + 1} of {rounds}" if rounds > 1 else "placement"
        counter = TaskCounter(progress, Counted(of_round, "row", sizes), Counted(of_round, "part", parts))
        send = partial(_send_rows, check, ordinal, rounds, parts)
        for faults in engine.run_shuffled(tasks, send, [Stage(parts, partial(_compare_part, check))], counter):
            for figure, (count, keys) in faults.items():
                counts[figure] = (counts[figure] or 0) + count
                examples[figure] = sorted([*examples[figure], *keys])[:EXAMPLES]
    if check.migrated:
        counts["stray"] = None
    return counts, examples


def _send_rows(
    check: IndexCheck, ordinal: int, rounds: int, parts: int, task: tuple[int, tuple[Slice, ...]]
) -> Iterator[SentRows]:
    """Send the rows of a round, whose subscription keys are `ordinal` modulo `rounds`, to the part of their key."""
    tag, slices = task
    for of_tag, rows in _read_requests(check, slices) if tag == REQUESTED else _read_index(check, slices):
        keys = rows.column("subscription_key").to_numpy()
        of_round = rows.filter(pa.array(keys % rounds == ordinal))
        bucket = of_round.column("subscription_key").to_numpy() // rounds % parts
        for part in distinct_values(bucket):
            yield int(part), of_tag, of_round.filter(pa.array(bucket == part))


def _read_requests(check: IndexCheck, slices: tuple[Slice, ...]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the pieces and the deletions that the requests ask for."""
    for rows in read_requests(slices, KeyRange("request_key", 0, check.requests_to), check.withdrawn):
        pieces = make_pieces(rows)
        terms, _ = _sums(pieces.column("clauses"))
        described = {"terms": pa.array(terms), "verified": pa.array(_hash_verified(pieces))}
        copied = {name: pieces.column(name) for name in (KEY.name, *(field.name for field in BOX))}
        yield REQUESTED, pa.RecordBatch.from_pydict(copied | described, schema=COLUMNS[REQUESTED])
        yield DELETED, select_deletions(rows, check.batch_id).select(COLUMNS[DELETED].names)


def _read_index(check: IndexCheck, slices: tuple[Slice, ...]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the pieces and the deletions of the index."""
    for part in slices:
        file = check.files.find(part.path)
        for rows in read_slices([part], [*PIECES.names, "batch_id"], KeyRange("batch_id", -1, check.batch_id)):
            if file.worker == names.EVERY_WORKER:
                yield STORED_DELETED, rows.select(COLUMNS[STORED_DELETED].names)
                continue
            pieces = rows.filter(pc.is_null(rows.column("kind")))
            owner, workers = workers_by_row(pieces, dispatch_index(check.home, file.plan_version))
            terms, posted = _sums(pieces.column("clauses"))
            described = {
                "terms": terms,
                "verified": _hash_verified(pieces),
                "posted": posted,
                "worker": np.full(pieces.num_rows, file.worker),
                "workers": np.bincount(owner, minlength=pieces.num_rows),
                "mine": np.bincount(owner[workers == file.worker], minlength=pieces.num_rows) > 0,
            }
            copied = {name: pieces.column(name) for name in ("subscription_key", *(field.name for field in BOX))}
            yield STORED, pa.RecordBatch.from_pydict(copied | described, schema=COLUMNS[STORED])


def _sums(clauses: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the term ids of each row, modulo 2^64: over all its clauses, and over its first clause."""
    outer, inner = clauses.offsets.to_numpy(), clauses.values.offsets.to_numpy()
    terms = clauses.values.values.to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(terms.astype(np.int64))])
    starts = inner[outer[:-1]]
    return before[inner[outer[1:]]] - before[starts], before[inner[outer[:-1] + 1]] - before[starts]


def _hash_verified(pieces: pa.RecordBatch) -> np.ndarray:
    """Return a hash of the verified clauses and phrases of each row: int64[n]."""
    sums = np.zeros(pieces.num_rows, np.int64)
    for salt, name in enumerate(("verified", "phrases")):
        outer, inner, values = nested_lists(pieces.column(name))
        place = np.arange(len(inner) - 1) - np.repeat(outer[:-1], np.diff(outer))
        of_value = np.repeat(hash_integers(place, salt), np.diff(inner))
        hashes = hash_integers(of_value + hash_integers(values)).view(np.int64)
        sums += sum_slices(sum_slices(hashes, inner), outer)
    return sums


def _compare_part(check: IndexCheck, _: int, received: ReceivedRows) -> dict[str, tuple[int, list[int]]]:
    """Return the number of rows with each fault in a part, and the subscription keys of some, by figure."""
    batches: dict[int, list[pa.RecordBatch]] = {tag: [] for tag in COLUMNS}
    for tag, rows in received:
        batches[tag].append(rows)
    frames = [pa.Table.from_batches(batches[tag], COLUMNS[tag]).to_pandas() for tag in COLUMNS]
    requested, deleted, stored, stored_deleted = frames
    key, deleted_key, stored_key, stored_deleted_key = (frame["subscription_key"].to_numpy() for frame in frames)

    # The end of each requested piece, by the requests and by the deletions of the index.
    deleted_at, index_deleted_at = _first_deletions(key, deleted), _first_deletions(key, stored_deleted)
    end_at = np.minimum(requested["end_at"].to_numpy(), deleted_at)

    # The position of the requested piece of each index row, -1 where there is none; how many of the workers that must
    # have a requested piece have it.
    pieces = requested[[*IDENTITY]].assign(position=np.arange(len(requested)))
    merged = stored[[*IDENTITY]].merge(pieces, how="left", on=[*IDENTITY])
    position = merged["position"].fillna(-1).to_numpy(np.int64)
    has_request = position >= 0
    doubled = stored.duplicated([*IDENTITY, "worker"]).to_numpy()
    mine = stored["mine"].to_numpy()
    counted = has_request & mine & ~doubled
    present, expected = np.bincount(position[counted], minlength=len(requested)), np.ones(len(requested), np.int64)
    expected[position[counted]] = stored["workers"].to_numpy()[counted]

    # Index rows that outlive their deletion need that deletion in the index.
    outlives = has_request.copy()
    outlives[has_request] = stored["end_at"].to_numpy()[has_request] > deleted_at[position[has_request]]
    lacks_deletion = index_deleted_at > deleted_at

    is_requested = is_among(stored_key, distinct_values(key))
    is_deleted = is_among(stored_deleted_key, distinct_values(deleted_key))
    faults = {
        "missing": key[(end_at > check.bound) & (present != expected)],
        "stray": stored_key[~mine],
        "doubled": stored_key[doubled],
        "orphans": np.concatenate([stored_key[~is_requested], stored_deleted_key[~is_deleted]]),
        "altered": stored_key[is_requested & ~_equals_request(stored, requested, deleted, position)],
        "lost_deletions": stored_key[outlives][lacks_deletion[position[outlives]]],
    }
    return {figure: (len(keys), keys[:EXAMPLES].tolist()) for figure, keys in faults.items()}


def _first_deletions(keys: np.ndarray, deletions: "DataFrame") -> np.ndarray:
    """Return the earliest deletion of each key: int64 microseconds, NEVER_US where there is none."""
    columns = {"keys": deletions["subscription_key"].to_numpy(), "ends": deletions["end_at"].to_numpy()}
    known, ends = merge_deletions([columns])
    return look_up(keys, known, ends, names.NEVER_US)


def _equals_request(
    stored: "DataFrame", requested: "DataFrame", deleted: "DataFrame", position: np.ndarray
) -> np.ndarray:
    """Return whether each index row has the values of its request, and all rows of a piece are posted under one clause.

    The end may be that of any deletion: an earlier one may have come after the row was written.

    position: that of the requested piece of each index row, -1 where there is none
    """
    has_request = position >= 0
    index_rows, pieces, position = stored[has_request], requested.iloc[position[has_request]], position[has_request]
    equal = np.ones(len(index_rows), bool)
    for name in ("east", "north", "created_at", "terms", "verified"):
        equal &= index_rows[name].to_numpy() == pieces[name].to_numpy()
    end = index_rows["end_at"].to_numpy()
    ends = [*END.names]
    deletions = deleted[ends].drop_duplicates()
    is_deletion = index_rows[ends].merge(deletions, how="left", indicator=True)["_merge"] == "both"
    equal &= (end == pieces["end_at"].to_numpy()) | is_deletion.to_numpy()
    posted, first = index_rows["posted"].to_numpy(), np.zeros(len(requested), np.int64)
    first[position] = posted
    equals = np.zeros(len(stored), bool)
    equals[has_request] = equal & (posted == first[position])
    return equals
