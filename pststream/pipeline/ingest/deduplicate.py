"""The log judges new rows by the earlier rows of their id: duplicates, second insertions, deletions of nothing live.

Rows of an id are brought together in one part, new ones with the stored ones that matter, and walked in the order of
the log (kernels/log_rules.py). What is found goes to verdict files in the staging folder, one a part, by log key.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.kernels.log_rules import duplicate_objects, judge_operations
from pststream.kernels.parsing.tokens import hash_texts
from pststream.pipeline.engine.arrow_columns import micros
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import cache_place, segment_cache
from pststream.pipeline.ingest.stage_files import ID_OF, Staged
from pststream.pipeline.ingest.stored_ids import Wanted, earlier_rows
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, data_files, located
from pststream.state.home import Home
from pststream.state.ledger import key
from pststream.state.slices import KeyRange, Slice, read_slices, tasks_of
from pststream.text.buffers import utf8_of

FIRST = -(2**63)
"""Horizon of a file before which there is none."""

ACCEPTED = names.NEVER_US
"""Horizon of stored rows: none is a duplicate of an earlier one, whichever of those are read."""

PART_ROWS = 2_000_000
PROBE_ROWS = 5_000_000
"""Up to so many new rows, their ids are looked for among the stored rows; else all stored rows travel."""

KEPT_ROWS = 50_000
"""Files of fewer rows are read each time, which takes no longer than to find them in the node's cache."""

KEPT_SLICES = 16
"""Slices in the node's cache that a task looks into."""

COLUMNS = {
    "objects": ["object_id", "ts"],
    "requests": ["subscription_id", "op", "at", "expires_at"],
}
KEY_OF = {"objects": "object_key", "requests": "request_key"}
OUTCOMES = (None, "already_live", "unknown_subscription", "before_insertion")
"""Reason of each outcome of `kernels.fold.judge_operations`."""

VERDICTS = pa.schema([("key", pa.int64()), ("reason", pa.string()), ("concerned", pa.int64())])


@dataclass(frozen=True)
class Probe:
    """Where the ids of the new rows are, and what a node keeps of the stored ones (pipeline/ingest/stored_ids.py)."""

    paths: tuple[str, ...]
    cache_dir: str
    cache_bytes: int


@dataclass(frozen=True)
class Source:
    """Rows to judge: of a new file, with its horizon. Or to judge by (`file_seq` is None): stored ones before the key
    `before`; `kept`: which a node keeps by id.
    """

    slices: tuple[Slice, ...]
    file_seq: int | None = None
    horizon: int = FIRST
    before: int = 0
    kept: bool = False


def judge(
    home: Home,
    settings: Settings,
    kind: str,
    staged: list[Staged],
    horizons: dict[int, int],
    folder: str,
) -> list[str]:
    """Paths of the verdict files about the new rows; `horizons`: of each file, objects before it are late."""
    new = [Source(s.slices, s.file_seq, horizons.get(s.file_seq, FIRST)) for s in staged if s.rows]
    rows = sum(s.rows for s in staged)
    if not new:
        return []
    first = key(min(s.file_seq for s in staged), 0)
    probe = Probe(tuple(s.path for s in staged if s.rows), *cache_place(settings)) if rows <= PROBE_ROWS else None
    files = _stored_files(home, kind, first, min(horizons.values(), default=FIRST))
    stored = _stored(home, kind, files, first, KEPT_ROWS if probe else names.NEVER_US)
    # Of stored rows all travel without a probe, else those of new ids, few of which came before.
    parts = max(1, (rows if probe else rows + sum(file.rows for file in files)) // PART_ROWS)
    receive = {"objects": _judge_objects, "requests": _judge_requests}[kind]
    found = get_engine(settings).run_shuffled(
        [*new, *stored], partial(_sent, kind, probe, parts), parts, partial(_received, receive, first, folder)
    )
    return [path for path in found if path is not None]


def _stored_files(home: Home, kind: str, first: int, horizon: int) -> list[DataFile]:
    """Files that may hold rows before the key `first` that matter: of objects, those not before the least horizon."""
    files = KeyRange(KEY_OF[kind], FIRST, first - 1).files(data_files(home, kind))
    if kind == "objects":
        if horizon == FIRST:
            return []
        files = [file for file in files if file.may_hold("ts", horizon, names.NEVER_US)]
    return files


def _stored(home: Home, kind: str, files: list[DataFile], first: int, kept_rows: int) -> list[Source]:
    """The rows of stored files before the key `first`; nodes keep files of `kept_rows` and more."""
    large = tasks_of(located(home, kind, [file for file in files if file.rows >= kept_rows]))
    small = tasks_of(located(home, kind, [file for file in files if file.rows < kept_rows]))
    slices = [part for task in large for part in task]
    kept = [tuple(slices[at : at + KEPT_SLICES]) for at in range(0, len(slices), KEPT_SLICES)]
    parts = [*((part, True) for part in kept), *((part, False) for part in small)]
    return [Source(part, before=first, kept=in_cache) for part, in_cache in parts]


def is_late(rows: pa.RecordBatch, horizon: int) -> np.ndarray:
    """Objects accepted by the row rules whose time is before the horizon: bool[n]."""
    accepted = pc.is_null(rows.column("reason")).to_numpy(zero_copy_only=False)
    return accepted & (micros(rows.column("ts").fill_null(pa.scalar(0, rows.column("ts").type))) < horizon)


def _sent(kind: str, probe: Probe | None, parts: int, source: Source) -> Iterator[SentRows]:
    """The rows of a source that may be judged or judge others, by the hash of their id."""
    for rows in _rows_of(kind, source, probe):
        ids = rows.column(ID_OF[kind])
        if parts == 1:
            yield 0, 0, rows
            continue
        part = (hash_texts(*utf8_of(ids)).view(np.uint64) % np.uint64(parts)).astype(np.int64)
        for number in range(parts):
            yield number, 0, rows.filter(pa.array(part == number))


def _rows_of(kind: str, source: Source, probe: Probe | None) -> Iterator[pa.RecordBatch]:
    if source.file_seq is None:
        for rows in _stored_rows(kind, source, probe):
            # A file that was joined may hold rows of the ingest that is judged: one that was killed, and is finished.
            earlier = rows.filter(pc.less(rows.column(KEY_OF[kind]), source.before))
            yield _judged_columns(kind, earlier, earlier.column(KEY_OF[kind]), ACCEPTED)
        return
    for rows in read_slices(source.slices, ["row", "reason", *COLUMNS[kind]]):
        kept = pc.is_null(rows.column("reason")).to_numpy(zero_copy_only=False)
        if kind == "objects":
            kept &= ~is_late(rows, source.horizon)
        held = rows.filter(pa.array(kept))
        keys = pc.add(held.column("row"), key(source.file_seq, 0))
        yield _judged_columns(kind, held, keys, source.horizon)


def _stored_rows(kind: str, source: Source, probe: Probe | None) -> Iterator[pa.RecordBatch]:
    columns = [KEY_OF[kind], *COLUMNS[kind]]
    if probe is None:
        yield from read_slices(source.slices, columns)
        return
    wanted = _new_ids(kind, probe.paths)
    if source.kept:
        cache = segment_cache(probe.cache_dir, probe.cache_bytes)
        for part in source.slices:
            yield from earlier_rows(cache, part, ID_OF[kind], columns, wanted)
        return
    for rows in read_slices(source.slices, columns):
        yield rows.filter(pc.is_in(rows.column(ID_OF[kind]), wanted.ids))


def _judged_columns(kind: str, rows: pa.RecordBatch, keys: pa.Array, horizon: int) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in COLUMNS[kind]}
    return pa.RecordBatch.from_pydict(
        {"key": keys, **columns, "horizon": pa.array(np.full(rows.num_rows, horizon, np.int64))}
    )


