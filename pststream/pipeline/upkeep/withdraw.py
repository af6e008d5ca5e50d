"""Withdraw objects, such as those of a wrong clock, by an event in the object log (`pststream withdraw`).

The event takes one position (`pipeline/index/withdrawals.py` writes it). From there on the watermark, the search
for repeated ids, late subscriptions and new batches ignore the objects, and the next batch retracts their matches. The
objects stay stored. A run that was killed has withdrawn all of them or none, and is run again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import micros, one_array, utf8_of
from pststream.base.errors import UsageError
from pststream.base.progress import Progress, no_progress
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.engine.running_engine import get_engine
from pststream.kernels.parsing.texts import hash_texts
from pststream.pipeline.batch.micro_batch import finish_interrupted_work
from pststream.pipeline.index.withdrawals import greatest_ts_of_others, record_withdrawal
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import MAX_ROW, FileRow, Ledger, in_one_round, log_key, read_files
from pststream.tables.log_events import WithdrawnRows, withdrawn_objects

REASONS = ("late", "duplicate")
MAX_LISTED_FILES = 100


@dataclass(frozen=True)
class Selection:
    """The objects to withdraw: those that meet every condition that is given, at least one of them.

    object_ids  empty: any
    paths       paths of input files, as `files` and `rejects` have them; empty: any
    since       least ts (microseconds)
    until       ts before which they are
    """

    object_ids: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    since: int = names.NO_TIME
    until: int = names.NEVER_US

    def __bool__(self) -> bool:
        return self != Selection()


@dataclass(frozen=True)
class SelectedObjects:
    """Keys of selected objects, int64[n], ascending, and the distinct hashes of their ids, int64[], ascending.

    So an object takes at most 16 bytes, however long its id is.
    """

    keys: np.ndarray
    id_hashes: np.ndarray


def withdraw(
    home: Home, settings: Settings, selection: Selection, *, dry_run: bool = False, progress: Progress = no_progress
) -> dict[str, Any]:
    """Withdraw the objects of a selection that are not withdrawn yet.

    Returns {"dry_run", "withdrawal_id" (null if nothing is withdrawn), "objects" (how many), "matched_objects" (those
    that batches have covered), "watermark_before", "watermark_after", "rejects": what `count_caused_rejects` returns},
    which `pststream withdraw --json` prints. Ends an interrupted ingest or batch first. The driver has 16 bytes
    in memory for each object. Raises UsageError for a path that was not ingested; then nothing has changed.
    """
    home.check()
    with nullcontext() if dry_run else home.locked():
        if not dry_run:
            finish_interrupted_work(home, settings, progress)
        ledger, withdrawn = Ledger(home), withdrawn_objects(home)
        selected = select_objects(home, settings, selection, withdrawn)
        keys, watermark = selected.keys, greatest_ts_of_others(home, selected.keys, withdrawn)
        before = after = ledger.watermark()
        nothing = {"rows": 0}
        rejects: dict[str, Any] = {"late": nothing, "duplicate": nothing, "files": []}
        withdrawal_id = None
        if len(keys):
            after = None if watermark is None else from_micros(watermark)
            rejects = count_caused_rejects(home, selected, withdrawn)
        if len(keys) and not dry_run:
            withdrawal_id = record_withdrawal(home, settings, keys, watermark, progress)
        return {
            "dry_run": dry_run,
            "withdrawal_id": withdrawal_id,
            "objects": len(keys),
            "matched_objects": int(np.searchsorted(keys, ledger.objects_matched, "right")),
            "watermark_before": iso(before),
            "watermark_after": iso(after),
            "rejects": rejects,
        }


def select_objects(home: Home, settings: Settings, selection: Selection, withdrawn: WithdrawnRows) -> SelectedObjects:
    """Return the selected objects that are not withdrawn yet.

    Raises UsageError for a path that is not that of an ingested file.
    """
    file_seqs = _file_seqs(home, selection.paths) if selection.paths else None
    files = [
        file
        for file in list_data_files(home, names.OBJECTS)
        if file.may_contain("ts", selection.since, selection.until)
        and (file_seqs is None or _has_rows_of(file, file_seqs))
    ]
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    select = partial(_select, selection, file_seqs, withdrawn)
    parts = get_engine(settings, home).run_tasks(tasks, select) if tasks else []
    keys, hashes = (
        np.concatenate([np.empty(0, np.int64), *columns]) for columns in (zip(*parts) if parts else ((), ()))
    )
    keys.sort()
    return SelectedObjects(keys, distinct_values(hashes))


def _file_seqs(home: Home, paths: Sequence[str]) -> np.ndarray:
    """Return the numbers of the ingested files of objects with these paths: int64[n]."""
    wanted = pds.field("path").isin(list(paths)) & (pds.field("kind") == names.OBJECTS)
    rows = read_table(home.table(names.FILES), ["path", "file_seq"], wanted)
    unknown = set(paths) - set(rows.column("path").to_pylist())
    if unknown:
        raise UsageError(
            f"no file of objects with the path {min(unknown)} was ingested",
            "give the path as `pststream ingest` was given it, made absolute",
        )
    return distinct_values(rows.column("file_seq").to_numpy())


def _select(
    selection: Selection, file_seqs: np.ndarray | None, withdrawn: WithdrawnRows, slices: tuple[Slice, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of the selected objects in the slices, and the hashes of their ids: int64[n] each."""
    chosen_keys, hashes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in read_slices(slices, ["object_key", "object_id", "ts"]):
        keys, times = rows.column("object_key").to_numpy(), micros(rows.column("ts"))
        wanted = (times >= selection.since) & (times < selection.until) & ~withdrawn.contain(keys)
        if file_seqs is not None:
            wanted &= np.isin(keys >> names.ROW_BITS, file_seqs)
        if selection.object_ids:
            is_named = pc.is_in(rows.column("object_id"), pa.array(selection.object_ids, pa.string()))
            wanted &= is_named.to_numpy(zero_copy_only=False)
        chosen_keys.append(keys[wanted])
        hashes.append(hash_texts(*utf8_of(rows.column("object_id").filter(pa.array(wanted)))))
    return np.concatenate(chosen_keys), np.concatenate(hashes)


