"""Remove the rows that are older than the setting `keep` allows (`pststream maintain`).

The age of an object and of its matches is that of its `ts`, that of a reject the start of its ingest, that of a
question, its answers and its reject the time when it was answered. Rows that an object still to be matched may need
stay, however old: the bound is never later than the horizon of the ledger. Reports of `frequent_terms` have words of
objects: those whose tick is below the bound of objects, which counted no other objects, are removed with them. Other
changes of answers have a module of their own (`old_changes`).
"""

import datetime as dt

import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import greatest_value, read_table
from pststream.ledgers.log_end import Ledger
from pststream.pipeline.upkeep.erase import finish_erasure, remove_rows, restart_deliveries, without_other_writers
from pststream.pipeline.upkeep.remove_rows import find_rows
from pststream.pipeline.upkeep.row_changes import RejectsBelow, ReportsBelow, RowsBelow
from pststream.progress import Progress
from pststream.settings import Settings, read_keep
from pststream.state import erasures
from pststream.state.erasures import KEEP
from pststream.state.home import Home
from pststream.utc_times import to_micros, utc_now

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

ALSO_READ = {names.MATCHES: ("subscription_keys", "retracted", "batch_id"), names.REJECTS: ("kind", "file")}


def remove_old_rows(home: Home, settings: Settings, progress: Progress) -> dict[str, int]:
    """Remove rows that are too old, and finish an interrupted erasure; return the rows removed, by table.

    The home is locked. Nothing is removed while an ingest or a batch is unfinished: the next `maintain` does it.
    """
    erasures.restore_tables(home)
    days, ledger = read_keep(settings.keep), Ledger(home)
    is_idle = ledger.unfinished_batch() is None and not ledger.unfinished_ingest()
    if not is_idle or not (days or erasures.load_pending(home)):
        return {}
    removed: dict[str, int] = {}
    with without_other_writers(home, settings):
        finish_erasure(home, settings, progress)
        erasure_id, now = erasures.next_erasure_id(home), utc_now()
        for name in (name for name in names.KEEPABLE if name in days and name in AGE_OF):
            oldest = now - dt.timedelta(days=days[name])
            bound = _bound(home, settings, ledger, name, oldest)
            if bound is None:
                continue
            change = RowsBelow(name, AGE_OF[name], bound, ALSO_READ.get(name, ()))
            if name == names.REJECTS:
                change = RejectsBelow(name, AGE_OF[name], bound, ALSO_READ[name], _recent_questions(home, oldest))
            reports = [ReportsBelow(names.ANSWER_LOG, "ts", bound, ("term",))] if name == names.OBJECTS else []
            for one in (*reports, change):
                affected = find_rows(home, settings, one)
                if affected.rows:
                    restart_deliveries(home, settings, erasure_id, KEEP, one.table, affected.pairs.batch_ids)
                remove_rows(home, settings, one, affected, erasure_id, KEEP)
                if affected.rows:
                    removed[one.table] = removed.get(one.table, 0) + affected.rows
        erasures.restore_tables(home)
    return removed


def _recent_questions(home: Home, oldest: dt.datetime) -> tuple[str, ...]:
    """Return the files of questions that were answered since, as RejectsBelow names them."""
    is_recent = pds.field("started_at") >= oldest
    rows = read_table(home.table(names.QUESTION_FILES), ["ingest_id", "path"], is_recent)
    return tuple(sorted({f"{row['ingest_id']} {row['path']}" for row in rows.to_pylist()}))


def _bound(home: Home, settings: Settings, ledger: Ledger, name: str, oldest: dt.datetime) -> int | None:
    """Return the value of the column AGE_OF below which rows are too old; None if none is."""
    if name in LEDGER_OF:
        stored, column = LEDGER_OF[name], AGE_OF[name]
        recent = read_table(home.table(stored), [column], pds.field("started_at") >= oldest).column(0)
        first = pc.min(recent).as_py()
        return greatest_value(home.table(stored), column) + 1 if first is None else int(first)
    if name == names.DEAD_LETTERS:
        return to_micros(oldest)
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    return None if horizon is None else min(to_micros(oldest), to_micros(horizon))
