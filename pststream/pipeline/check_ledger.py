"""The ledgers against themselves, and against the row counts of the tables."""

from typing import Any

import pyarrow.compute as pc

from pststream import names
from pststream.state import control
from pststream.state.data_files import data_files
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.plans import plan_rows
from pststream.state.slices import Range, read_slices, tasks_of

Figures = dict[str, int | None]


def ledger_figures(home: Home) -> Figures:
    """The figures of the check `ledger` (quality/tables.py); None for what an unfinished ingest leaves open.

    Reads the ledgers and the lists of data files; of `objects` only the keys of the files that the last batch cut.
    """
    ledger = Ledger(home)
    done = [batch for batch in ledger.batches if batch["status"] == "done"]
    unfinished = len(ledger.unfinished_ingest())
    found: Figures = {
        "unfinished_batches": len(ledger.batches) - len(done),
        "unfinished_files": unfinished,
        "missing_batches": _missing(home, names.BATCHES, "batch_id"),
        "batch_gaps": _gaps(ledger.batches),
        "missing_files": _missing(home, names.FILES, "file_seq"),
        "wrong_watermarks": _wrong_watermarks(ledger.done("objects")),
        "matched_off": sum(b["objects"] for b in done) - _rows_up_to(home, done[-1]["objects_to"] if done else 0),
        "units_off": _units_off(home),
    }
    for kind in ("objects", "requests"):
        taken = sum(file["accepted"] for file in ledger.done(kind))
        found[f"{kind}_off"] = None if unfinished else sum(f.rows for f in data_files(home, kind)) - taken
    rejected = sum(file["rejected"] for kind in ("objects", "requests") for file in ledger.done(kind))
    found["rejects_off"] = None if unfinished else sum(f.rows for f in data_files(home, names.REJECTS)) - rejected
    return found


def _missing(home: Home, table: str, number: str) -> int:
    """Numbers from 1 to the greatest that no row bears, and rows `done` beyond one of a number."""
    rows = control.read(home, table, [number, "status"])
    numbers = rows.column(number)
    greatest = pc.max(numbers).as_py() or 0
    done = rows.filter(pc.equal(rows.column("status"), "done")).column(number)
    return int(greatest - pc.count_distinct(numbers).as_py() + len(done) - pc.count_distinct(done).as_py())


def _gaps(batches: list[dict[str, Any]]) -> int:
    """Batches that do not begin where the one before ended, the first at 0, or that end before they begin."""
    gaps, objects, requests = 0, 0, 0
    for batch in batches:
        begins = (batch["objects_after"], batch["requests_after"]) == (objects, requests)
        objects, requests = batch["objects_to"], batch["requests_to"]
        gaps += not begins or objects < batch["objects_after"] or requests < batch["requests_after"]
    return gaps


def _wrong_watermarks(files: list[dict[str, Any]]) -> int:
    """Files of objects whose watermark is not the greatest ts of the files before them."""
    wrong, greatest = 0, None
    for file in files:
        wrong += file["watermark"] != greatest
        moments = [moment for moment in (greatest, file["max_ts"]) if moment is not None]
        greatest = max(moments, default=None)
    return wrong


def _rows_up_to(home: Home, key: int) -> int:
    """Objects with a key up to this one."""
    rows = 0
    for file in data_files(home, names.OBJECTS):
        if file.high.get("object_key", names.NEVER_US) <= key:
            rows += file.rows
        elif file.may_hold("object_key", 0, key):
            slices = tasks_of([(f"{home.table(names.OBJECTS)}/{file.path}", file.rows)], names.NEVER_US)[0]
            rows += sum(part.num_rows for part in read_slices(slices, ["object_key"], Range("object_key", -1, key)))
    return rows


def _units_off(home: Home) -> int:
    """Units of the plans beyond what the plans say; without those of a killed planner, which the next one removes."""
    plans = plan_rows(home)
    versions = [("plan_version", "<=", max((row["plan_version"] for row in plans), default=0))]
    units = control.read(home, names.PLAN_UNITS, ["plan_version"], versions).num_rows
    return int(units - sum(row["units"] for row in plans))