@dataclass(frozen=True)
class _Horizon:
    """Times (microseconds) before which the objects of a file were late: with the selected objects, and without."""

    given: int = names.NO_TIME
    without: int = names.NO_TIME


def count_caused_rejects(home: Home, selected: SelectedObjects, withdrawn: WithdrawnRows) -> dict[str, Any]:
    """Count the rejects that the selected objects (at least one) have caused, apart from those withdrawn earlier.

    late: rows that would not have been late, had these objects not moved the watermark. duplicate: rows with the id of
    one of these objects. Returns {"late", "duplicate": {"rows"}, "files": [{"path", "rows"}], at most
    MAX_LISTED_FILES}.
    """
    first = int(selected.keys[0]) >> names.ROW_BITS
    begin = min(first, int(withdrawn.keys[0]) >> names.ROW_BITS) if withdrawn else first
    of_objects = (pds.field("kind") == names.OBJECTS) & (pds.field("file_seq") >= begin)
    files = [one for one in read_files(home, of_objects) if one["status"] == "done" and one["withdrawal_id"] is None]
    horizons = _horizons(home, files, selected.keys, withdrawn)
    files = [one for one in files if one["file_seq"] >= first]
    of_files = [horizons[one["file_seq"]] for one in files]
    bounds = pa.table(
        {
            "ingest_id": [one["ingest_id"] for one in files],
            "file": [one["path"] for one in files],
            "given": [one.given for one in of_files],
            "without": [one.without for one in of_files],
        }
    )
    counts = {reason: {"rows": 0} for reason in REASONS}
    by_file = Counter[str]()
    for rejects in _read_rejects(home, files[0]["ingest_id"]):
        rows = rejects.join(bounds, ["ingest_id", "file"], join_type="inner").combine_chunks()
        ts = rows.column("ts")
        hashes = hash_texts(*utf8_of(one_array(rows.column("raw")).fill_null("")))
        is_caused = {
            "late": pc.and_(pc.greater_equal(ts, rows.column("without")), pc.less(ts, rows.column("given"))),
            "duplicate": pa.array(is_among(hashes, selected.id_hashes)),
        }
        for reason, caused in is_caused.items():
            part = rows.filter(pc.and_(pc.equal(rows.column("reason"), reason), caused))
            counts[reason]["rows"] += part.num_rows
            by_file.update({one["values"]: one["counts"] for one in part.column("file").value_counts().to_pylist()})
    listed = sorted(by_file.items(), key=lambda one: (-one[1], one[0]))[:MAX_LISTED_FILES]
    return {**counts, "files": [{"path": path, "rows": rows} for path, rows in listed]}


