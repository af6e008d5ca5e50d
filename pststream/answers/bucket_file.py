"""Keep the state of a bucket in a file that one process maps: subscriptions, limits and buffers, up to a batch.

The file is derived data. Only committed batches are written into it, so it always is the state after a batch, or it is
marked dirty by a process that was killed while it wrote. Then, or after a restart of the machine, which may have lost
pages that were not flushed, the file counts as missing, and the caller builds it again.

Layout: a header, then the columns (`pststream.kernels.answers.columns`), each at a multiple of 64 bytes and with room
for more rows or slots. When the room is used up, the file is replaced by a larger one without ended subscriptions.
"""

import fcntl
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from pststream.answers.contract import BatchEnd, Logged, Subscriptions, Thresholds, Values
from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.atomic_files import replacing
from pststream.kernels.answers.buffers import (
    ObjectBounds,
    bound_objects,
    copy_entries,
    make_buffer,
    mark_used,
    number_objects,
)
from pststream.kernels.answers.columns import ENDED, LAST_OBJECT, LIVE, NEVER, WAITING, Columns, End, Ends, Rows
from pststream.kernels.answers.fold_rows import LimitRows, load_rows, read_entries, rows_of_keys
from pststream.kernels.sort_and_search import sort_with
from pststream.queries.kinds.registry import MOST_TIMES_K
from pststream.storage.array_cache import KeptMappings

SPREAD = 0.2
"""Greatest share by which the number departs from the one that is given."""