@lru_cache(maxsize=1)
def _new_ids(kind: str, paths: tuple[str, ...]) -> Wanted:
    """The distinct ids of the staged rows."""
    slices = tuple(Slice(path, 0, 2**62) for path in paths)
    found = [rows.column(0).drop_null() for rows in read_slices(slices, [ID_OF[kind]])]
    return Wanted(pc.unique(pa.chunked_array(found, pa.string())))


Judged = tuple[np.ndarray, pa.Array, pa.Array]


def _received(
    judge_rows: Callable[[pa.RecordBatch], Judged],
    first: int,
    folder: str,
    part: int,
    received: ReceivedRows,
) -> str | None:
    """Write the verdicts on rows from key `first` on, in the order of keys."""
    keys, reasons, concerned = judge_rows(pa.concat_batches([rows for _, rows in received]))
    order = np.argsort(keys, kind="stable")
    order = order[np.searchsorted(keys[order], first) :]
    writer = FileWriter(folder, VERDICTS)
    place = pa.array(order)
    writer.write(
        pa.RecordBatch.from_arrays([pa.array(keys[order]), reasons.take(place), concerned.take(place)], schema=VERDICTS)
    )
    return None if writer.close() is None else writer.address


def _by_id(rows: pa.RecordBatch, ids: str, wanted: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> pa.RecordBatch:
    """Rows whose id is wanted (given codes of ids and how often each occurs), by id and in the order of the log."""
    codes = rows.column(ids).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(wanted(codes, np.bincount(codes))[codes])
    order = kept[np.lexsort((rows.column("key").to_numpy()[kept], codes[kept]))]
    return rows.take(pa.array(order)).append_column("code", pa.array(codes[order]))


def _starts(rows: pa.RecordBatch) -> np.ndarray:
    """Where the rows of each id begin, and the end: int64[ids+1]."""
    codes = rows.column("code").to_numpy()
    if not len(codes):
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]]).astype(np.int64)


def _judge_objects(rows: pa.RecordBatch) -> Judged:
    rows = _by_id(rows, "object_id", lambda _, counts: counts > 1)
    keys = rows.column("key").to_numpy()
    times, horizons = micros(rows.column("ts")), rows.column("horizon").to_numpy()
    duplicate = duplicate_objects(_starts(rows), keys, times, horizons, names.ROW_BITS)
    keys = keys[duplicate]
    return keys, pa.repeat("duplicate", len(keys)), pa.nulls(len(keys), pa.int64())


def _judge_requests(rows: pa.RecordBatch) -> Judged:
    deletes = pc.equal(rows.column("op"), "delete").to_numpy(zero_copy_only=False)
    rows = _by_id(
        rows, "subscription_id", lambda codes, counts: (counts > 1) | (np.bincount(codes, deletes, len(counts)) > 0)
    )
    keys = rows.column("key").to_numpy()
    expires = rows.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US).to_numpy()
    outcome, concerned = judge_operations(
        _starts(rows),
        keys,
        pc.equal(rows.column("op"), "delete").to_numpy(zero_copy_only=False),
        micros(rows.column("at")),
        expires,
    )
    return keys, pa.array(OUTCOMES, pa.string()).take(pa.array(outcome)), pa.array(concerned, mask=concerned < 0)
