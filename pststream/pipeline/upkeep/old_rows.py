"""Remove the rows and changes of answers that are older than the setting `keep` allows (`pststream maintain`).

The age of an object and of its matches is that of its `ts`, that of a reject the start of its ingest, that of a
question, its answers and its reject the time when it was answered. Rows that an object still to be matched may need
stay, however old: the bound is never later than the horizon of the ledger. Reports of `frequent_terms` have words of
objects: those whose tick is below the bound of objects, which counted no other objects, are removed with them.

A clock that is wrong once removes nothing too early: what counts is the earlier one of the times of this call and of
the last one.
"""

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.answers.contract import OLD_CHANGES, remaining_rows
from pststream.base import names
from pststream.base.arrow_columns import micros
from pststream.base.progress import Progress
from pststream.base.utc_times import iso, to_micros, utc_now
from pststream.engine.running_engine import get_engine
from pststream.pipeline.upkeep.erase import finish_erasure, remove_rows, restart_deliveries, without_other_writers
from pststream.pipeline.upkeep.pairs_table import GOLD_PAIRS, drop_old_pairs
from pststream.pipeline.upkeep.row_changes import RejectsBelow, ReportsBelow, RowChange, RowsBelow
from pststream.settings import Settings, read_keep
from pststream.state import erasures
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import KEEP
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction, read_table
from pststream.tables.ledgers import Ledger

AGE_OF = {
    names.MATCHES: "ts",
    names.OBJECTS: "ts",
    names.DEAD_LETTERS: "written_at",
    names.REJECTS: "ingest_id",
    names.QUESTION_ANSWERS: "question_file",
    names.QUESTIONS: "question_file",
}
"""The column that gives the age of a row. Ingests and files of questions are numbered in the order of their times."""

LEDGER_OF = {
    names.REJECTS: names.FILES,
    names.QUESTION_ANSWERS: names.QUESTION_FILES,
    names.QUESTIONS: names.QUESTION_FILES,
}
"""The ledger with the time of each number, where the age is a number."""

MATCH_COLUMNS = ("ts", "subscription_keys", "retracted", "batch_id")


CLOCK = "clock.json"
"""File of the home that has the time of the last call of `remove_old`."""


def remove_old(home: Home, settings: Settings, progress: Progress) -> dict[str, int]:
    """Remove rows and changes of answers that are too old, and finish an interrupted erasure; return the rows removed,
    by table.

    The home is locked. Nothing is removed while a batch is unfinished, and no rows while an ingest is: the next
    `maintain` does it.
    """
    now, ledger = utc_now(), Ledger(home)
    before = min(now, last_clock(home, ledger) or now)
    removed = Counter(_remove_old_rows(home, settings, before, progress))
    if ledger.unfinished_batch() is None:
        removed += Counter(remove_old_changes(home, settings, before))
    home.files.write(CLOCK, json.dumps(iso(now)).encode())
    return dict(removed)


def last_clock(home: Home, ledger: Ledger) -> dt.datetime | None:
    """Return the time of the last call of `remove_old`; without one, that of the last ingest or batch, or None."""
    try:
        return dt.datetime.fromisoformat(json.loads(home.files.read(CLOCK)))
    except (FileNotFoundError, ValueError, TypeError):
        return max((one["started_at"] for one in (*ledger.files[-1:], *ledger.batches[-1:])), default=None)


def _remove_old_rows(home: Home, settings: Settings, now: dt.datetime, progress: Progress) -> dict[str, int]:
    erasures.restore_tables(home)
    days, ledger = read_keep(settings.keep), Ledger(home)
    is_idle = ledger.unfinished_batch() is None and not ledger.unfinished_ingest()
    if not is_idle or not (days or erasures.load_pending(home)):
        return {}
    removed: dict[str, int] = {}
    with without_other_writers(home, settings):
        finish_erasure(home, settings, progress)
        erasure_id = erasures.next_erasure_id(home)
        for name in (name for name in names.KEEPABLE if name in days and name in AGE_OF):
            oldest = now - dt.timedelta(days=days[name])
            bound = _bound(home, settings, ledger, name, oldest)
            if bound is None:
                continue
            if name == names.MATCHES and (count := drop_old_pairs(home, settings, bound)):
                removed[GOLD_PAIRS] = count
            for change in _changes(home, name, bound, oldest):
                if count := remove_rows(home, settings, change, erasure_id, KEEP):
                    removed[change.table] = removed.get(change.table, 0) + count
        erasures.restore_tables(home)
    return removed