def spread_kept(keys: np.ndarray, k: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return how many entries the buffers of subscriptions with a window keep at an evaluation: int32[n], at least k.

    The numbers lie around `kept`, by the key alone and evenly spread, so that buffers that are made together do not run
    dry together. A buffer with more entries runs dry less often, but more objects enter it; no choice changes an
    answer. The benchmark `topk` compares it with the policies of Skype and its peers.

    Source: Skype, section 6. Departures: the buffers are plain ones, without the counters of dominance that remove an
    entry when `k` newer and better ones are in it. By Theorem 6 they run dry as often, and a late object, which newer
    ones may dominate at once, needs no count. The threshold rises at each cut of a buffer, to its last entry (`fold`);
    in the paper it stays until the next evaluation.
    """
    # Bits of the product with an odd number that has no pattern; neighbouring keys differ in all of them.
    hashed = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    share = hashed / float(1 << 24) * 2 - 1
    return np.maximum(np.rint(kept * (1 + SPREAD * share)), k).astype(np.int32)


def key_order(keys: np.ndarray) -> np.ndarray:
    """Return the positions of keys (int64[n], not negative) in ascending order, equal ones in theirs: int32[n]."""
    if not len(keys) or np.all(keys[1:] >= keys[:-1]):
        return np.arange(len(keys), dtype=np.int32)
    least = keys.min()
    bits = max(int(keys.max() - least).bit_length(), 1)
    return np.asarray(sort_with(keys - least, np.arange(len(keys), dtype=np.int32), bits)[1])


def value_rows(columns: Columns, values: Values) -> tuple[Rows, np.ndarray]:
    """Return the values of subscriptions that the state has, by row, and the place of each in `values`: int32[n]."""
    order = key_order(values.subscription)
    rows = rows_of_keys(columns.key, values.subscription[order])
    if len(rows) and rows.min() < 0:
        order, rows = order[rows >= 0], rows[rows >= 0]
    return Rows(rows, values.object[order], values.ts[order], values.value[order]), order


def limit_rows(columns: Columns, thresholds: Thresholds) -> tuple[LimitRows, np.ndarray]:
    """Return the limits of subscriptions that the state has, by row, and which of `thresholds` these are: bool[n]."""
    rows = rows_of_keys(columns.key, thresholds.subscription.astype(np.int64))
    known = rows >= 0
    limits = LimitRows(rows[known], thresholds.value[known], thresholds.ts[known], thresholds.object[known])
    return limits, known


def end_rows(subscriptions: np.ndarray, keys: np.ndarray, at: np.ndarray) -> Ends:
    """Return the ends by deletions (keys int64[n], times int64[n]) of `subscriptions` (ascending keys), by row."""
    order = np.argsort(keys, kind="stable")
    rows = rows_of_keys(subscriptions, keys[order])
    return Ends(rows[rows >= 0], at[order][rows >= 0])


def kernel_end(end: BatchEnd) -> End:
    """Return the end of a batch as the kernels take it."""
    boundaries = np.array(end.boundaries, np.int64).reshape(-1, 2)
    return End(end.stream_time, end.last_object, np.array(end.windows, np.int64), boundaries)


LAYOUT = 0x5053_5441_0005
"""Name and version of the layout; the file of another version counts as missing."""

HEADER = np.dtype(
    [(name, "<i8") for name in ("layout", "clean", "batch_id", "stream_time", "started_at")]
    + [(name, "<i8") for name in ("rows", "row_room", "slots", "slot_room", "objects", "object_room", "greatest_room")]
    + [("boot", "S40")]
)

ALIGNMENT = 64

TYPES: dict[str, Any] = {
    "k": np.int32, "kept": np.int32, "room": np.int32, "size": np.int32, "status": np.uint8, "threshold": np.float32,
    "limit": np.int32, "entries": np.dtype([("value", np.float32), ("number", np.int32)]), "number_slots": np.int32,
}  # fmt: skip
"""Types of the columns that are not int64. An entry has its parts side by side: a buffer is on fewer pages."""

NO_SUBSCRIPTIONS = Subscriptions(
    *(np.empty(0, np.int32 if name in TYPES else np.int64) for name in Subscriptions._fields)
)

SPARE_SHARE = 8
"""A new file has room for one row and one slot in so many more."""

_mappings = KeptMappings[np.ndarray]()


class BucketState:
    """The state of a bucket after a batch; the file is locked until `close`.

    columns   mapped, of the rows in use and all slots
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._whole = _mappings.get(path, status, lambda: np.frombuffer(mmap.mmap(descriptor, 0), np.uint8))
        self._header = self._whole[: HEADER.itemsize].view(HEADER)[0]
        self.columns = self._view_columns()
        self._bounds: tuple[int, ObjectBounds] | None = None

    def __enter__(self) -> Self:
        """Return the state, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Close the file."""
        self.close()

    @property
    def batch_id(self) -> int:
        """The last batch that the state has."""
        return int(self._header["batch_id"])

    @property
    def stream_time(self) -> int:
        """The stream time at the end of that batch; of a state built from a snapshot, later than any."""
        return int(self._header["stream_time"])

    @property
    def started_at(self) -> int:
        """The start of that batch by the clock; 0 before the first batch."""
        return int(self._header["started_at"])

    @property
    def greatest_room(self) -> int:
        """The most slots that a subscription has or had."""
        return int(self._header["greatest_room"])

    def mark_dirty(self) -> None:
        """Record that the file is the state of no batch, before the first write of a batch."""
        self._header["clean"] = 0

    def mark_clean(self, batch_id: int, stream_time: int, started_at: int = 0) -> None:
        """Record that the file is the state after a batch, after the last write of it."""
        self._header["batch_id"], self._header["stream_time"] = batch_id, stream_time
        self._header["started_at"] = started_at
        self._header["clean"] = 1

    def add(self, subscriptions: Subscriptions) -> None:
        """Add subscriptions that have not started; a dirty state moves to a larger file if it has no room for them."""
        header, count = self._header, len(subscriptions.key)
        slots = int(rooms_of(subscriptions).sum())
        has_room = header["rows"] + count <= header["row_room"] and header["slots"] + slots <= header["slot_room"]
        first = int(header["rows"])
        if count and not (has_room and (first == 0 or subscriptions.key[0] > self.columns.key[-1])):
            self._move(subscriptions, 0)
        elif count:
            header["rows"] += count
            self._put_new(np.arange(first, first + count), subscriptions)

    def number_objects(self, ts: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the numbers of objects, new ones for new keys: int32[n].

        A dirty state moves to another file, and old numbers change, if it has no room for them.
        """
        numbers = np.empty(len(keys), np.int32)
        used = number_objects(self.columns, int(self._header["objects"]), ts, keys, numbers)
        if used < 0:
            self._move(NO_SUBSCRIPTIONS, len(distinct_values(keys)))
            used = number_objects(self.columns, int(self._header["objects"]), ts, keys, numbers)
        self._header["objects"] = used
        return numbers

    def bound_objects(self, rows: np.ndarray) -> ObjectBounds:
        """Return the bounds of all objects, or none if few of the rows (int64[n]) would use them.

        Only a row with a window loses entries; without bounds it looks up each of its objects, at a place in memory of
        its own. A batch that follows another in an open state has the same objects, and takes the same bounds.
        """
        columns, objects = self.columns, int(self._header["objects"])
        losing = np.count_nonzero((columns.window_micros[rows] > 0) | (columns.window_objects[rows] > 0))
        bounded = objects if objects < 64 * losing else 0
        if self._bounds is None or self._bounds[0] != bounded:
            self._bounds = bounded, bound_objects(columns.object_rows[:bounded])
        return self._bounds[1]

    def used_numbers(self) -> np.ndarray:
        """Return which numbers of objects are those of entries or limits: bool[n]."""
        return np.asarray(mark_used(self.columns, int(self._header["objects"])))

    def close(self) -> None:
        """Release the file and its lock."""
        if self._descriptor >= 0:
            # The mapping has a descriptor of its own, which would keep the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1

    def _move(self, subscriptions: Subscriptions, new_objects: int) -> None:
        """Move to a new file without what has ended, with new subscriptions and room for new objects."""
        moved = _make(self.path, self, subscriptions, new_objects)
        self.close()
        self.__dict__.update(moved.__dict__)

    def _view_columns(self) -> Columns:
        places, _ = _places(self._header)
        views = {}
        for name, (offset, dtype, length) in places.items():
            if name not in ("entries", "object_rows", "number_slots"):
                length = int(self._header["rows"])
            views[name] = self._whole[offset : offset + length * dtype.itemsize].view(dtype)
        views["object_rows"] = views["object_rows"].reshape(-1, 2)
        entries = views.pop("entries")
        return Columns(**views, entry_value=entries["value"], entry_number=entries["number"])

    def _put_new(self, rows: np.ndarray, subscriptions: Subscriptions) -> None:
        """Write subscriptions that have not started to new rows, with slots after those in use."""
        rooms, slots = rooms_of(subscriptions), int(self._header["slots"])
        self._header["slots"] = slots + rooms.sum()
        self._header["greatest_room"] = max(self.greatest_room, int(rooms.max(initial=0)))
        self.columns = columns = self._view_columns()
        for name in ("key", "created_at", "end_at", "counts_from", "window_micros", "window_objects", "k"):
            getattr(columns, name)[rows] = getattr(subscriptions, name)
        columns.kept[rows], columns.room[rows] = kept_of(subscriptions), rooms
        columns.first_slot[rows] = slots + np.cumsum(rooms) - rooms
        columns.status[rows], columns.size[rows] = WAITING, 0
        columns.threshold[rows], columns.limit[rows] = np.inf, -1
        columns.wakes_at[rows] = np.minimum(subscriptions.created_at, subscriptions.end_at)
        columns.oldest[rows] = NEVER

    def _copy_rows(self, source: "BucketState", rows: np.ndarray, places: np.ndarray, marks: np.ndarray) -> None:
        """Copy rows of another state, with their entries and the marked objects, to new rows."""
        rooms = source.columns.room[rows].astype(np.int64)
        self._header["slots"] = rooms.sum()
        self._header["greatest_room"] = int(rooms.max(initial=0))
        self.columns = columns = self._view_columns()
        for name in Columns._fields:
            if not name.startswith(("entry_", "object_", "number_")):
                getattr(columns, name)[places] = getattr(source.columns, name)[rows]
        columns.first_slot[places] = np.cumsum(rooms) - rooms
        numbers = np.full(len(marks), -1, np.int32)
        numbers[marks] = self.number_objects(*source.columns.object_rows[: len(marks)][marks].T.copy())
        copy_entries(source.columns, rows, columns, places, numbers)


class Objects(NamedTuple):
    """Objects, each once: ts and key, int64[n] each."""

    ts: np.ndarray
    key: np.ndarray


def kept_of(subscriptions: Subscriptions) -> np.ndarray:
    """Return the entries that an evaluation of each keeps: its `k` without a window; int32[n]."""
    windowed = (subscriptions.window_micros > 0) | (subscriptions.window_objects > 0)
    return np.where(windowed, np.maximum(subscriptions.kept, subscriptions.k), subscriptions.k).astype(np.int32)


def rooms_of(subscriptions: Subscriptions) -> np.ndarray:
    """Return the slots of each: int64[n]. Without a window it has `k`, which it keeps.

    With one it has MOST_TIMES_K times `k`, or what it keeps if that is more.
    """
    windowed = (subscriptions.window_micros > 0) | (subscriptions.window_objects > 0)
    kept = kept_of(subscriptions).astype(np.int64)
    return np.where(windowed, np.maximum(kept, MOST_TIMES_K * subscriptions.k.astype(np.int64)), kept)


def open_bucket(path: Path) -> BucketState | None:
    """Open the state of a bucket and lock it.

    Return None, and the caller builds it again, if the file is missing, torn, dirty, of another layout, older than the
    start of the machine, or in use: a second attempt of a task does not wait for the first.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        header = np.frombuffer(os.pread(descriptor, HEADER.itemsize, 0).ljust(HEADER.itemsize, b"\0"), HEADER)[0]
        whole = header["layout"] == LAYOUT and header["clean"] == 1 and header["boot"] == boot_identity()
        if whole and os.fstat(descriptor).st_size == _places(header)[1]:
            return BucketState(path, descriptor)
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def build_bucket(
    path: Path, subscriptions: Subscriptions, objects: Objects, buffers: Iterable[Logged], batch_id: int
) -> BucketState:
    """Build the state after a batch from a snapshot, replace the file, open and lock it.

    subscriptions   those that live or have not started; `end_at` after deletions
    objects         those of all buffers and limits
    buffers         in parts: entries, and limits of the subscriptions that have been evaluated; the next `fold` asks
                    for the others
    """
    state = _make(path, None, subscriptions, len(objects.key))
    # Numbers follow time, so that blocks of them have narrow bounds.
    order = np.argsort(objects.ts, kind="stable")
    state.number_objects(objects.ts[order], objects.key[order])
    buffer = make_buffer(state.greatest_room + 1)
    for part in buffers:
        numbers, limit_numbers = number_all(state, part.entries, part.thresholds)
        rows, order = value_rows(state.columns, part.entries)
        limits, known = limit_rows(state.columns, part.thresholds)
        bounds = state.bound_objects(limits.row)
        load_rows(state.columns, bounds, rows, numbers[order], limits, limit_numbers[known], buffer)
    state.mark_clean(batch_id, LAST_OBJECT)
    return state


def unite_objects(buffers: Iterable[Logged]) -> Objects:
    """Return the objects of entries and limits, each once."""
    united = Objects(np.empty(0, np.int64), np.empty(0, np.int64))
    for entries, limits, _ in buffers:
        keys = np.concatenate([united.key, entries.object, limits.object])
        keys, first = np.unique(keys, return_index=True)
        united = Objects(np.concatenate([united.ts, entries.ts, limits.ts])[first[keys >= 0]], keys[keys >= 0])
    return united


def number_all(state: BucketState, entries: Values, thresholds: Thresholds) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the objects of entries, and of limits: both int32[n].

    New objects get numbers in the order of the log, which mostly is that of time: blocks of them have narrow bounds.
    """
    ts, keys = np.concatenate([entries.ts, thresholds.ts]), np.concatenate([entries.object, thresholds.object])
    numbers, order = np.full(len(keys), -1, np.int32), np.flatnonzero(keys >= 0)
    order = order[key_order(keys[order])]
    numbers[order] = state.number_objects(ts[order], keys[order])
    return numbers[: len(entries.ts)], numbers[len(entries.ts) :]


def _make(path: Path, old: BucketState | None, subscriptions: Subscriptions, new_objects: int) -> BucketState:
    """Make a dirty file of the rows of a state that have not ended, and of new subscriptions, in the order of keys."""
    kept = np.flatnonzero(old.columns.status != ENDED) if old else np.empty(0, np.int64)
    keys = np.concatenate([old.columns.key[kept] if old else kept, subscriptions.key])
    marks = old.used_numbers() if old else np.empty(0, np.bool_)
    slots = int((old.columns.room[kept].sum(dtype=np.int64) if old else 0) + rooms_of(subscriptions).sum())
    header = np.zeros((), HEADER)
    header["layout"], header["boot"], header["rows"] = LAYOUT, boot_identity(), len(keys)
    header["row_room"] = len(keys) + len(keys) // SPARE_SHARE + 1024
    header["slot_room"] = slots + slots // SPARE_SHARE + 16 * 1024
    header["object_room"] = (int(marks.sum()) + new_objects) * 3 // 2 + 16 * 1024
    positions = np.empty(len(keys), np.int64)
    positions[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, several_writers=True, durable=False) as temporary:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Its room is on the disk from the start: a process that writes to a mapped file dies if the disk is full.
        os.posix_fallocate(descriptor, 0, _places(header)[1])
        os.pwrite(descriptor, header.tobytes(), 0)
        state = BucketState(path, descriptor)
        if old:
            state._copy_rows(old, kept, positions[: len(kept)], marks)
        state._put_new(positions[len(kept) :], subscriptions)
    return state


def _places(header: np.ndarray) -> tuple[dict[str, tuple[int, np.dtype, int]], int]:
    """Return where each column begins, its type and length, and the size of the file."""
    objects = int(header["object_room"])
    lengths = {"object_rows": 2 * objects, "number_slots": 1 << (2 * objects).bit_length()}
    lengths["entries"] = int(header["slot_room"])
    places, offset = {}, -(-HEADER.itemsize // ALIGNMENT) * ALIGNMENT
    for name in ("entries", *(name for name in Columns._fields if not name.startswith("entry_"))):
        dtype = np.dtype(TYPES.get(name, np.int64))
        length = lengths.get(name, int(header["row_room"]))
        places[name] = offset, dtype, length
        offset += -(-length * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return places, offset


def boot_identity() -> bytes:
    """Return the identity of this start of the machine, where the system has one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return b"-"


def read_buffers(state: BucketState) -> Logged:
    """Return the entries of all live subscriptions, in the order of their keys and the best first, and their limits."""
    return _read_rows(state, np.flatnonzero(state.columns.status == LIVE))


def read_parts(state: BucketState, entries: int) -> Iterator[Logged]:
    """Yield what `read_buffers` returns in parts by ascending key, each of about so many entries.

    `build_bucket` makes the same state of them and of the subscriptions.
    """
    live = np.flatnonzero(state.columns.status == LIVE)
    parts = max(-(-int(state.columns.size[live].sum(dtype=np.int64)) // entries), 1)
    return (_read_rows(state, rows) for rows in np.array_split(live, parts))


def _read_rows(state: BucketState, live: np.ndarray) -> Logged:
    columns = state.columns
    rows = read_entries(columns, live)
    numbers = columns.limit[live]
    ts, keys = (
        np.where(numbers >= 0, columns.object_rows[numbers, part], none)
        for part, none in enumerate((names.NO_TIME, -1))
    )
    limits = Thresholds(columns.key[live], columns.threshold[live], ts, keys, np.zeros(len(live), np.bool_))
    return Logged(Values(columns.key[rows.row], rows.object, rows.ts, rows.value), limits)
