"""Check the ids of staged rows against the log, and write accepted rows and rejects as files, not yet committed.

All rows of an id, new and stored, meet in one part of a shuffle, where the rules are applied to them in the order of
the log (kernels/log_rules.py). Each part writes verdicts to a file in the staging folder: by log key, the reason for a
reject, and for a deletion or a replacement the insertion that it ends. Tasks that append staged files read these files,
and write a staged file as two uncommitted data files.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import add, gt, sub
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, find_among, is_among
from pststream.base.arrow_columns import integers, micros, one_array, utf8_of
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.base.utc_times import to_micros
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import cache_place, segment_cache
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, REASONS, RETRIABLE
from pststream.kernels.log_rules import apply_request_rules, find_duplicate_objects, find_repeated
from pststream.kernels.parsing.texts import hash_texts
from pststream.kernels.sort_and_search import find_all_positions
from pststream.matching.segments import SegmentCache
from pststream.pipeline.ingest.stage_file import (
    ID_OF,
    OWNER,
    QUOTAS,
    SCHEMAS,
    TIME_OF,
    File,
    StagedFile,
    last_row_with_room,
    taken_by,
)
from pststream.pipeline.ingest.staged_rows import StagedRows, read_staged
from pststream.settings import Settings
from pststream.state.data_files import DataFile, DataFiles, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import (
    SLICE_ROWS,
    KeyRange,
    Slice,
    read_slices,
    rows_of_tasks,
    split_into_tasks,
    whole_file,
)
from pststream.state.tables import RECORD, TABLES
from pststream.tables.ledgers import MAX_ROW, log_key, read_live
from pststream.tables.log_events import NONE, WithdrawnRows, withdrawn_objects, withdrawn_requests
from pststream.tables.owners import ID_COLUMNS, join_ids


def ids_of(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    """Return the ids of rows (string[n]), of one column, or of an owner and an id."""
    return rows.column(columns[0]) if len(columns) == 1 else join_ids(*map(rows.column, columns))


class IdSet:
    """Ids to look up (`ids_of`), with their distinct hashes; ids: string[n] without nulls."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self.hashes = distinct_values(hash_texts(*utf8_of(ids)))


def find_rows_by_id(
    cache: SegmentCache, part: Slice, id_columns: Sequence[str], columns: list[str], wanted: IdSet
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the slice's rows whose id is in `wanted`, in any order; nothing if there are none.

    Costs a bisection for each id of `wanted`, and reads the slice if the node's cache does not have its index: the rows
    sorted by the hash of their id. A slice of a data file never changes, so this is done once.
    """
    name = f"{part.path} {part.first} {part.stop} by {' '.join(id_columns)}: {' '.join(columns)}"
    index = cache.arrays((name,), lambda: _build_index(part, id_columns, columns))
    positions, _ = find_all_positions(index["hashes"], wanted.hashes)
    if len(positions):
        rows = pa.ipc.open_stream(pa.py_buffer(index["rows"])).read_next_batch().take(pa.array(positions))
        # Two ids may share a hash.
        yield rows.filter(pc.is_in(ids_of(rows, id_columns), wanted.ids))


def _build_index(part: Slice, id_columns: Sequence[str], columns: list[str]) -> dict[str, np.ndarray]:
    """Return the slice's rows sorted by the hash of their id: hashes int64[n]; rows uint8[bytes], an Arrow stream."""
    batches = list(read_slices([part], columns))
    if not batches:
        return {"hashes": np.empty(0, np.int64), "rows": np.empty(0, np.uint8)}
    rows = pa.concat_batches(batches)
    hashes = hash_texts(*utf8_of(ids_of(rows, id_columns)))
    order = np.argsort(hashes, kind="stable")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows.take(pa.array(order)))
    return {"hashes": hashes[order], "rows": np.frombuffer(sink.getvalue(), np.uint8)}


STORED_HORIZON = names.NEVER_US
"""Horizon of stored rows. No ts reaches it, so no stored row counts as a duplicate, whichever earlier rows are read."""

PART_ROWS, PART_ID_BYTES = 2_000_000, 256 << 20
"""Rows that a part of the shuffle has, about, and bytes of the ids of new rows; an id may have `max_id_bytes`."""

MAX_LOOKUP_ROWS, MAX_LOOKUP_BYTES = 5_000_000, 1 << 30
"""With at most so many new rows, and bytes of their ids, stored rows are looked up by the new ids; with more, all
stored rows are shuffled.
"""

