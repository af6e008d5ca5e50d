"""Count the gaps in the ledgers of batches and files, and their differences from the row counts of the tables."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import read_table
from pststream.domain.arrow_columns import sum_column
from pststream.ledgers.ledger_rows import seconds_ahead
from pststream.ledgers.log_end import Ledger, read_latest
from pststream.pipeline.upkeep.answers.check_topk_plans import count_topk_plan_faults
from pststream.state.data_files import list_data_files
from pststream.state.erasures import count_removed, removed_rows
from pststream.state.home import Home
from pststream.state.plans import read_plan_rows
from pststream.state.slices import KeyRange, read_slices, split_into_tasks
from pststream.utc_times import utc_now

Figures = dict[str, int | None]

_BATCH = ["objects_after", "objects_to", "requests_after", "requests_to", "objects"]
_FILE = ["kind", "accepted", "rejected", "watermark", "max_ts", "withdrawal_id"]


def count_ledger_faults(home: Home, max_ahead_seconds: int = 0) -> Figures:
    """Return the figures of the check `ledger` (quality/table_expectations.py); None for a figure that an unfinished
    ingest, or file of questions, makes undefined.

    Files of questions may be answered meanwhile, so an unfinished one is no fault. Rows that `erase` and `maintain`
    removed are counted as if they were there. Reads some columns of the ledgers and the lists of data files; of
    `objects` only the keys in files that the last batch matched in part.
    """
    batches, files = (
        read_latest(home, names.BATCHES, "batch_id", _BATCH),
        read_latest(home, names.FILES, "file_seq", _FILE),
    )
    done, ingested = _done(batches), _done(files)
    unfinished = files.num_rows - ingested.num_rows
    matched_to = done.column("objects_to")[-1].as_py() if done.num_rows else 0
    gone = removed_rows(home)
    figures: Figures = {
        "unfinished_batches": batches.num_rows - done.num_rows,
        "unfinished_files": unfinished,
        "missing_batches": _missing(home, names.BATCHES, "batch_id"),
        "batch_gaps": _gaps(batches),
        "missing_files": _missing(home, names.FILES, "file_seq"),
        "wrong_watermarks": _wrong_watermarks(_of_kind(ingested, names.OBJECTS)),
        "watermark_ahead": seconds_ahead(Ledger(home).watermark(), utc_now(), max_ahead_seconds),
        "matched_off": sum_column(done, "objects")
        - count_removed(gone, names.OBJECTS, "matched_objects")
        - _rows_up_to(home, matched_to),
        "units_off": _units_off(home),
    }
    for kind in ("objects", "requests"):
        accepted = sum_column(_of_kind(ingested, kind), "accepted") - count_removed(gone, kind)
        figures[f"{kind}_off"] = None if unfinished else sum(f.rows for f in list_data_files(home, kind)) - accepted
    figures |= count_topk_plan_faults(home)
    return figures | _count_answers(home, gone, None if unfinished else sum_column(ingested, "rejected"))


def _count_answers(home: Home, gone: pa.Table, rejected: int | None) -> Figures:
    """Return the figures of the tables that answered files of questions write.

    gone: the removals; rejected: rejects of the files of objects and requests, None while an ingest is unfinished
    """
    answered = _question_files(home)
    rejects, answers = (
        sum(file.rows for file in list_data_files(home, name)) + count_removed(gone, name)
        for name in (names.REJECTS, names.QUESTION_ANSWERS)
    )
    if answered is None or _question_files(home) != answered:  # files are being answered
        return {"rejects_off": None, "answers_off": None}
    off = None if rejected is None else rejects - rejected - sum_column(answered, "rejected")
    return {"rejects_off": off, "answers_off": answers - sum_column(answered, "rows")}


def _question_files(home: Home) -> pa.Table | None:
    """Return the rows of the answered files of questions; None while one is unfinished."""
    files = read_latest(home, names.QUESTION_FILES, "question_file", ["rejected", "rows"])
    answered = _done(files)
    return answered if answered.num_rows == files.num_rows else None


def _done(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(rows.column("status"), "done"))


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("kind"), kind))


def _missing(home: Home, table: str, number: str) -> int:
    """Count the numbers from 1 to the greatest that have no row, plus each further `done` row of the same number."""
    rows = read_table(home.table(table), [number, "status"])
    numbers = rows.column(number)
    greatest = pc.max(numbers).as_py() or 0
    done = rows.filter(pc.equal(rows.column("status"), "done")).column(number)
    return int(greatest - pc.count_distinct(numbers).as_py() + len(done) - pc.count_distinct(done).as_py())


def _gaps(batches: pa.Table) -> int:
    """Count the batches that do not begin where the one before ended (the first at 0) or end before they begin."""
    wrong = np.zeros(batches.num_rows, bool)
    for log in (names.OBJECTS, names.REQUESTS):
        after, to = (batches.column(f"{log}_{end}").to_numpy() for end in ("after", "to"))
        wrong |= (after != np.append(0, to)[:-1]) | (to < after)
    return int(wrong.sum())


def _wrong_watermarks(files: pa.Table) -> int:
    """Count the files of objects whose watermark is not that of the log before them: the greatest ts since the last
    withdrawal, which states the watermark after it.
    """
    none = names.NO_TIME
    stored, own = (
        pc.fill_null(files.column(name).cast(pa.int64()), none).to_numpy() for name in ("watermark", "max_ts")
    )
    before = np.append(none, own)[:-1]
    withdrawals = np.flatnonzero(pc.is_valid(files.column("withdrawal_id")).to_numpy())
    parts = np.split(before, withdrawals + 1)
    return int((stored != np.concatenate([np.maximum.accumulate(part) for part in parts])).sum())


def _rows_up_to(home: Home, key: int) -> int:
    """Count the objects with a key up to this one."""
    rows = 0
    for file in list_data_files(home, names.OBJECTS):
        if file.high.get("object_key", names.MAX_INT64) <= key:
            rows += file.rows
        elif file.may_contain("object_key", 0, key):
            slices = split_into_tasks([(f"{home.table(names.OBJECTS)}/{file.path}", file.rows)], names.MAX_INT64)[0]
            rows += sum(part.num_rows for part in read_slices(slices, ["object_key"], KeyRange("object_key", -1, key)))
    return rows


def _units_off(home: Home) -> int:
    """Return the rows of `plan_units` minus the units that the plans state; rows of a killed planner do not count."""
    plans = read_plan_rows(home)
    versions = pds.field("plan_version") <= max((row["plan_version"] for row in plans), default=0)
    units = read_table(home.table(names.PLAN_UNITS), ["plan_version"], versions).num_rows
    return int(units - sum(row["units"] for row in plans))
