"""Remove changes of answers that are older than the setting `keep` allows, but for those that answers still need.

The answers are the sum of all changes. So the old changes of a bucket are replaced by their sum: the rows that entered
and have not left. Of reports, these are the last one of each subscription and all that later objects may still change.
"""

import datetime as dt
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.answers.remaining_rows import OLD_CHANGES, remaining_rows
from pststream.delta_tables import greatest_value, last_transaction, read_table
from pststream.ledgers.log_end import Ledger
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.upkeep.erase import restart_deliveries, without_other_writers
from pststream.settings import Settings, read_keep
from pststream.state import erasures
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import KEEP
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.utc_times import to_micros, utc_now

CHANGE = {"part": "change"}


@dataclass(frozen=True)
class _OldChanges:
    """What a task needs to know: the changes up to a batch are old; ticks from `ticks_from` (microseconds) stay."""

    root: str
    files: tuple[tuple[str, DataFile], ...]
    up_to: int
    ticks_from: int


def remove_old_changes(home: Home, settings: Settings) -> dict[str, int]:
    """Remove changes that are too old, in one commit; return {"answer_log": rows removed}, empty if there are none.

    The home is locked, and no batch is unfinished. The transaction id of the commit is the last batch with old changes.
    """
    days = read_keep(settings.keep).get(names.ANSWER_LOG)
    up_to = _last_old_batch(home, utc_now() - dt.timedelta(days=days)) if days else 0
    if up_to <= last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES):
        return {}
    with without_other_writers(home, settings):
        return _remove(home, settings, up_to)


def _remove(home: Home, settings: Settings, up_to: int) -> dict[str, int]:
    """Remove the changes of the batches up to one that no answer needs."""
    files = KeyRange("batch_id", -1, up_to).files(list_data_files(home, names.ANSWER_LOG))
    files = [file for file in files if file.partition == CHANGE]
    addresses = [path for path, _ in addresses_and_rows(home, names.ANSWER_LOG, files)]
    horizon = Ledger(home).horizon(dt.timedelta(seconds=settings.lateness_seconds))
    ticks_from = names.NEVER_US if horizon is None else to_micros(horizon)
    old = _OldChanges(home.table(names.ANSWER_LOG), tuple(zip(addresses, files, strict=True)), up_to, ticks_from)
    written = get_engine(settings).run_tasks(range(home.answer_buckets), partial(_sum_up, old)) if files else []
    removed = sum(rows for _, rows in written)
    if not removed:
        return {}
    added = [file for parts, _ in written for file in parts]
    crash_point("maintain.changes_written")
    restart_deliveries(home, settings, erasures.next_erasure_id(home), KEEP, names.ANSWER_LOG)
    commit_files(home, names.ANSWER_LOG, added, files, application=OLD_CHANGES, transaction=up_to)
    crash_point("maintain.changes_removed")
    return {names.ANSWER_LOG: removed}


def _last_old_batch(home: Home, oldest: dt.datetime) -> int:
    """Return the last batch before the first that started at a time or later; 0: there is none."""
    recent = read_table(home.table(names.BATCHES), ["batch_id"], pds.field("started_at") >= oldest).column(0)
    first = pc.min(recent).as_py()
    return greatest_value(home.table(names.BATCHES), "batch_id") if first is None else int(first) - 1


def _sum_up(old: _OldChanges, bucket: int) -> tuple[list[DataFile], int]:
    """Write the changes of a bucket that stay; return the files and the number of the other rows."""
    columns = [name for name in TABLES[names.ANSWER_LOG].schema.names if name != "part"]
    summed, later = (FileWriter(old.root, TABLES[names.ANSWER_LOG].schema, CHANGE) for _ in range(2))
    slices = [whole_file(path) for path, file in old.files if file.may_contain("bucket", bucket, bucket)]
    parts = []
    for rows in read_slices(slices, columns):
        rows = rows.filter(pc.equal(rows.column("bucket"), bucket))
        is_old = pc.less_equal(rows.column("batch_id"), old.up_to)
        parts.append(rows.filter(is_old).cast(summed.schema))
        later.write(rows.filter(pc.invert(is_old)))
    changes = pa.Table.from_batches(parts, summed.schema)
    stay = changes.take(pa.array(remaining_rows(changes, old.ticks_from))).sort_by("batch_id")
    for rows in stay.to_batches():
        summed.write(rows)
    return [file for file in (summed.close(), later.close()) if file is not None], changes.num_rows - stay.num_rows