MIN_INDEXED_ROWS = 50_000
"""Data files of fewer rows are read each time, which takes no longer than to open their id index in the cache."""

LOG_GROUP = 32_768
"""Rows of a row group of `objects` and `requests`: the fewest that a routing task reads."""

SLICES_PER_TASK = 16
"""Slices with an id index that a task looks ids up in."""

ID_COLUMNS_OF = {"objects": ("object_id",), "requests": ID_COLUMNS}
COLUMNS = {"objects": ["ts"], "requests": ["op", "effective_at", "expires_at"]}
"""The columns that the rules compare, besides the id."""

QUOTA_COLUMNS = [*COLUMNS["requests"], "owner", "room", "postings"]
"""The columns that decide on quotas, besides the id."""

KEY_OF = {"objects": "object_key", "requests": "request_key"}
OUTCOMES = (None, "already_live", "unknown_subscription", "before_insertion")
"""Reason for each outcome of `kernels.log_rules.apply_request_rules`."""

VERDICTS = pa.schema([("key", pa.int64()), ("reason", pa.string()), ("concerned", pa.int64())])
"""Columns of a verdict file: key of the row, reason or null, key of the insertion that the request concerns or null."""


@dataclass(frozen=True)
class NewIds:
    """The staged files with the ids of the new rows, and the cache of id indexes on the node (`cache_place`)."""

    files: tuple[StagedRows, ...]
    cache: tuple[str, int]


@dataclass(frozen=True)
class NewRows:
    """Staged rows of a new file.

    horizon  of objects, the time (microseconds) before which they are late, names.NO_TIME: none is; of requests, the
             last row that has room and is within the quotas (`bound_requests`)
    """

    staged: StagedRows
    file_seq: int
    horizon: int

    @property
    def weight(self) -> float:
        """The work as a share of a full task."""
        return self.staged.rows / SLICE_ROWS


@dataclass(frozen=True)
class StoredRows:
    """Stored rows with a key below `before`, without withdrawn ones; `indexed`: the node keeps an id index of their
    slices; `owners`: of requests, whose they are, None: anybody's.
    """

    slices: tuple[Slice, ...]
    before: int
    indexed: bool
    withdrawn: WithdrawnRows
    owners: tuple[str, ...] | None = None