def _changes(home: Home, name: str, bound: int, oldest: dt.datetime) -> list[RowChange]:
    """Return the changes that remove the rows below a bound from a table, and of `objects` the reports on them."""
    if name == names.OBJECTS:
        return [ReportsBelow(names.ANSWER_LOG, ("ts", "term"), bound), RowsBelow(name, ("ts",), bound)]
    if name == names.REJECTS:
        answered = read_table(
            home.table(names.QUESTION_FILES), ["ingest_id", "path"], pds.field("started_at") >= oldest
        )
        recent = {f"{row['ingest_id']} {row['path']}" for row in answered.to_pylist()}
        return [RejectsBelow(name, ("ingest_id", "kind", "file"), bound, tuple(sorted(recent)))]
    return [RowsBelow(name, MATCH_COLUMNS if name == names.MATCHES else (AGE_OF[name],), bound)]


def _bound(home: Home, settings: Settings, ledger: Ledger, name: str, oldest: dt.datetime) -> int | None:
    """Return the value of the column AGE_OF below which rows are too old; None if none is."""
    if name in LEDGER_OF:
        return _first_since(home, LEDGER_OF[name], AGE_OF[name], oldest)
    if name == names.DEAD_LETTERS:
        return to_micros(oldest)
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    return None if horizon is None else min(to_micros(oldest), to_micros(horizon))


def _first_since(home: Home, ledger: str, column: str, oldest: dt.datetime) -> int:
    """Return the number in a ledger that follows the last one which started before a time; 0 if there is none.

    Numbers whose time is still to come, or before that of an earlier number, are as old as the next other one.
    """
    rows = read_table(home.table(ledger), [column, "started_at"]).sort_by(column)
    numbers, times = rows[column].to_numpy(), micros(rows["started_at"])
    times = np.where(times <= to_micros(utc_now()), times, names.NO_TIME)
    is_old = (times > names.NO_TIME) & (times == np.maximum.accumulate(times)) & (times < to_micros(oldest))
    return int(numbers[is_old].max(initial=-1)) + 1


CHANGE = {"part": "change"}


@dataclass(frozen=True)
class _OldChanges:
    """What a task needs to know: the changes up to a batch are old; ticks from `ticks_from` (microseconds) stay."""

    root: str
    files: tuple[tuple[str, DataFile], ...]
    up_to: int
    ticks_from: int


def remove_old_changes(home: Home, settings: Settings, now: dt.datetime) -> dict[str, int]:
    """Remove changes that are too old, in one commit; return {"answer_log": rows removed}, empty if there are none.

    The old changes of a bucket are replaced by their sum, the rows that entered and have not left. Of reports, these
    are the last one of each subscription and all that later objects may still change.

    The home is locked, and no batch is unfinished. The transaction id of the commit is the last batch with old changes.
    """
    days = read_keep(settings.keep).get(names.ANSWER_LOG)
    up_to = _first_since(home, names.BATCHES, "batch_id", now - dt.timedelta(days=days)) - 1 if days else 0
    if up_to <= last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES):
        return {}
    with without_other_writers(home, settings):
        return _remove(home, settings, up_to)


def _remove(home: Home, settings: Settings, up_to: int) -> dict[str, int]:
    """Remove the changes of the batches up to one that no answer needs."""
    logged = KeyRange("batch_id", -1, up_to).files(list_data_files(home, names.ANSWER_LOG))
    files = [file for file in logged if file.partition == CHANGE]
    addresses = [path for path, _ in addresses_and_rows(home, names.ANSWER_LOG, files)]
    horizon = Ledger(home).horizon(dt.timedelta(seconds=settings.lateness_seconds))
    ticks_from = names.NEVER_US if horizon is None else to_micros(horizon)
    old = _OldChanges(home.table(names.ANSWER_LOG), tuple(zip(addresses, files, strict=True)), up_to, ticks_from)
    written = get_engine(settings, home).run_tasks(range(home.answer_buckets), partial(_sum_up, old)) if files else []
    removed = sum(rows for _, rows in written)
    if not removed:
        return {}
    added = [file for parts, _ in written for file in parts]
    crash_point("maintain.changes_written")
    restart_deliveries(home, settings, erasures.next_erasure_id(home), KEEP, names.ANSWER_LOG)
    commit_files(home, names.ANSWER_LOG, added, files, application=OLD_CHANGES, transaction=up_to)
    crash_point("maintain.changes_removed")
    return {names.ANSWER_LOG: removed}


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
