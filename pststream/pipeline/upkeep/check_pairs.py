"""Judge the pairs of finished batches by the suites of the home, for `pststream check`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pststream.base.utc_times import utc_now
from pststream.input.judge_frames import judge_frames
from pststream.input.judged_rows import PAIRS, SUBJECTS, make_frame
from pststream.input.run_suites import SuiteResult, load_suites
from pststream.input.suite_files import Suite
from pststream.reports.embedded_sql import run_query
from pststream.settings import Settings
from pststream.state.home import Home


@dataclass(frozen=True)
class PairCheck:
    """The document of the check, its rows of `quality_results`, and the addresses of its Data Docs."""

    document: dict[str, Any]
    rows: list[dict[str, Any]]
    data_docs: list[str]


def load_pair_suites(home: Home) -> list[Suite]:
    """Return the checked suites for pairs; raises as `load_suites`, and MissingExtra if DuckDB is not installed."""
    suites = load_suites(home.files, home.path, PAIRS)
    if suites:
        run_query(home, "SELECT 1", ())
    return suites


def check_pairs(home: Home, settings: Settings, suites: Sequence[Suite], after: int, to: int) -> PairCheck:
    """Judge the pairs of the batches after `after` up to `to`, at most `suite_rows` of them, drawn at random.

    Without pairs nothing is judged, and the check passes.
    """
    began = time.perf_counter()
    columns = [name for name in SUBJECTS[PAIRS].names if any(name in suite.columns for suite in suites)]
    of_batches = f"FROM pairs WHERE batch_id > {after} AND batch_id <= {to}"
    (count,) = run_query(home, f"SELECT count(*) AS pairs {of_batches}", ()).column(0).to_pylist()
    results: list[SuiteResult] = []
    data_docs: list[str] = []
    if count:
        drawn = "ORDER BY hash(object_key, subscription_key) " if count > settings.suite_rows else ""
        query = f"SELECT {', '.join(columns)} {of_batches} {drawn}LIMIT {settings.suite_rows}"
        schema = pa.schema([SUBJECTS[PAIRS].field(name) for name in columns])
        frame = make_frame(run_query(home, query, ()).cast(schema))
        [results], page = judge_frames(home.files, home.path, suites, [(f"batches {after + 1} to {to}", frame)])
        data_docs.append(page)
    judged = min(count, settings.suite_rows)
    passed = [f"pairs of the batches up to {after:,}: an earlier check has passed them"] if after else []
    beyond = [f"{count - judged:,} pairs: suite_rows bounds those that are judged"] if judged < count else []
    document = {
        "check": PAIRS,
        "success": all(one.success for one in results),
        "failed": [reason for one in results for reason in one.reasons],
        "skipped": [*passed, *beyond],
        "figures": {"pairs": count, "judged": judged},
        "batch_id": to,
        "seconds": round(time.perf_counter() - began, 3),
    }
    return PairCheck(document, [_row(one, to) for one in results], data_docs)


def _row(result: SuiteResult, batch_id: int) -> dict[str, Any]:
    """Return the row of `quality_results`."""
    return {
        "checked_at": utc_now(),
        "suite": result.suite.label,
        "subject": PAIRS,
        "success": result.success,
        "failed": result.reasons,
        "results": result.rows,
        "batch_id": batch_id,
    }