def deduplicate(
    home: Home,
    settings: Settings,
    kind: str,
    staged: list[StagedFile],
    horizons: dict[int, int],
    folder: str,
    progress: Progress,
) -> list[str]:
    """Write verdict files about the new rows into `folder`; return their paths.

    horizons: of each file (file_seq); see NewRows
    """
    new = [NewRows(part, one.file_seq, horizons[one.file_seq]) for one in staged for part in one.parts]
    rows = sum(s.rows for s in staged)
    if not new:
        return []
    # With few new ids the stored rows are looked up by id, else all stored rows that may matter are read.
    first = log_key(min(s.file_seq for s in staged), 0)
    id_bytes = sum(one.id_bytes for one in staged)
    is_lookup = rows <= MAX_LOOKUP_ROWS and id_bytes <= MAX_LOOKUP_BYTES
    ids = NewIds(tuple(one.staged for one in new), cache_place(settings)) if is_lookup else None
    files = _stored_files(home, kind, first, min(horizons.values(), default=names.NO_TIME))
    withdrawn = withdrawn_objects(home) if kind == "objects" else withdrawn_requests(home)
    tasks = _stored_tasks(home, kind, files, MIN_INDEXED_ROWS if ids else names.MAX_INT64)
    stored = [StoredRows(slices, first, is_indexed, withdrawn) for slices, is_indexed in tasks]
    # A lookup finds few stored rows; without a lookup the number of parts depends on the stored rows too.
    read = rows if ids else rows + sum(file.rows for file in files)
    parts = max(1, read // PART_ROWS, -(-id_bytes // PART_ID_BYTES))
    find = {"objects": _find_duplicate_objects, "requests": _find_invalid_requests}[kind]
    # Before the shuffle `_send_rows` runs on each group of new or stored rows and sends each row to the part of its id;
    # after it `_write_verdicts` runs on each part.
    sent = sum(one.staged.rows for one in new) + rows_of_tasks(one.slices for one in stored)
    counter = TaskCounter(
        progress, Counted("comparing ids with the log", "row", sent), Counted("applying its rules", "part", parts)
    )
    paths = get_engine(settings, home).run_shuffled(
        [*new, *stored],
        partial(_send_rows, kind, COLUMNS[kind], ids, parts),
        [Stage(parts, partial(_write_verdicts, find, first, folder))],
        counter,
    )
    return [path for path in paths if path is not None]


def _stored_files(home: Home, kind: str, first: int, horizon: int) -> DataFiles:
    """Return the data files that may have relevant rows with a key below `first`.

    Of objects, a row before the least horizon is not relevant: it makes no new object a duplicate.
    """
    files = KeyRange(KEY_OF[kind], -1, first - 1).files(list_data_files(home, kind))
    if kind != "objects":
        return files
    return files.select(files.may_contain("ts", horizon, names.NEVER_US))


def _stored_tasks(
    home: Home, kind: str, files: DataFiles, min_indexed_rows: int
) -> list[tuple[tuple[Slice, ...], bool]]:
    """Group the rows of stored files into tasks; return their slices, and whether these are indexed: only files of
    enough rows are.
    """
    large = split_into_tasks(addresses_and_rows(home, kind, [file for file in files if file.rows >= min_indexed_rows]))
    small = split_into_tasks(addresses_and_rows(home, kind, [file for file in files if file.rows < min_indexed_rows]))
    slices = [part for task in large for part in task]
    indexed = [tuple(slices[at : at + SLICES_PER_TASK]) for at in range(0, len(slices), SLICES_PER_TASK)]
    return [(group, True) for group in indexed] + [(group, False) for group in small]


def is_beyond(kind: str, rows: pa.RecordBatch, horizon: int) -> np.ndarray:
    """Return whether each staged row passed the row rules and is an object before, or an insertion after, the horizon
    (see NewRows): bool[n].
    """
    accepted = pc.is_null(rows.column("reason")).to_numpy(zero_copy_only=False)
    if kind == "requests":
        inserted = pc.fill_null(pc.not_equal(rows.column("op"), "delete"), False).to_numpy(zero_copy_only=False)
        return accepted & inserted & (rows.column("row").to_numpy() > horizon)
    return accepted & (micros(rows.column("ts").fill_null(pa.scalar(0, rows.column("ts").type))) < horizon)


def _send_rows(
    kind: str, columns: list[str], ids: NewIds | None, parts: int, task: NewRows | StoredRows
) -> Iterator[SentRows]:
    """Send each row that matters to the part of its id, by the hash of the id; `columns`: those besides key and id."""
    for rows in _read_new(kind, columns, task) if isinstance(task, NewRows) else _read_stored(kind, columns, task, ids):
        if parts == 1:
            yield 0, 0, rows
            continue
        hashes = hash_texts(*utf8_of(rows.column("id")))
        part = (hashes.view(np.uint64) % np.uint64(parts)).astype(np.int64)
        for ordinal in range(parts):
            yield ordinal, 0, rows.filter(pa.array(part == ordinal))


def _read_new(kind: str, columns: list[str], task: NewRows) -> Iterator[pa.RecordBatch]:
    """Yield the staged rows that passed the row rules and are not beyond the horizon."""
    for rows in read_staged([task.staged], list(dict.fromkeys(["row", "reason", *ID_COLUMNS_OF[kind], *columns]))):
        accepted = pc.is_null(rows.column("reason")).to_numpy(zero_copy_only=False)
        accepted &= ~is_beyond(kind, rows, task.horizon)
        if not accepted.all():
            rows = rows.filter(pa.array(accepted))
        keys = pc.add(rows.column("row"), log_key(task.file_seq, 0))
        yield _with_key_and_horizon(kind, columns, rows, keys, task.horizon)


def _read_stored(kind: str, columns: list[str], task: StoredRows, ids: NewIds | None) -> Iterator[pa.RecordBatch]:
    """Yield the stored rows before this ingest that are not withdrawn: those with a new id, or without `ids` all."""
    for rows in _select_stored(kind, columns, task, ids):
        # A compacted file may have rows of this ingest, if an earlier try of it was killed.
        earlier = rows.filter(pc.less(rows.column(KEY_OF[kind]), task.before))
        if kind == "requests":
            is_replacement = pc.is_valid(earlier.column("replaced_key"))
            operation = pc.if_else(is_replacement, "replace", earlier.column("op"))
            earlier = earlier.set_column(earlier.schema.get_field_index("op"), "op", operation)
        if task.withdrawn:
            earlier = earlier.filter(pa.array(~task.withdrawn.contain(earlier.column(KEY_OF[kind]).to_numpy())))
        yield _with_key_and_horizon(kind, columns, earlier, earlier.column(KEY_OF[kind]), STORED_HORIZON)


def _select_stored(kind: str, columns: list[str], task: StoredRows, ids: NewIds | None) -> Iterator[pa.RecordBatch]:
    of_kind = ["replaced_key"] if kind == "requests" else []
    columns = list(dict.fromkeys([KEY_OF[kind], *ID_COLUMNS_OF[kind], *columns, *of_kind]))
    if task.owners is not None:
        owners = pa.array(task.owners, pa.string())
        for part in task.slices:
            # Most files have the rows of one owner: the other columns of strangers are not read.
            if any(pc.any(pc.is_in(rows.column("owner"), owners)).as_py() for rows in read_slices([part], ["owner"])):
                yield from (
                    rows.filter(pc.is_in(rows.column("owner"), owners)) for rows in read_slices([part], columns)
                )
        return
    if ids is None:
        yield from read_slices(task.slices, columns)
        return
    wanted = _read_new_ids(kind, ids.files)
    if task.indexed:
        for part in task.slices:
            yield from find_rows_by_id(segment_cache(*ids.cache), part, ID_COLUMNS_OF[kind], columns, wanted)
        return
    for rows in read_slices(task.slices, columns):
        yield rows.filter(pc.is_in(ids_of(rows, ID_COLUMNS_OF[kind]), wanted.ids))


def _with_key_and_horizon(
    kind: str, columns: list[str], rows: pa.RecordBatch, keys: pa.Array, horizon: int
) -> pa.RecordBatch:
    values = {"id": ids_of(rows, ID_COLUMNS_OF[kind])} | {name: rows.column(name) for name in columns}
    return pa.RecordBatch.from_pydict(
        {"key": keys, **values, "horizon": pa.array(np.full(rows.num_rows, horizon, np.int64))}
    )


@lru_cache(maxsize=1)
def _read_new_ids(kind: str, files: tuple[StagedRows, ...]) -> IdSet:
    """Return the ids of staged files."""
    columns = ID_COLUMNS_OF[kind]
    ids = [ids_of(rows, columns).drop_null() for rows in read_staged(files, list(columns))]
    return IdSet(one_array(pa.chunked_array(ids, pa.string())))


Verdicts = tuple[np.ndarray, pa.Array, pa.Array]
"""The columns of VERDICTS."""


def _write_verdicts(
    find: Callable[[pa.RecordBatch], Verdicts], first: int, folder: str, part: int, received: ReceivedRows
) -> str | None:
    """Write the verdicts on the rows of a part from key `first` on, sorted by key; return the path, None if empty."""
    keys, reasons, concerned = find(pa.concat_batches([rows for _, rows in received]))
    order = np.argsort(keys, kind="stable")
    order = order[np.searchsorted(keys[order], first) :]
    writer = FileWriter(folder, VERDICTS)
    positions = pa.array(order)
    writer.write(
        pa.RecordBatch.from_arrays(
            [pa.array(keys[order]), reasons.take(positions), concerned.take(positions)], schema=VERDICTS
        )
    )
    return None if writer.close() is None else writer.address


def accept_deletion(key: int, concerned: int, folder: str) -> str:
    """Write a verdict file into `folder` by which a staged deletion counts, whatever the log says; return its path.

    key, concerned: keys of the deletion and of the insertion that it deletes
    """
    writer = FileWriter(folder, VERDICTS)
    writer.write(pa.RecordBatch.from_pylist([{"key": key, "reason": None, "concerned": concerned}], VERDICTS))
    writer.close()
    return writer.address


def _group_by_id(rows: pa.RecordBatch, is_wanted: np.ndarray | None = None) -> pa.RecordBatch:
    """Return the rows whose id occurs more than once, sorted by id and then in the order of the log, and their `code`.

    is_wanted: bool[n], rows to return even if their id occurs once. Ids that share a hash with another id are returned
    too: the log rules accept a row whose id occurs once.
    """
    repeated = find_repeated(hash_texts(*utf8_of(rows.column("id"))))
    rows = rows.filter(pa.array(repeated if is_wanted is None else repeated | is_wanted))
    codes = rows.column("id").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((rows.column("key").to_numpy(), codes))
    return rows.take(pa.array(order)).append_column("code", pa.array(codes[order]))


def _group_starts(rows: pa.RecordBatch) -> np.ndarray:
    """Return the first row of each id, and the number of rows: int64[ids+1]."""
    codes = rows.column("code").to_numpy()
    if not len(codes):
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]]).astype(np.int64)