def _read_rejects(home: Home, ingest_id: int) -> Iterator[pa.Table]:
    """Yield some late and duplicate objects at a time of the ingests from this one on, with their ts in microseconds.

    Their stored fields may be more than memory has: one object of a wrong clock makes all later ones late.
    """
    since = KeyRange("ingest_id", ingest_id - 1, names.MAX_INT64)
    files = since.files(list_data_files(home, names.REJECTS))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.REJECTS, files)]
    for rows in read_slices(slices, ["kind", "file", "reason", "raw", "ingest_id", "record"], since):
        is_known = pc.is_in(rows.column("reason"), pa.array(REASONS))
        wanted = rows.filter(pc.and_(pc.equal(rows.column("kind"), names.OBJECTS), is_known))
        if not wanted.num_rows:
            continue
        named = {name: wanted.column(name) for name in ("file", "reason", "raw", "ingest_id")}
        yield pa.table({**named, "ts": pc.struct_field(wanted.column("record"), "ts").cast(pa.int64())})


def _horizons(home: Home, files: list[FileRow], selected: np.ndarray, withdrawn: WithdrawnRows) -> dict[int, _Horizon]:
    """Return the horizons of each file as if objects withdrawn earlier had never come.

    files: no such object is in a file before the first, so that the watermark of the first does not depend on them
    """
    earlier = withdrawn.keys if withdrawn else np.empty(0, np.int64)
    lowered, affected = (set(distinct_values(keys >> names.ROW_BITS).tolist()) for keys in (earlier, selected))
    wanted = {file["file_seq"] for file in files} & (lowered | affected)
    remaining = _greatest_times(home, wanted, selected, withdrawn)
    watermark = files[0]["watermark"]
    given = without = names.NO_TIME if watermark is None else to_micros(watermark)
    horizons: dict[int, _Horizon] = {}
    before = None
    for file in files:
        if before is None or not in_one_round(before, file):
            of_round = _Horizon(given, without)
        before = file
        late_by = json.loads(file["options"])["lateness_seconds"] * 1_000_000
        horizons[file["file_seq"]] = _Horizon(
            max(of_round.given - late_by, names.NO_TIME), max(of_round.without - late_by, names.NO_TIME)
        )
        stated = names.NO_TIME if file["max_ts"] is None else to_micros(file["max_ts"])
        greatest = remaining.get(file["file_seq"], _Horizon())
        given = max(given, greatest.given if file["file_seq"] in lowered else stated)
        without = max(without, greatest.without if file["file_seq"] in wanted else stated)
    return horizons


def _greatest_times(
    home: Home, file_seqs: set[int], selected: np.ndarray, withdrawn: WithdrawnRows
) -> dict[int, _Horizon]:
    """Return the greatest ts (microseconds) in each of these files: of the objects that are not withdrawn, and of those
    of them that are not selected.
    """
    keys = KeyRange("object_key", log_key(min(file_seqs), 0) - 1, log_key(max(file_seqs), MAX_ROW))
    numbers = np.array(sorted(file_seqs), np.int64)
    files = [one for one in keys.files(list_data_files(home, names.OBJECTS)) if _has_rows_of(one, numbers)]
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
    greatest: dict[int, _Horizon] = {}
    for rows in read_slices(slices, ["object_key", "ts"], keys):
        object_keys, times = rows.column("object_key").to_numpy(), micros(rows.column("ts"))
        counts = ~withdrawn.contain(object_keys)
        stays = counts & ~is_among(object_keys, selected)
        numbers = object_keys >> names.ROW_BITS
        for file_seq in distinct_values(numbers[counts]).tolist():
            before = greatest.get(file_seq, _Horizon())
            of_file = numbers == file_seq
            greatest[file_seq] = _Horizon(
                int(times[of_file & counts].max(initial=before.given)),
                int(times[of_file & stays].max(initial=before.without)),
            )
    return greatest


def _has_rows_of(file: DataFile, file_seqs: np.ndarray) -> bool:
    """Whether a data file may have objects of one of these input files (int64[n], ascending)."""
    low, high = file.low.get("object_key", 0), file.high.get("object_key", names.MAX_INT64)
    first, end = np.searchsorted(file_seqs, [low >> names.ROW_BITS, (high >> names.ROW_BITS) + 1])
    return bool(first < end)
