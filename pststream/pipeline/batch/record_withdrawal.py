"""Withdraw objects, whether a user asks for it or a batch sets one aside; no ingest and no batch is unfinished then."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import is_among
from pststream.base.arrow_columns import micros
from pststream.base.progress import Progress
from pststream.base.utc_times import to_micros
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, REASONS
from pststream.pipeline.index.restore_ended import restore_ended
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import login_name
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES
from pststream.state.withdrawals import append_withdrawal
from pststream.tables.delta_tables import last_transaction, read_table
from pststream.tables.ledgers import MAX_ROW, Ledger
from pststream.tables.log_events import SET_ASIDE, WithdrawnObjects, is_set_aside


def record_withdrawal(
    home: Home,
    settings: Settings,
    keys: np.ndarray,
    watermark: int | None,
    progress: Progress,
    set_aside: bool = False,
) -> int:
    """Withdraw objects (keys int64[n], ascending); return the number of the withdrawal.

    watermark: of the objects that are left (`greatest_ts_of_others`)
    set_aside: whether their batch fails; the caller then writes the rejects
    """
    ledger = Ledger(home)
    _restore_subscriptions(home, settings, ledger, watermark, progress)
    options = {SET_ASIDE: int(keys[0])} if set_aside else {"requested_by": login_name()}
    return append_withdrawal(home, ledger, keys, watermark, options, int(set_aside))


def _restore_subscriptions(
    home: Home, settings: Settings, ledger: Ledger, watermark: int | None, progress: Progress
) -> None:
    """Index subscriptions again that ended before every object to come, and no longer do."""
    before = ledger.watermark()
    if before is None or (watermark is not None and watermark >= to_micros(before)):
        return
    since = names.NO_TIME if watermark is None else watermark - settings.lateness_seconds * 1_000_000
    restored = restore_ended(home, settings, since, to_micros(before))
    crash_point("withdraw.restored")
    if restored:
        progress(f"{restored:,} pieces of ended subscriptions are in the index again")


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


def write_rejects_of_set_aside(home: Home) -> None:
    """Write the rejects of objects that were set aside and have none yet: the process may have ended in between."""
    last = last_transaction(home.table(names.REJECTS), SET_ASIDE)
    wanted = is_set_aside() & (pds.field("withdrawal_id") > last)
    columns = ["withdrawal_id", "ingest_id", "options"]
    for one in read_table(home.table(names.FILES), columns, wanted).sort_by("withdrawal_id").to_pylist():
        key = json.loads(one["options"])[SET_ASIDE]
        file = read_table(home.table(names.FILES), ["path"], pds.field("file_seq") == key >> names.ROW_BITS)
        objects = KeyRange("object_key", key - 1, key)
        files = objects.files(list_data_files(home, names.OBJECTS))
        slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
        read = read_slices(slices, ["object_key", "object_id"], objects)
        ids = [name for rows in read for name in rows.column("object_id").to_pylist()]
        reject = {
            "kind": names.OBJECTS, "file": file.column(0)[0].as_py(), "row": key & MAX_ROW, "field": "object_id",
            "reason": SET_ASIDE, "detail": REASONS[SET_ASIDE],
            "raw": ids[0][:MAX_RAW_CHARACTERS] if ids else None, "ingest_id": one["ingest_id"], "record": None,
        }  # fmt: skip
        writer = FileWriter(home.table(names.REJECTS), TABLES[names.REJECTS].schema)
        writer.write(pa.RecordBatch.from_pylist([reject], TABLES[names.REJECTS].schema))
        written = writer.close()
        if written is not None:
            number = one["withdrawal_id"]
            commit_files(home, names.REJECTS, [written], application=SET_ASIDE, transaction=number)