def _find_duplicate_objects(rows: pa.RecordBatch) -> Verdicts:
    rows = _group_by_id(rows)
    keys = rows.column("key").to_numpy()
    times, horizons = micros(rows.column("ts")), rows.column("horizon").to_numpy()
    duplicate = find_duplicate_objects(_group_starts(rows), keys, times, horizons, names.ROW_BITS)
    keys = keys[duplicate]
    return keys, pa.repeat("duplicate", len(keys)), pa.nulls(len(keys), pa.int64())


def _find_invalid_requests(rows: pa.RecordBatch) -> Verdicts:
    """Check the requests of each subscription; most insertions alone, which are always valid, are left out.

    A replacement is a deletion, which may find no live subscription, and then an insertion.
    """
    deletes = pc.equal(rows.column("op"), "delete").to_numpy(zero_copy_only=False)
    rows = _group_by_id(rows, deletes)
    is_replacement = pc.equal(rows.column("op"), "replace").to_numpy(zero_copy_only=False)
    first = np.arange(rows.num_rows) + np.cumsum(is_replacement) - is_replacement
    steps = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), 1 + is_replacement)))
    deletes = pc.equal(steps.column("op"), "delete").to_numpy(zero_copy_only=False).copy()
    deletes[first[is_replacement]] = True
    expires = steps.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US).to_numpy()
    starts, times = _group_starts(steps), micros(steps.column("effective_at"))
    outcome, concerned = apply_request_rules(starts, steps.column("key").to_numpy(), deletes, times, expires)
    outcome, concerned = outcome[first], concerned[first]
    inserts = is_replacement & (outcome == OUTCOMES.index("unknown_subscription"))
    outcome[inserts] = 0
    reasons = pa.array(OUTCOMES, pa.string()).take(pa.array(outcome))
    return rows.column("key").to_numpy(), reasons, pa.array(concerned, mask=concerned < 0)


