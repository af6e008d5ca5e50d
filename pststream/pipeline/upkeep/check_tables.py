"""Run all consistency checks of a home (`pststream check`) and append their results to `quality_results`.

Each check returns a few counts of faults, whatever the size of the home: tasks compare the rows (check_index.py,
check_matches.py, answers/check_answers.py) and return counts, each of which should be zero
(quality/table_expectations.py). In a home with suites for pairs, Great Expectations judges the pairs too
(check_pairs.py).
"""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import read_table
from pststream.ledgers.log_end import Ledger, read_batches
from pststream.pipeline.upkeep.answers.check_answers import count_answer_faults, has_answers
from pststream.pipeline.upkeep.check_index import count_placement_faults
from pststream.pipeline.upkeep.check_ledgers import count_ledger_faults
from pststream.pipeline.upkeep.check_matches import count_match_faults
from pststream.pipeline.upkeep.check_pairs import check_pairs, load_pair_suites
from pststream.progress import Progress, no_progress
from pststream.quality.expectations import ThresholdResults, check_thresholds
from pststream.quality.suites.judged_rows import PAIRS
from pststream.quality.table_expectations import TableFaults, table_thresholds
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.utc_times import to_micros, utc_now

SUITE = "tables"


def check_tables(home: Home, settings: Settings, *, everything: bool = False, progress: Progress = no_progress) -> Any:
    """Run the checks.

    Returns {"success", "checks": [{"check", "success", "failed", "skipped" (what was not compared), "figures",
    "batch_id", "seconds"}], "data_docs": [addresses of the pages on the pairs]}.

    Checks the matches and judges the pairs of batches after the last batch that has passed; with `everything`, those of
    all batches. Locks the home, and raises HomeBusy while another command has it locked; SuiteError before any work.
    """
    home.check()
    suites = load_pair_suites(home)
    checks, rows = [], []
    with home.locked():
        ledger = Ledger(home)
        last = _last_done(home, ledger)
        for name, count in _fault_counters(home, settings, ledger, last, everything, progress).items():
            began = time.perf_counter()
            faults = count()
            (judged,) = check_thresholds([faults.figures], table_thresholds(name))
            checks.append(_document(name, faults, judged, last["batch_id"], time.perf_counter() - began))
            rows.append(_row(checks[-1]))
            _report(progress, checks[-1])
        data_docs = []
        if suites:
            since = 0 if everything else min(_passed(home, suite.label, PAIRS) for suite in suites)
            of_pairs = check_pairs(home, settings, suites, since, last["batch_id"])
            checks.append(of_pairs.document)
            rows += of_pairs.rows
            data_docs += of_pairs.data_docs
            _report(progress, checks[-1])
        ledger_tables.append(home, names.QUALITY_RESULTS, rows)
    return {"success": all(one["success"] for one in checks), "checks": checks, "data_docs": data_docs}


def _fault_counters(
    home: Home, settings: Settings, ledger: Ledger, last: dict[str, Any], everything: bool, progress: Progress
) -> dict[str, Callable[[], TableFaults]]:
    """Return the functions that count the faults of each check, in the order in which the checks run.

    last: the last batch that is done
    """
    after = 0 if everything else _passed(home, SUITE, "matches")
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    bound = names.NO_TIME if horizon is None else to_micros(horizon)
    counters: dict[str, Callable[[], TableFaults]] = {
        "ledger": lambda: TableFaults(count_ledger_faults(home, settings.max_ahead_seconds)),
        "placement": lambda: TableFaults(
            *count_placement_faults(home, settings, last["requests_to"], last["batch_id"], bound, progress)
        ),
        "matches": lambda: TableFaults(
            dict(count_match_faults(home, settings, after, last["batch_id"], progress)), {}, _passed_before(after)
        ),
    }
    if has_answers(home) and last["batch_id"]:
        counters["answers"] = lambda: count_answer_faults(
            home, settings, last["batch_id"], 0 if everything else _passed(home, SUITE, "answers"), progress
        )
    return counters


def _report(progress: Progress, check: dict[str, Any]) -> None:
    progress(f"{check['check']}: {'passed' if check['success'] else '; '.join(check['failed'])}")
    for what in check["skipped"]:
        progress(f"{check['check']}: not compared: {what}")


def _last_done(home: Home, ledger: Ledger) -> dict[str, Any]:
    """Return the last batch that is done."""
    batch, unfinished = ledger.last_batch, ledger.unfinished_batch()
    if unfinished is not None:
        batch = next(iter(read_batches(home, unfinished["batch_id"] - 2, unfinished["batch_id"] - 1)), None)
    return dict(batch) if batch else {"batch_id": 0, "requests_to": 0}


def _passed(home: Home, suite: str, name: str) -> int:
    """Return the number of the last batch that a check has passed."""
    passed = (pds.field("suite") == suite) & (pds.field("subject") == name) & pds.field("success")
    rows = read_table(home.table(names.QUALITY_RESULTS), ["batch_id"], passed)
    return max(rows.column(0).to_pylist(), default=0)


def _passed_before(after: int) -> tuple[str, ...]:
    return (f"matches of the batches up to {after:,}: an earlier check has passed them",) if after else ()


def _document(
    name: str, faults: TableFaults, judged: ThresholdResults, batch_id: int, seconds: float
) -> dict[str, Any]:
    failed = []
    for result in judged.results:
        if not result.success:
            keys = ", ".join(map(str, faults.examples.get(result.name, [])))
            failed.append(result.sentence + (f" (subscription keys such as {keys})" if keys else ""))
    return {
        "check": name,
        "success": judged.success,
        "failed": failed,
        "skipped": faults.list_skipped(),
        "figures": faults.figures,
        "batch_id": batch_id,
        "seconds": round(seconds, 3),
    }


def _row(one: dict[str, Any]) -> dict[str, Any]:
    """Return the row of `quality_results`."""
    return {
        "checked_at": utc_now(),
        "suite": SUITE,
        "subject": one["check"],
        "success": one["success"],
        "failed": one["failed"],
        "results": [
            {"name": name, "value": value, "success": value == 0}
            for name, value in one["figures"].items()
            if value is not None
        ],
        "batch_id": one["batch_id"],
    }
