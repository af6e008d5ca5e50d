"""Run all consistency checks of a home (`pststream check`) and append their results to `quality_results`.

Each check returns a few counts of faults, whatever the size of the home: tasks compare the rows (check_index.py and
check_answers.py too) and return counts, each of which should be zero (input/expectations.py). Great Expectations judges
stored rows and pairs by the suites of the home.
"""

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import find_among
from pststream.base.arrow_columns import csr, sum_column
from pststream.base.errors import PstError
from pststream.base.optional_packages import MissingExtra
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.base.utc_times import to_micros, utc_now
from pststream.engine.running_engine import get_engine
from pststream.input.expectations import TableFaults, check_thresholds, table_thresholds
from pststream.input.run_suites import SuiteResult, judge_frames, load_suites
from pststream.input.suite_files import OBJECTS, PAIRS, REQUESTS, SUBJECTS, Suite, make_frame
from pststream.pipeline.ingest.landing_gate import quality_row
from pststream.pipeline.upkeep.check_answers import count_answer_faults
from pststream.pipeline.upkeep.check_index import count_placement_faults
from pststream.pipeline.upkeep.pairs_table import count_pairs_off
from pststream.planning.papers.topk_planners import plan_levels
from pststream.plans.plan_rows import topk_plan_from_row
from pststream.reports.reading.pairs import has_gold_table
from pststream.reports.views import run_query
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.erasures import count_removed, count_removed_pairs, removed_rows
from pststream.state.home import Home
from pststream.state.plans import read_plan_rows, read_topk_row
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, read_batches, read_latest, seconds_ahead


def count_topk_plan_faults(home: Home) -> dict[str, int]:
    """Return the figures `topk_plans_off` and `topk_plans_broken` of the check `ledger`.

    Rows that no plan version names do not count: a killed planner has left them. One plan is read at a time.
    """
    named = read_table(home.table(names.PLANS), ["topk_version"]).column(0).drop_null().to_pylist()
    stored = Counter(read_table(home.table(names.TOPK_PLANS), ["plan_version"]).column(0).to_pylist())
    known = set(named) & set(stored)
    return {
        "topk_plans_off": sum(stored[version] != 1 for version in named),
        "topk_plans_broken": sum(not is_whole(read_topk_row(home, version)) for version in known),
    }