# Quotas


class RequestBound(NamedTuple):
    """Insertions of a file after row `last` are rejected for `reason`; `columns`: those of the ledger on its owner."""

    last: int
    reason: str
    columns: dict[str, Any]


class _Life(NamedTuple):
    """The last subscription of an id: start and end (microseconds), and what it takes now, in the order of QUOTAS."""

    start: int
    end: int
    takes: list[int]


NOTHING = [0] * len(QUOTAS)


def bound_requests(
    home: Home, settings: Settings, files: Sequence[File], staged: Sequence[StagedFile], progress: Progress
) -> dict[int, RequestBound]:
    """Return the bound of each file (file_seq) of an ingest: by its room alone, or by the quotas of its owner.

    An insertion that the other rules accept exceeds a quota if the live subscriptions of its owner take more with it.
    Live are those inserted before it in the log whose end is after the clock: after the time when the ingest began, or
    an earlier ingest of the owner if that began later. It and all insertions after it in its file are rejected.

    Mostly the ledger, and what the files ask for, show that nothing is exceeded. Of other owners, tasks add up what is
    stored. Only if an owner may exceed his quotas even then, this process judges his new requests one by one in Python:
    in each file up to the first insertion that exceeds, and deletions alone after it.
    """
    first, now = files[0]["file_seq"], to_micros(files[0]["started_at"])
    options = {file["file_seq"]: json.loads(file["options"]) for file in files}
    owner_of = {seq: of_file[OWNER] for seq, of_file in options.items()}
    quotas_of = {seq: [of_file[name] for name in QUOTAS] for seq, of_file in options.items()}
    stored = read_live(home, set(owner_of.values()), first)
    live = {owner: stored.get(owner, (NOTHING, now))[0] for owner in owner_of.values()}

    def exceeding() -> set[str]:
        most, owners = dict(live), set()
        for (seq, owner), one in zip(owner_of.items(), staged):
            most[owner] = list(map(add, most[owner], one.asked))
            if _exceeds(most[owner], quotas_of[seq]):
                owners.add(owner)
        return owners

    last_row = {file["file_seq"]: last_row_with_room(one, file) for file, one in zip(files, staged, strict=True)}
    new = {seq: [NewRows(part, seq, last_row[seq]) for part in one.parts] for seq, one in zip(owner_of, staged)}
    lives: dict[str, _Life] = {}
    judged: set[str] = set()
    if unsure := exceeding():
        clocks = {owner: max(now, stored.get(owner, (NOTHING, now))[1]) for owner in sorted(unsure)}
        of_owners = [part for seq, parts in new.items() if owner_of[seq] in clocks for part in parts]
        sums, lives = _read_lives(home, settings, of_owners, log_key(first, 0), clocks, progress)
        live |= sums
        judged = exceeding()
    bounds = {}
    for (seq, owner), one in zip(owner_of.items(), staged):
        last, after = names.MAX_INT64, list(map(add, live[owner], one.asked))
        if owner in judged:
            rows = (rows for part in new[seq] for rows in _read_new("requests", QUOTA_COLUMNS, part))
            last, after = _judge_file(rows, lives, live[owner], quotas_of[seq], clocks[owner])
        live[owner] = after
        reason = "over_room" if last == names.MAX_INT64 else "over_quota"
        bounds[seq] = RequestBound(min(last, last_row[seq]), reason, {"owner": owner, "live": after})
    return bounds


