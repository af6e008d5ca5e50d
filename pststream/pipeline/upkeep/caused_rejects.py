"""Count the rejects that are late or duplicates because of objects that are to be withdrawn."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.domain.arrow_columns import micros, one_array
from pststream.kernels.parsing.tokens import hash_texts
from pststream.ledgers.ledger_rows import MAX_ROW, FileRow, log_key
from pststream.ledgers.log_end import read_files
from pststream.ledgers.withdrawals import WithdrawnObjects
from pststream.pipeline.upkeep.selected_objects import SelectedObjects
from pststream.sorted_keys import distinct_values, is_among
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.text.buffers import utf8_of
from pststream.utc_times import to_micros

REASONS = ("late", "duplicate")
MAX_LISTED_FILES = 100


@dataclass(frozen=True)
class _Horizon:
    """Times (microseconds) before which the objects of a file were late: with the selected objects, and without."""

    given: int = names.NO_TIME
    without: int = names.NO_TIME


def count_caused_rejects(home: Home, selected: SelectedObjects, withdrawn: WithdrawnObjects) -> dict[str, Any]:
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
    bounds = pa.table(
        {
            "ingest_id": [one["ingest_id"] for one in files],
            "file": [one["path"] for one in files],
            "given": [horizons[one["file_seq"]].given for one in files],
            "without": [horizons[one["file_seq"]].without for one in files],
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


def _horizons(
    home: Home, files: list[FileRow], selected: np.ndarray, withdrawn: WithdrawnObjects
) -> dict[int, _Horizon]:
    """Return the horizons of each file, had there been no objects that were withdrawn earlier.

    files: none of these objects is in a file before the first, so that its watermark is without them
    """
    earlier = withdrawn.keys if withdrawn else np.empty(0, np.int64)
    lowered, affected = (set(distinct_values(keys >> names.ROW_BITS).tolist()) for keys in (earlier, selected))
    wanted = {file["file_seq"] for file in files} & (lowered | affected)
    remaining = _greatest_times(home, wanted, selected, withdrawn)
    watermark = files[0]["watermark"]
    given = without = names.NO_TIME if watermark is None else to_micros(watermark)
    horizons: dict[int, _Horizon] = {}
    for file in files:
        late_by = json.loads(file["options"])["lateness_seconds"] * 1_000_000
        horizons[file["file_seq"]] = _Horizon(
            max(given - late_by, names.NO_TIME), max(without - late_by, names.NO_TIME)
        )
        stated = names.NO_TIME if file["max_ts"] is None else to_micros(file["max_ts"])
        greatest = remaining.get(file["file_seq"], _Horizon())
        given = max(given, greatest.given if file["file_seq"] in lowered else stated)
        without = max(without, greatest.without if file["file_seq"] in wanted else stated)
    return horizons


def _greatest_times(
    home: Home, file_seqs: set[int], selected: np.ndarray, withdrawn: WithdrawnObjects
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
        for number in distinct_values(numbers[counts]).tolist():
            before = greatest.get(number, _Horizon())
            of_file = numbers == number
            greatest[number] = _Horizon(
                int(times[of_file & counts].max(initial=before.given)),
                int(times[of_file & stays].max(initial=before.without)),
            )
    return greatest


def _has_rows_of(file: DataFile, file_seqs: np.ndarray) -> bool:
    """Whether a data file may have objects of one of these input files (int64[n], ascending)."""
    low, high = file.low.get("object_key", 0), file.high.get("object_key", names.MAX_INT64)
    first, end = np.searchsorted(file_seqs, [low >> names.ROW_BITS, (high >> names.ROW_BITS) + 1])
    return bool(first < end)
