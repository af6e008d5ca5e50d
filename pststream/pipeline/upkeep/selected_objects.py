"""Find the objects that a withdrawal names, and the greatest time of all others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import micros
from pststream.base.buffers import utf8_of
from pststream.base.errors import UsageError
from pststream.base.sorted_keys import distinct_values, is_among
from pststream.engine.running_engine import get_engine
from pststream.kernels.parsing.tokens import hash_texts
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices, split_into_tasks
from pststream.tables.delta_tables import read_table
from pststream.tables.ledger_rows import MAX_ROW, log_key
from pststream.tables.withdrawals import WithdrawnObjects

COLUMNS = ["object_key", "object_id", "ts"]


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
class _Search:
    """What tasks look for: a selection with the numbers of its files, and the objects that are withdrawn already."""

    selection: Selection
    file_seqs: np.ndarray | None
    withdrawn: WithdrawnObjects


@dataclass(frozen=True)
class SelectedObjects:
    """Keys of selected objects, int64[n], ascending, and the distinct hashes of their ids, int64[], ascending.

    So an object takes at most 16 bytes, however long its id is.
    """

    keys: np.ndarray
    id_hashes: np.ndarray


def select_objects(
    home: Home, settings: Settings, selection: Selection, withdrawn: WithdrawnObjects
) -> SelectedObjects:
    """Return the selected objects that are not withdrawn yet.

    Raises UsageError for a path that is not that of an ingested file.
    """
    file_seqs = _file_seqs(home, selection.paths) if selection.paths else None
    search = _Search(selection, file_seqs, withdrawn)
    files = [file for file in list_data_files(home, names.OBJECTS) if _may_have(file, search)]
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    parts = get_engine(settings).run_tasks(tasks, partial(_select, search)) if tasks else []
    keys, hashes = (
        np.concatenate([np.empty(0, np.int64), *columns]) for columns in (zip(*parts) if parts else ((), ()))
    )
    keys.sort()
    return SelectedObjects(keys, distinct_values(hashes))


def greatest_ts_of_others(home: Home, selected: np.ndarray, withdrawn: WithdrawnObjects) -> int | None:
    """Return the greatest ts (microseconds) of the objects that are neither in `selected` (keys int64[n], ascending)
    nor withdrawn; None if there are none. Reads the files with the latest objects only.
    """
    greatest: int | None = None
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.high.get("ts", names.NEVER_US))
    for file in reversed(files):
        if greatest is not None and file.high.get("ts", names.NEVER_US) < greatest:
            break
        slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, [file])]
        for rows in read_slices(slices, ["object_key", "ts"]):
            keys = rows.column("object_key").to_numpy()
            times = micros(rows.column("ts"))[~(is_among(keys, selected) | withdrawn.contain(keys))]
            if len(times):
                greatest = int(times.max()) if greatest is None else max(greatest, int(times.max()))
    return greatest


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


def _may_have(file: DataFile, search: _Search) -> bool:
    """Whether a data file may have selected objects."""
    selection = search.selection
    if not file.may_contain("ts", selection.since, selection.until):
        return False
    if search.file_seqs is None:
        return True
    ranges = ((log_key(seq, 0), log_key(seq, MAX_ROW)) for seq in search.file_seqs.tolist())
    return any(file.may_contain("object_key", least, greatest) for least, greatest in ranges)


def _select(search: _Search, slices: tuple[Slice, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of the selected objects in the slices, and the hashes of their ids: int64[n] each."""
    selection, chosen_keys, hashes = search.selection, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in read_slices(slices, COLUMNS):
        keys, times = rows.column("object_key").to_numpy(), micros(rows.column("ts"))
        wanted = (times >= selection.since) & (times < selection.until) & ~search.withdrawn.contain(keys)
        if search.file_seqs is not None:
            wanted &= np.isin(keys >> names.ROW_BITS, search.file_seqs)
        if selection.object_ids:
            is_named = pc.is_in(rows.column("object_id"), pa.array(selection.object_ids, pa.string()))
            wanted &= is_named.to_numpy(zero_copy_only=False)
        chosen_keys.append(keys[wanted])
        hashes.append(hash_texts(*utf8_of(rows.column("object_id").filter(pa.array(wanted)))))
    return np.concatenate(chosen_keys), np.concatenate(hashes)