def _exceeds(live: list[int], quotas: list[int]) -> bool:
    return any(map(gt, live, quotas))


def _read_lives(
    home: Home, settings: Settings, new: list[NewRows], first: int, clocks: dict[str, int], progress: Progress
) -> tuple[dict[str, list[int]], dict[str, _Life]]:
    """Return what the live subscriptions of owners take by the rows before key `first`, and of the ids of new rows the
    last subscription before it.

    clocks: time (microseconds) of each owner; subscriptions that end up to then are not live
    """
    files = _stored_files(home, "requests", first, names.NO_TIME)
    tasks = _stored_tasks(home, "requests", files, names.MAX_INT64)
    stored = [StoredRows(slices, first, False, NONE, tuple(clocks)) for slices, _ in tasks]
    rows = sum(one.staged.rows for one in new) + rows_of_tasks(one.slices for one in stored)
    parts = max(1, rows // PART_ROWS)
    counted = get_engine(settings, home).run_shuffled(
        [*new, *stored],
        partial(_send_rows, "requests", QUOTA_COLUMNS, None, parts),
        [Stage(parts, partial(_count_lives, first, clocks))],
        TaskCounter(
            progress, Counted("reading subscriptions of owners", "row", rows), Counted("adding up", "part", parts)
        ),
    )
    sums = sum((of_part for of_part, _ in counted), np.zeros((len(clocks), len(QUOTAS)), np.int64))
    return dict(zip(clocks, sums.tolist())), {one: life for _, of_part in counted for one, life in of_part}


def _count_lives(
    first: int, clocks: dict[str, int], part: int, received: ReceivedRows
) -> tuple[np.ndarray, list[tuple[str, _Life]]]:
    """Return what the stored live subscriptions in a part take, int64[owners, 3], and the last one of each new id."""
    rows = pa.concat_batches([rows for _, rows in received])
    rows = _group_by_id(rows, np.ones(rows.num_rows, bool))
    is_new = rows.column("key").to_numpy() >= first
    new_codes = distinct_values(rows.column("code").to_numpy()[is_new])
    rows = rows.filter(pa.array(~is_new))
    inserts = pc.not_equal(rows.column("op"), "delete").to_numpy(zero_copy_only=False)
    begins, codes = np.flatnonzero(inserts), rows.column("code").to_numpy()
    if not len(begins):
        return np.zeros((len(clocks), len(QUOTAS)), np.int64), []
    starts = micros(rows.column("effective_at"))
    ends = np.minimum.reduceat(np.where(inserts, integers(rows, "expires_at", names.NEVER_US), starts), begins)
    # A subscription that was live when the next one of its id began was replaced.
    same_id = codes[begins[1:]] == codes[begins[:-1]]
    ends[:-1] = np.where(same_id, np.minimum(ends[:-1], starts[begins[1:]]), ends[:-1])
    rows = rows.take(pa.array(begins))
    owners = pc.index_in(rows.column("owner"), pa.array(clocks, pa.string())).to_numpy()
    takes = taken_by(rows)
    takes[ends <= np.array(list(clocks.values()))[owners]] = 0
    sums = np.zeros((len(clocks), len(QUOTAS)), np.int64)
    np.add.at(sums, owners, takes)
    codes = rows.column("code").to_numpy()
    last = np.append(codes[1:] != codes[:-1], True) & is_among(codes, new_codes)
    lives = zip(micros(rows.column("effective_at"))[last].tolist(), ends[last].tolist(), takes[last].tolist())
    return sums, list(zip(rows.column("id").filter(pa.array(last)).to_pylist(), map(_Life._make, lives)))


def _judge_file(
    rows: Iterable[pa.RecordBatch], lives: dict[str, _Life], live: list[int], quotas: list[int], now: int
) -> tuple[int, list[int]]:
    """Apply the rules to the requests of a file in the order of the log, and update `lives`, the last ones by id.

    Returns the last row before the first insertion that exceeds a quota (names.MAX_INT64 if none does), and what is
    live after the file.
    """
    last = names.MAX_INT64
    for batch in rows:
        if last < names.MAX_INT64:
            batch = batch.filter(pc.equal(batch.column("op"), "delete"))
        columns = (batch.column(name).to_pylist() for name in ("key", "id", "op"))
        ends = integers(batch, "expires_at", names.NEVER_US).tolist()
        times = micros(batch.column("effective_at")).tolist()
        for key, one, op, at, end, share in zip(*columns, times, ends, taken_by(batch).tolist()):
            life = lives.get(one)
            is_ended = op != "insert" and life is not None and life.start < at < life.end
            gone = life.takes if life is not None and is_ended and at <= now else NOTHING
            if op == "delete":
                if life is not None and is_ended:
                    live = list(map(sub, live, gone))
                    lives[one] = _Life(life.start, at, list(map(sub, life.takes, gone)))
            elif last == names.MAX_INT64 and (life is None or life.end <= at or is_ended):
                share = share if end > now else NOTHING
                after = list(map(add, map(sub, live, gone), share))
                if _exceeds(after, quotas):
                    last = (key & MAX_ROW) - 1
                else:
                    live, lives[one] = after, _Life(at, end, share)
    return last, live


TABLE_OF = {"objects": names.OBJECTS, "requests": names.REQUESTS}
FIELD_OF = {"late": "ts", "duplicate": "object_id", "before_insertion": "at"}
"""Field to blame for each reason found while appending (others: `subscription_id`)."""


@dataclass(frozen=True)
class AppendTask:
    """The input of a task that appends the rows of one staged file.

    path      of the input file, for the rejects
    horizon   see NewRows
    beyond    reason for rows beyond the horizon
    verdicts  paths of the verdict files of this ingest
    """

    kind: str
    home: str
    ingest_id: int
    file_seq: int
    staged: StagedRows
    path: str
    horizon: int
    beyond: str
    verdicts: tuple[str, ...]

    @property
    def weight(self) -> float:
        """The work as a share of a full task."""
        return self.staged.rows / SLICE_ROWS


@dataclass(frozen=True)
class AppendedFile:
    """The data files that a task wrote, not yet committed, and its counts; min_time: of accepted rows, microseconds.

    attributed: accepted objects with attributes
    """

    file_seq: int
    rows: DataFile | None
    rejects: DataFile | None
    accepted: int
    reasons: dict[str, int]
    min_time: int | None
    attributed: int = 0


def append_staged_rows(task: AppendTask) -> AppendedFile:
    """Write the accepted and the rejected rows of a staged file as data files of their tables."""
    home, kind = Home(task.home), task.kind
    table = TABLES[TABLE_OF[kind]]
    rows = FileWriter(home.table(table.name), table.schema, row_group=LOG_GROUP)
    rejects = FileWriter(home.table(names.REJECTS), TABLES[names.REJECTS].schema)
    of_file = KeyRange("key", log_key(task.file_seq, 0), log_key(task.file_seq + 1, 0) - 1)
    read = read_slices(map(whole_file, task.verdicts), VERDICTS.names, of_file)
    verdicts = pa.Table.from_batches(read, VERDICTS).sort_by("key").combine_chunks()
    count, reasons, min_time, attributed = 0, Counter[str](), None, 0
    for staged in read_staged([task.staged], SCHEMAS[kind].names):
        accepted, rejected = _apply_verdicts(task, staged, verdicts)
        if rejected.num_rows:
            reasons.update(rejected.column("reason").to_pylist())
            rejects.write(_reject_rows(task, rejected))
        count += accepted.num_rows
        if accepted.num_rows:
            first = int(micros(accepted.column(TIME_OF[kind])).min())
            min_time = first if min_time is None else min(min_time, first)
            if kind == names.OBJECTS:
                attributed += accepted.num_rows - accepted.column("attributes").null_count
            rows.write(accepted.append_column("ingest_id", pa.array(np.full(accepted.num_rows, task.ingest_id))))
    return AppendedFile(task.file_seq, rows.close(), rejects.close(), count, dict(reasons), min_time, attributed)


def _apply_verdicts(
    task: AppendTask, rows: pa.RecordBatch, verdicts: pa.Table
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted rows with their log keys, and the other rows with the reason of the rules or of the log.

    verdicts: those on the rows of the file, sorted by key
    """
    keys = rows.column("row").to_numpy() + log_key(task.file_seq, 0)
    index, has_verdict = find_among(keys, verdicts.column("key").to_numpy())
    of_rows = pa.array(index, mask=~has_verdict)
    reason, concerned = (one_array(verdicts.column(name)).take(of_rows) for name in ("reason", "concerned"))
    beyond = is_beyond(task.kind, rows, task.horizon)
    reason = pc.if_else(pa.array(beyond), task.beyond, reason) if beyond.any() else reason
    rows = rows.append_column(KEY_OF[task.kind], pa.array(keys))
    if task.kind == "requests":
        is_replacement = pc.fill_null(pc.equal(rows.column("op"), "replace"), False)
        nothing = pa.scalar(None, pa.int64())
        own = pc.if_else(is_replacement, nothing, concerned)
        rows = rows.append_column("subscription_key", pc.coalesce(own, pa.array(keys)))
        rows = rows.append_column("replaced_key", pc.if_else(is_replacement, concerned, nothing))
        operation = pc.if_else(is_replacement, "insert", rows.column("op"))
        rows = rows.set_column(rows.schema.get_field_index("op"), "op", operation)
    by_rule, by_log = pc.is_valid(rows.column("reason")), pc.is_valid(reason)
    if not pc.any(pc.or_(by_rule, by_log)).as_py():
        return rows, rows.slice(0, 0)
    rejected = _with_reasons(task, rows.filter(by_log), reason.filter(by_log))
    rejected = pa.concat_batches([rows.filter(by_rule), rejected])
    return rows.filter(pc.invert(pc.or_(by_rule, by_log))), rejected


def _with_reasons(task: AppendTask, rows: pa.RecordBatch, reason: pa.Array) -> pa.RecordBatch:
    """Return rows that the log rejects, with the columns of rejects; `reason` string[n]."""
    # The field that each reason concerns, and its value as text.
    id_column, time_column = ID_OF[task.kind], TIME_OF[task.kind]
    time_field = "at" if time_column == "effective_at" else time_column
    as_text = {
        id_column: rows.column(id_column).cast(pa.string()),
        time_field: rows.column(time_column).cast(pa.string()),
    }
    raw, field = as_text[id_column], pa.repeat(id_column, rows.num_rows)
    for code, name in FIELD_OF.items():
        if name in as_text:
            has_code = pc.equal(reason, code)
            raw, field = pc.if_else(has_code, as_text[name], raw), pc.if_else(has_code, name, field)
    details = pa.array(list(REASONS.values())).take(pc.index_in(reason, pa.array(list(REASONS))))
    raw = pc.utf8_slice_codeunits(raw, 0, MAX_RAW_CHARACTERS)
    of_log = {"field": field, "reason": reason, "detail": details, "raw": raw}
    columns = [of_log.get(name, rows.column(name)) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _reject_rows(task: AppendTask, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of `rejects`; `record` has all fields of the objects that can be ingested again."""
    count = rows.num_rows
    values = {name: rows.column(name) for name in ("row", "field", "reason", "detail", "raw")}
    record = pa.nulls(count, RECORD)
    if task.kind == "objects":
        is_retriable = pc.is_in(rows.column("reason"), pa.array(RETRIABLE))
        fields = [rows.column(field.name) for field in RECORD]
        record = pa.StructArray.from_arrays(fields, fields=list(RECORD), mask=pc.invert(is_retriable))
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.repeat(task.kind, count),
            "file": pa.repeat(task.path, count),
            **values,
            "ingest_id": pa.array(np.full(count, task.ingest_id)),
            "record": record,
        }
    )