def is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a row of `topk_plans` is a valid plan of the levels that its planner makes, with its figures."""
    try:
        plan = topk_plan_from_row(row)
        options = read_planner_options(json.loads(row["options"])["planner_options"])
        levels = plan_levels(plan.planner, plan.units, options)
    except (ValueError, KeyError, TypeError, PstError):
        return False
    figures = np.array([row["replication"], row["copies"], row["seconds"], *row["unit_loads"]])
    counted = len(row["unit_loads"]) == plan.units and bool((figures >= 0).all())
    return counted and levels == (plan.way, plan.first, plan.second, plan.is_prefix)


Figures = dict[str, int | None]

RANGES = ("objects_after", "objects_to", "requests_after", "requests_to")
"""Columns of `batches` with the key ranges of a batch."""

_FILE = ["kind", "accepted", "rejected", "watermark", "max_ts", "withdrawal_id"]


def count_ledger_faults(home: Home, max_ahead_seconds: int = 0) -> Figures:
    """Return the figures of the check `ledger` (input/expectations.py); None for a figure that an unfinished
    ingest, or file of questions, makes undefined.

    Files of questions may be answered meanwhile, so an unfinished one is no fault. Rows that `erase` and `maintain`
    removed are counted as if they were there. Reads some columns of the ledgers and the lists of data files; of
    `objects` only the keys in files that the last batch matched in part.
    """
    batches = read_latest(home, names.BATCHES, "batch_id", [*RANGES, "objects"])
    files = read_latest(home, names.FILES, "file_seq", _FILE)
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


def _missing(home: Home, table: str, column: str) -> int:
    """Count the numbers from 1 to the greatest that have no row, plus each further `done` row of the same number."""
    rows = read_table(home.table(table), [column, "status"])
    numbers, done = rows.column(column), _done(rows).column(column)
    greatest = pc.max(numbers).as_py() or 0
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


FIELDS = (*RANGES, "matches", "retractions")


@dataclass
class TaskCounts:
    """Counts of one task: rows of unknown batches, pairs out of range; pairs and retractions by index of the batch."""

    unknown: int
    outside: int
    pairs: np.ndarray
    retractions: np.ndarray


def count_match_faults(home: Home, settings: Settings, after: int, to: int, progress: Progress) -> dict[str, int]:
    """Return the figures of the check `matches` (input/expectations.py) for the batches in (after, to], which
    are done.

    A task has 65,536 rows of `matches` in memory at a time, and two counts for each batch.
    """
    batch_id = pds.field("batch_id")
    rows = read_latest(home, names.BATCHES, "batch_id", list(FIELDS), (batch_id > after) & (batch_id <= to))
    batches = {name: pc.fill_null(rows.column(name), 0).to_numpy() for name in ("batch_id", *FIELDS)}
    wanted = KeyRange("batch_id", after, to)
    tasks = split_into_tasks(
        addresses_and_rows(home, names.MATCHES, wanted.files(list_data_files(home, names.MATCHES)))
    )
    counter = TaskCounter(progress, Counted("matches", "row", rows_of_tasks(tasks)))
    counts = get_engine(settings, home).run_tasks(tasks, partial(_count, batches, wanted), counter)
    none = np.zeros(rows.num_rows, np.int64)
    pairs = sum((one.pairs for one in counts), none)
    retractions = sum((one.retractions for one in counts), none)
    removed_pairs, removed_retractions = count_removed_pairs(removed_rows(home)).of_batches(batches["batch_id"])
    off = (pairs + removed_pairs != batches["matches"]) | (retractions + removed_retractions != batches["retractions"])
    return {
        "unknown_batches": sum(one.unknown for one in counts),
        "out_of_range": sum(one.outside for one in counts),
        "pairs_off": int(off.sum()),
    }


def _count(batches: dict[str, np.ndarray], wanted: KeyRange, slices: tuple[Slice, ...]) -> TaskCounts:
    count = len(batches["batch_id"])
    counts = TaskCounts(0, 0, np.zeros(count, np.int64), np.zeros(count, np.int64))
    for rows in read_slices(slices, ["object_key", "subscription_keys", "retracted", "batch_id"], wanted):
        index, known = find_among(rows.column("batch_id").to_numpy(), batches["batch_id"])
        counts.unknown += int((~known).sum())
        _count_pairs(batches, rows.filter(pa.array(known)), index[known], counts)
    return counts


def _count_pairs(batches: dict[str, np.ndarray], rows: pa.RecordBatch, index: np.ndarray, counts: TaskCounts) -> None:
    """Add the pairs of rows to `counts`; index: that of the batch of each row.

    A pair has a new object and any subscription up to the batch, or a stored object and a new subscription; a
    retraction has any object and any subscription up to the batch.
    """
    offsets, subscription = csr(rows.column("subscription_keys"))
    owner = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
    batch = index[owner]
    retracted = pc.fill_null(rows.column("retracted"), False).to_numpy(zero_copy_only=False)[owner]
    object_key = rows.column("object_key").to_numpy()[owner]
    stored = object_key <= batches["objects_after"][batch]
    new = subscription > batches["requests_after"][batch]
    within = (object_key <= batches["objects_to"][batch]) & (subscription <= batches["requests_to"][batch])
    counts.outside += int((~(within & (~stored | new | retracted))).sum())
    counts.pairs += np.bincount(batch[~retracted], minlength=len(counts.pairs))
    counts.retractions += np.bincount(batch[retracted], minlength=len(counts.pairs))


CHECKED = {
    OBJECTS: ("object_key", "objects_to", "object_key"),
    REQUESTS: ("request_key", "requests_to", "request_key"),
    PAIRS: ("batch_id", "batch_id", "object_key, subscription_key"),
}
"""What suites judge in the check: the column that says which batch has a row, the column of `batches` with its last
value, and the columns that name the row.
"""


def load_checked_suites(home: Home) -> tuple[dict[str, list[Suite]], str]:
    """Return the checked suites for stored rows and pairs, by subject, and why they are not run, if they are not.

    Raises SuiteError for a suite that cannot be used.
    """
    suites: dict[str, list[Suite]] = {}
    try:
        for subject in CHECKED:
            if of_subject := load_suites(home.files, home.path, subject):
                suites[subject] = of_subject
        if suites:
            run_query(home, "SELECT 1", ())
    except MissingExtra as error:
        return {}, "suites are not run: " + " ".join(str(error).split())
    return suites, ""


def check_rows(
    home: Home, settings: Settings, subject: str, suites: Sequence[Suite], after: int, to: int
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """Judge the rows that the batches after `after` up to `to` have read or matched, at most `suite_rows` of them,
    drawn at random.

    Without rows nothing is judged, and the check passes. Returns the document of the check, its rows of
    `quality_results`, and the addresses of its Data Docs.
    """
    began = time.perf_counter()
    columns = [name for name in SUBJECTS[subject].names if any(name in suite.columns for suite in suites)]
    column, last_of_batch, names_row = CHECKED[subject]
    tables = () if subject == PAIRS else (subject,)
    first, last = (_last_of_batch(home, last_of_batch, batch) for batch in (after, to))
    of_batches = f"FROM {subject} WHERE {column} > {first} AND {column} <= {last}"
    (count,) = run_query(home, f"SELECT count(*) AS found {of_batches}", tables).column(0).to_pylist()
    results: list[SuiteResult] = []
    data_docs: list[str] = []
    if count:
        drawn = f"ORDER BY hash({names_row}) " if count > settings.suite_rows else ""
        query = f"SELECT {', '.join(columns)} {of_batches} {drawn}LIMIT {settings.suite_rows}"
        schema = pa.schema([SUBJECTS[subject].field(name) for name in columns])
        frame = make_frame(run_query(home, query, tables).cast(schema))
        [results], page = judge_frames(home.files, home.path, suites, [(f"batches {after + 1} to {to}", frame)])
        data_docs.append(page)
    judged = min(count, settings.suite_rows)
    passed = [f"{subject} of the batches up to {after:,}: an earlier check has passed them"] if after else []
    beyond = [f"{count - judged:,} {subject}: suite_rows bounds those that are judged"] if judged < count else []
    failed = [reason for one in results for reason in one.reasons]
    figures = {subject: count, "judged": judged}
    document = _document(subject, all(one.success for one in results), failed, [*passed, *beyond], figures, to, began)
    return (
        document,
        [quality_row(one.suite.label, subject, one.success, one.reasons, one.rows, to) for one in results],
        data_docs,
    )


def _last_of_batch(home: Home, column: str, batch_id: int) -> int:
    """Return the value of a column of `batches` in a batch; -1 if there is no such batch."""
    batch = next(iter(read_batches(home, batch_id - 1, batch_id)), None)
    return int(cast("dict[str, Any]", batch)[column]) if batch else -1


SUITE = "tables"


def check_tables(home: Home, settings: Settings, *, everything: bool = False, progress: Progress = no_progress) -> Any:
    """Run the checks.

    Returns {"success", "checks": [{"check", "success", "failed", "skipped" (what was not compared), "figures",
    "batch_id", "seconds"}], "data_docs": [addresses of pages]}.

    Checks the matches and judges the rows and pairs of batches after the last batch that has passed; with `everything`,
    those of all batches. Locks the home, and raises HomeBusy while another command has it locked;
    SuiteError before any work.
    """
    home.check()
    suites, not_run = load_checked_suites(home)
    checks, rows = [], []
    with home.locked():
        ledger = Ledger(home)
        batch, unfinished = ledger.last_batch, ledger.unfinished_batch()
        if unfinished is not None:
            batch = next(iter(read_batches(home, unfinished["batch_id"] - 2, unfinished["batch_id"] - 1)), None)
        last: dict[str, Any] = dict(batch) if batch else {"batch_id": 0, "requests_to": 0}
        for name, count in _fault_counters(home, settings, ledger, last, everything, progress).items():
            began = time.perf_counter()
            faults = count()
            (judged,) = check_thresholds([faults.figures], table_thresholds(name))
            failed = [
                one.sentence + _examples(faults.examples.get(one.name)) for one in judged.results if not one.success
            ]
            skipped = faults.list_skipped()
            checks.append(_document(name, judged.success, failed, skipped, faults.figures, last["batch_id"], began))
            results = [
                {"name": figure, "value": value, "success": value == 0}
                for figure, value in faults.figures.items()
                if value is not None
            ]
            rows.append(quality_row(SUITE, name, judged.success, failed, results, last["batch_id"]))
            _report(progress, checks[-1])
        data_docs: list[str] = []
        if not_run:
            progress(not_run)
        for subject, of_subject in suites.items():
            since = 0 if everything else min(_passed(home, suite.label, subject) for suite in of_subject)
            document, judged_rows, pages = check_rows(home, settings, subject, of_subject, since, last["batch_id"])
            checks.append(document)
            rows += judged_rows
            data_docs += pages
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
    passed_before = (f"matches of the batches up to {after:,}: an earlier check has passed them",) if after else ()
    horizon = ledger.horizon(dt.timedelta(seconds=settings.lateness_seconds))
    bound = names.NO_TIME if horizon is None else to_micros(horizon)
    counters: dict[str, Callable[[], TableFaults]] = {
        "ledger": lambda: TableFaults(count_ledger_faults(home, settings.max_ahead_seconds)),
        "placement": lambda: TableFaults(
            *count_placement_faults(home, settings, last["requests_to"], last["batch_id"], bound, progress)
        ),
        "matches": lambda: TableFaults(
            dict(count_match_faults(home, settings, after, last["batch_id"], progress)), {}, passed_before
        ),
    }
    if list_data_files(home, names.ANSWER_LOG) and last["batch_id"]:
        counters["answers"] = lambda: count_answer_faults(
            home, settings, last["batch_id"], 0 if everything else _passed(home, SUITE, "answers"), progress
        )
    if has_gold_table(home):
        counters["gold"] = lambda: TableFaults({"gold_off": count_pairs_off(home)})
    return counters


def _report(progress: Progress, check: dict[str, Any]) -> None:
    progress(f"{check['check']}: {'passed' if check['success'] else '; '.join(check['failed'])}")
    for what in check["skipped"]:
        progress(f"{check['check']}: not compared: {what}")


def _passed(home: Home, suite: str, name: str) -> int:
    """Return the number of the last batch that a check has passed."""
    passed = (pds.field("suite") == suite) & (pds.field("subject") == name) & pds.field("success")
    rows = read_table(home.table(names.QUALITY_RESULTS), ["batch_id"], passed)
    return max(rows.column(0).to_pylist(), default=0)


def _examples(keys: Sequence[int] | None) -> str:
    return f" (subscription keys such as {', '.join(map(str, keys))})" if keys else ""


def _document(
    name: str,
    success: bool,
    failed: list[str],
    skipped: list[str],
    figures: Mapping[str, int | None],
    batch_id: int,
    began: float,
) -> dict[str, Any]:
    """Return the document of a check; began: time (of `time.perf_counter`) when it began."""
    return {
        "check": name,
        "success": success,
        "failed": failed,
        "skipped": skipped,
        "figures": figures,
        "batch_id": batch_id,
        "seconds": round(time.perf_counter() - began, 3),
    }
